//! Claiming: a function picks a lane, and leases lines of it to one instance.
//!
//! Holds throughout: a claim and the reads of its lines leave together, behind the record of the same
//! turn; where live leases begin is a hint that this process keeps, never a truth.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;
use windrow_domain::{InstanceId, LeaseId, Route, Target, UpstreamId};
use windrow_store::claim::{Claim, Extended, Line, Poll, Polled, Request, Tranche, Waiting};
use windrow_store::error::Result;

use crate::db::{Sql, Statement, sql};
use crate::{PostgresBackend, rows};

/// After so many claims the hint where live leases begin is thrown away and found anew.
const HINT_CLAIMS_MAX: i64 = 256;

#[async_trait]
impl Claim for PostgresBackend {
    async fn waiting(&self, poll: Poll) -> Result<Polled> {
        let (now, limit) = (self.db.now(), i64::from(poll.limit));
        let upstreams: Vec<&str> = poll.upstreams.iter().map(UpstreamId::as_str).collect();
        let any = [
            (&now as _, Type::TIMESTAMPTZ),
            (&limit as _, Type::INT8),
            (&upstreams as _, Type::TEXT_ARRAY),
        ];
        let found = match poll.only {
            None => self.db.lone(sql!("claim/waiting"), &any).await?,
            Some(batch) => {
                let [now, limit, upstreams] = any;
                let of = [now, limit, upstreams, (&batch.0 as _, Type::UUID)];
                self.db.lone(sql!("claim/waiting_of_batch"), &of).await?
            }
        };
        let mut waiting = found.iter().map(read_waiting).collect::<Result<Vec<_>>>()?;
        // The database's order of names depends on its locale.
        waiting.sort_unstable_by(|a, b| a.route.cmp(&b.route));
        Ok(Polled { waiting, stopped: self.stopped(&poll.held).await? })
    }

    async fn extend_leases(
        &self,
        instance: InstanceId,
        known: Vec<LeaseId>,
        lease_ms: u64,
    ) -> Result<Extended> {
        let ids: Vec<Uuid> = known.iter().map(|lease| lease.0).collect();
        let extend = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&instance.0 as _, Type::UUID),
            (&ids as _, Type::UUID_ARRAY),
            (&lease_ms.cast_signed() as _, Type::INT8),
        ];
        let release = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&instance.0 as _, Type::UUID),
            (&ids as _, Type::UUID_ARRAY),
            (&false as _, Type::BOOL),
        ];
        // Two transactions: the first holds only leases, sorted; so does the second, of others.
        let extended = self.db.rows(sql!("claim/extend_leases"), &extend).await?;
        let released = self.db.rows(Sql::rows("claim/release_leases"), &release).await?;
        let extended: Vec<_> = extended.iter().map(|row| LeaseId(row.get("id"))).collect();
        let released: Vec<Uuid> = released[0].get("released");
        Ok(Extended {
            stopped: self.stopped(&extended).await?,
            lost: known.into_iter().filter(|lease| !extended.contains(lease)).collect(),
            released: released.into_iter().map(LeaseId).collect(),
            extended,
        })
    }

    async fn release_leases(&self, instance: InstanceId, leases: Vec<LeaseId>) -> Result<u64> {
        let ids: Vec<Uuid> = leases.iter().map(|lease| lease.0).collect();
        self.release(instance, &ids, true).await
    }

    async fn mark_alone(&self, instance: InstanceId, lease: LeaseId, token: u64) -> Result<bool> {
        let params = [
            (&lease.0 as _, Type::UUID),
            (&instance.0 as _, Type::UUID),
            (&token.cast_signed() as _, Type::INT8),
        ];
        let marked = self.db.rows(sql!("claim/mark_alone"), &params).await?;
        Ok(!marked.is_empty())
    }

    async fn set_limit(&self, target: &Target, in_flight_max: Option<u32>) -> Result<()> {
        let limit = in_flight_max.map(|max| i32::try_from(max).unwrap_or(i32::MAX));
        let params = [(&target.as_str() as _, Type::TEXT), (&limit as _, Type::INT4)];
        self.db.rows(Sql::value("claim/set_limit"), &params).await.map(drop)
    }
}

