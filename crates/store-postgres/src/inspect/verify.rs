//! Everything known about a batch's lines, in one snapshot.

use std::collections::BTreeMap;

use tokio_postgres::types::Type;
use windrow_domain::{BatchId, LaneNo, LineSet};
use windrow_store::error::{Error, Kind, Result};
use windrow_store::inspect::{BatchRows, LaneRows};

use crate::db::{Statement, sql};
use crate::{PostgresBackend, rows};

pub(super) async fn read(store: &PostgresBackend, batch: BatchId) -> Result<BatchRows> {
    let id = [(&batch.0 as _, Type::UUID)];
    let calls = [
        Statement { sql: sql!("inspect/audit_lanes"), params: &id },
        Statement { sql: sql!("inspect/audit_sets"), params: &id },
        Statement { sql: sql!("inspect/audit_results"), params: &id },
    ];
    let answers = store.db.snapshot(&calls).await?;
    let [lanes, sets, results] = answers.as_slice() else {
        return Err(Error::of(Kind::Corrupt));
    };
    let first = lanes.first().ok_or_else(|| Error::of(Kind::Missing))?;
    let state = rows::read(first, "state")?;

    let mut lanes_read = BTreeMap::<LaneNo, LaneRows>::new();
    for row in lanes.iter().filter(|row| row.get::<_, Option<i16>>("lane").is_some()) {
        let lane_rows = LaneRows {
            lane: rows::lane(row),
            phase: rows::read(row, "phase")?,
            cursor: rows::count(row, "cursor"),
            counts: rows::counts(row),
            returned: Vec::new(),
            leased: Vec::new(),
            finished: Default::default(),
            results: 0,
        };
        if lanes_read.insert(lane_rows.lane, lane_rows).is_some() {
            let because = "a lane has two states";
            return Err(Error::of(Kind::Corrupt).because(because));
        }
    }
    let stray = || Error::of(Kind::Corrupt).because("rows of a lane it does not have");
    for row in sets {
        let lane_rows = lanes_read.get_mut(&rows::lane(row)).ok_or_else(stray)?;
        let into = if row.get("leased") { &mut lane_rows.leased } else { &mut lane_rows.returned };
        into.push(rows::read(row, "lines")?);
    }
    let mut finished = BTreeMap::<(LaneNo, usize), Vec<u64>>::new();
    for row in results {
        let status = usize::try_from(row.get::<_, i16>("status")).ok().filter(|code| *code < 4);
        let key = (rows::lane(row), status.ok_or_else(stray)?);
        finished.entry(key).or_default().push(rows::count(row, "seq"));
    }
    for ((lane, status), seqs) in finished {
        let lane_rows = lanes_read.get_mut(&lane).ok_or_else(stray)?;
        lane_rows.results += seqs.len() as u64;
        lane_rows.finished[status] = LineSet::from_iter(seqs);
    }
    Ok(BatchRows { state, lanes: lanes_read.into_values().collect() })
}
