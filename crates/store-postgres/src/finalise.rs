//! Finalising: one instance takes a batch whose last lane is done, and closes it.
//!
//! Holds throughout: taking is one guarded statement; closing is a function that checks token, generation
//! and counts under the batch's lock.

use async_trait::async_trait;
use tokio_postgres::types::Type;
use uuid::Uuid;
use windrow_domain::batch::{Event, Refused};
use windrow_domain::{BatchId, FileId, InstanceId, State};
use windrow_store::batch::Batch;
use windrow_store::error::{Error, Kind, Result};
use windrow_store::finalise::{Finalisation, Finalise, NewOutput, Rows};
use windrow_store::{Inspect, Scope};

use crate::db::{Sql, sql};
use crate::{PostgresBackend, rows};

#[async_trait]
impl Finalise for PostgresBackend {
    async fn take_finalisation(
        &self,
        batch: BatchId,
        instance: InstanceId,
        lease_ms: u64,
    ) -> Result<Finalisation> {
        let params = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&batch.0 as _, Type::UUID),
            (&instance.0 as _, Type::UUID),
            (&lease_ms.cast_signed() as _, Type::INT8),
        ];
        let taken = self.db.rows(sql!("finalise/take_finalisation"), &params).await?;
        let found = self.batch(&Scope::All, batch).await?;
        let (Some(row), State::Finalizing(ending)) = (taken.first(), found.state) else {
            let (from, event) = (found.state, Event::Closed);
            return Err(match from {
                State::Finalizing(_) => Error::of(Kind::Contended),
                _ => Error::refusal(Refused { from, event }),
            });
        };
        Ok(Finalisation {
            batch,
            instance,
            token: rows::count(row, "final_token"),
            generation: rows::small(row, "generation"),
            ending,
            counts: found.counts,
            expires_at: row.get("final_until"),
        })
    }

    async fn close_batch(
        &self,
        held: &Finalisation,
        counted: Rows,
        summary: &str,
        outputs: &[NewOutput],
    ) -> Result<Batch> {
        let of = |output: &NewOutput| FileId::of_output(held.batch, output.kind).0;
        let ids: Vec<Uuid> = outputs.iter().map(of).collect();
        let names: Vec<&str> = outputs.iter().map(|output| output.name.as_str()).collect();
        let places: Vec<&str> = outputs.iter().map(|output| output.place.as_str()).collect();
        let lines: Vec<i64> = outputs.iter().map(|output| output.lines.cast_signed()).collect();
        let bytes: Vec<i64> = outputs.iter().map(|output| output.bytes.cast_signed()).collect();
        let params = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&held.batch.0 as _, Type::UUID),
            (&held.instance.0 as _, Type::UUID),
            (&held.token.cast_signed() as _, Type::INT8),
            (&held.generation.cast_signed() as _, Type::INT4),
            (&summary as _, Type::TEXT),
            (&counted.completed.cast_signed() as _, Type::INT8),
            (&counted.failed.cast_signed() as _, Type::INT8),
            (&counted.not_found.cast_signed() as _, Type::INT8),
            (&counted.skipped.cast_signed() as _, Type::INT8),
            (&ids as _, Type::UUID_ARRAY),
            (&names as _, Type::TEXT_ARRAY),
            (&places as _, Type::TEXT_ARRAY),
            (&lines as _, Type::INT8_ARRAY),
            (&bytes as _, Type::INT8_ARRAY),
        ];
        let found = self.db.rows(Sql::value("finalise/close_batch"), &params).await?;
        match found[0].get("answer") {
            "closed" => self.batch(&Scope::All, held.batch).await,
            "missing" => Err(Error::of(Kind::Missing)),
            "differs" => Err(Error::of(Kind::Conflict).because("the rows read are not the counts")),
            _ => Err(Error::of(Kind::LeaseLost)),
        }
    }

    async fn find_unclosed(&self, limit: u32) -> Result<Vec<BatchId>> {
        let now = [(&self.db.now() as _, Type::TIMESTAMPTZ)];
        if !self.db.found(sql!("finalise/has_unclosed"), &now).await? {
            return Ok(Vec::new());
        }
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let params = [(&self.db.now() as _, Type::TIMESTAMPTZ), (&limit as _, Type::INT4)];
        let sql = Sql::rows("finalise/find_unclosed");
        let found = self.db.rows(sql, &params).await?;
        Ok(found.iter().map(|row| BatchId(row.get(0))).collect())
    }
}