impl PostgresBackend {
    /// Those of the leases that must not go on, ascending. Asks nothing when there are none.
    async fn stopped(&self, leases: &[LeaseId]) -> Result<Vec<LeaseId>> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<Uuid> = leases.iter().map(|lease| lease.0).collect();
        let params = [(&self.db.now() as _, Type::TIMESTAMPTZ), (&ids as _, Type::UUID_ARRAY)];
        let found = self.db.lone(sql!("claim/stopped_leases"), &params).await?;
        Ok(found.iter().map(|row| LeaseId(row.get("id"))).collect())
    }

    /// Gives back the named leases of an instance, or all but the named ones.
    pub(crate) async fn release(
        &self,
        instance: InstanceId,
        leases: &[Uuid],
        named: bool,
    ) -> Result<u64> {
        let params = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&instance.0 as _, Type::UUID),
            (&leases as _, Type::UUID_ARRAY),
            (&named as _, Type::BOOL),
        ];
        let found = self.db.rows(Sql::rows("claim/release_leases"), &params).await?;
        Ok(rows::count(&found[0], "lines"))
    }

    /// Where live leases begin, as far as this process knows; from the start every now and then.
    pub(crate) fn leases_from(&self) -> i64 {
        if self.claims.fetch_add(1, Ordering::Relaxed) % HINT_CLAIMS_MAX == 0 {
            0
        } else {
            self.leases_from.load(Ordering::Relaxed)
        }
    }

    /// Remembers where live leases begin.
    pub(crate) fn note_leases_from(&self, row: &Row) {
        self.leases_from.store(row.get("leases_from"), Ordering::Relaxed);
    }
}

fn read_waiting(row: &Row) -> Result<Waiting> {
    let ready_in = Duration::from_micros(rows::count(row, "ready_in_us"));
    let route = Route::new(rows::upstream(row)?, rows::target(row)?);
    Ok(Waiting { route, ready_in })
}

/// A claim with its arguments as the database wants them.
pub(crate) struct Prepared<'a> {
    pub(crate) lease: Uuid,
    /// In pairs with the targets: which lanes may be claimed.
    pub(crate) upstreams: Vec<&'a str>,
    pub(crate) targets: Vec<&'a str>,
    /// Beside each pair: what a lane of it is bound to.
    pub(crate) binds: Vec<&'a str>,
    pub(crate) only: Option<Uuid>,
    pub(crate) lines_max: i32,
    pub(crate) lease_ms: i64,
}

pub(crate) fn prepare(request: &Request) -> Prepared<'_> {
    let lanes = request.lanes();
    Prepared {
        lease: request.lease.0,
        upstreams: lanes.iter().map(|lane| lane.upstream).collect(),
        targets: lanes.iter().map(|lane| lane.target).collect(),
        binds: lanes.iter().map(|lane| lane.bound_to).collect(),
        only: request.only.map(|batch| batch.0),
        lines_max: request.lines_max.cast_signed(),
        lease_ms: request.lease_ms.cast_signed(),
    }
}

/// The two reads that follow a claim in its transaction. The lease comes last: what a record in
/// between took away is then taken from the lines, too.
pub(crate) fn reads<'a>(lease: &'a [crate::db::Param<'a>; 1]) -> [Statement<'a>; 2] {
    [
        Statement { sql: sql!("claim/read_lines"), params: lease },
        Statement { sql: sql!("claim/read_lease"), params: lease },
    ]
}

/// The tranche that those reads gave, if any.
pub(crate) fn tranche(lease: &[Row], lines: &[Row]) -> Result<Option<Tranche>> {
    let Some(row) = lease.first() else {
        return Ok(None);
    };
    let lease = rows::lease(row)?;
    let mut lines: Vec<Line> = lines.iter().map(line).collect();
    lines.retain(|line| lease.held.outstanding.contains(line.seq));
    lines.sort_unstable_by_key(|line| line.seq);
    Ok(Some(Tranche { lease, lines }))
}

fn line(row: &Row) -> Line {
    let raw: &[u8] = row.get("raw");
    Line {
        seq: rows::count(row, "seq"),
        line: rows::count(row, "line"),
        raw: Bytes::copy_from_slice(raw),
    }
}
