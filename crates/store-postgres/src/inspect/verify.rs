//! Everything known about a batch's lines, in one snapshot.

use std::collections::BTreeMap;

use tokio_postgres::types::Type;
use windrow_domain::{BatchId, InstanceId, LaneNo, LineSet};
use windrow_store::error::{Error, Kind, Result};
use windrow_store::inspect::{BatchRows, LaneRows};
use windrow_store::recipe::recipe_hash;

use super::recipes;
use crate::db::{Statement, sql};
use crate::{PostgresBackend, rows};

pub(super) async fn read(store: &PostgresBackend, batch: BatchId) -> Result<BatchRows> {
    let id = [(&batch.0 as _, Type::UUID)];
    let calls = [
        Statement { sql: sql!("inspect/audit_lanes"), params: &id },
        Statement { sql: sql!("inspect/audit_sets"), params: &id },
        Statement { sql: sql!("inspect/audit_results"), params: &id },
        Statement { sql: sql!("inspect/recipes"), params: &id },
    ];
    let answers = store.db.snapshot(&calls).await?;
    let [lanes, sets, results, recipes] = answers.as_slice() else {
        return Err(Error::of(Kind::Corrupt));
    };
    let first = lanes.first().ok_or_else(|| Error::of(Kind::Missing))?;
    let state = rows::read(first, "state")?;

    let mut lanes_read = BTreeMap::<LaneNo, LaneRows>::new();
    for row in lanes.iter().filter(|row| row.get::<_, Option<i16>>("lane").is_some()) {
        let lane_rows = LaneRows {
            lane: rows::lane(row),
            upstream: rows::upstream(row)?,
            phase: rows::read(row, "phase")?,
            cursor: rows::count(row, "cursor"),
            counts: rows::counts(row),
            returned: Vec::new(),
            leased: Vec::new(),
            leased_for: Vec::new(),
            alone: Vec::new(),
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
        let lines: LineSet = rows::read(row, "lines")?;
        if row.get("leased") {
            if row.get("alone") {
                lane_rows.alone.push((InstanceId(row.get("instance_id")), lines.clone()));
            }
            lane_rows.leased.push(lines);
            lane_rows.leased_for.push(rows::upstream(row)?);
        } else {
            lane_rows.returned.push(lines);
        }
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
    let recipes = recipes.iter().map(recipes::recipe);
    Ok(BatchRows {
        state,
        generation: rows::small(first, "generation"),
        recipe_hash: rows::recipe_hash(first)?,
        recipes: recipes.map(|recipe| (recipe.generation, recipe_hash(&recipe.text))).collect(),
        lanes: lanes_read.into_values().collect(),
    })
}
