//! Sweeping: lost leases go back, late batches end, what is past its retention is removed.
//!
//! Holds throughout: a look that locks nothing comes first, so that a sweep with nothing to do is one
//! statement; each step is bounded, and safe beside another instance's.

use async_trait::async_trait;
use tokio_postgres::types::Type;
use uuid::Uuid;
use windrow_domain::batch::Event;
use windrow_domain::{BatchId, FileId, State};
use windrow_store::Scope;
use windrow_store::error::{Kind, Result};
use windrow_store::sweep::{DroppedOutput, Lost, Pruned, Reaped, Retention, Sweep};

use crate::db::{Sql, sql};
use crate::{PostgresBackend, rows};

#[async_trait]
impl Sweep for PostgresBackend {
    async fn return_lost(&self, limit: u32, crashes_max: u32) -> Result<Lost> {
        let now = [(&self.db.now() as _, Type::TIMESTAMPTZ)];
        if !self.db.found(sql!("sweep/has_lost"), &now).await? {
            return Ok(Lost::default());
        }
        let (limit, crashes_max) = (int(limit), int(crashes_max));
        let params = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&limit as _, Type::INT4),
            (&crashes_max as _, Type::INT4),
        ];
        let found = self.db.rows(Sql::rows("sweep/return_lost"), &params).await?;
        let finalizing: Vec<Uuid> = found[0].get("finalizing");
        Ok(Lost {
            leases: rows::count(&found[0], "leases"),
            returned: rows::count(&found[0], "returned"),
            failed: rows::count(&found[0], "failed"),
            finalizing: finalizing.into_iter().map(BatchId).collect(),
        })
    }

    async fn expire_batches(&self, limit: u32) -> Result<Vec<BatchId>> {
        let params =
            [(&self.db.now() as _, Type::TIMESTAMPTZ), (&i64::from(limit) as _, Type::INT8)];
        let late = self.db.lone(sql!("sweep/find_late"), &params).await?;
        let mut expired = Vec::new();
        for row in late {
            let batch = BatchId(row.get("id"));
            match self.steer(&Scope::All, batch, Event::DeadlinePassed, None, None).await {
                // Its window began anew in the meantime: it goes on.
                Ok(found) if matches!(found.state, State::InProgress | State::Paused) => {}
                Ok(_) => expired.push(batch),
                // Somebody cancelled, closed or deleted it in the meantime: nothing to do.
                Err(error) if matches!(error.kind, Kind::Refused | Kind::Missing) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(expired)
    }

    async fn prune(&self, retention: Retention, limit: u32) -> Result<Pruned> {
        let secs = |secs: u64| i64::try_from(secs).unwrap_or(i64::MAX).min(SECS_MAX);
        let params = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&retention.closed_batch_secs.map(secs) as _, Type::INT8),
            (&secs(retention.open_file_secs) as _, Type::INT8),
            (&secs(retention.member_secs) as _, Type::INT8),
            (&int(limit) as _, Type::INT4),
        ];
        let (looks, _) = params.split_at(4);
        if !self.db.found(sql!("sweep/has_old"), looks).await? {
            return Ok(Pruned::default());
        }
        let found = self.db.rows(Sql::rows("sweep/prune"), &params).await?;
        Ok(Pruned {
            batches: rows::count(&found[0], "batches"),
            files: rows::count(&found[0], "files"),
            members: rows::count(&found[0], "members"),
        })
    }

    async fn find_dropped_outputs(&self, limit: u32) -> Result<Vec<DroppedOutput>> {
        let params = [(&i64::from(limit) as _, Type::INT8)];
        let sql = sql!("sweep/find_dropped_outputs");
        let found = self.db.lone(sql, &params).await?;
        let output = |row: &tokio_postgres::Row| DroppedOutput {
            file: FileId(row.get("id")),
            place: row.get("place"),
        };
        Ok(found.iter().map(output).collect())
    }

    async fn forget_outputs(&self, outputs: &[DroppedOutput]) -> Result<()> {
        let ids: Vec<Uuid> = outputs.iter().map(|output| output.file.0).collect();
        let places: Vec<&str> = outputs.iter().map(|output| output.place.as_str()).collect();
        let params = [(&ids as _, Type::UUID_ARRAY), (&places as _, Type::TEXT_ARRAY)];
        let sql = sql!("sweep/forget_outputs");
        self.db.rows(sql, &params).await.map(drop)
    }

    async fn reap(&self, rows_max: u32) -> Result<Reaped> {
        if !self.db.found(sql!("sweep/has_dead"), &[]).await? {
            return Ok(Reaped::default());
        }
        let params = [(&int(rows_max.max(1)) as _, Type::INT4)];
        let found = self.db.rows(Sql::rows("sweep/reap"), &params).await?;
        Ok(Reaped { rows: rows::count(&found[0], "rows"), more: found[0].get("more") })
    }
}

/// A retention longer than this is for ever: two thousand years.
pub(crate) const SECS_MAX: i64 = 2_000 * 365 * 86_400;

fn int(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
