//! Closing batches.

use async_trait::async_trait;
use tokio_postgres::types::Type;
use uuid::Uuid;
use windrow_domain::batch::{Event, Refused};
use windrow_domain::{BatchId, FileId, InstanceId, State};
use windrow_store::batch::Batch;
use windrow_store::claim::check_lease_ms;
use windrow_store::error::{Error, Kind, Result};
use windrow_store::finalise::{Finalisation, Finalise, NewOutput, Rows, check_outputs};
use windrow_store::{Inspect, Scope};

use crate::db::sql;
use crate::{PostgresStore, rows};

#[async_trait]
impl Finalise for PostgresStore {
    async fn take_finalisation(
        &self,
        batch: BatchId,
        instance: InstanceId,
        lease_ms: u64,
    ) -> Result<Finalisation> {
        const VERB: &str = "take finalisation";
        check_lease_ms(VERB, lease_ms)?;
        let params = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&batch.0 as _, Type::UUID),
            (&instance.0 as _, Type::UUID),
            (&lease_ms.cast_signed() as _, Type::INT8),
        ];
        let taken = self.db.rows(VERB, &batch, sql!("finalise/take_finalisation"), &params).await?;
        let found = self.batch(&Scope::All, batch).await?;
        let (Some(row), State::Finalizing(ending)) = (taken.first(), found.state) else {
            let (from, event) = (found.state, Event::Closed);
            return Err(match from {
                State::Finalizing(_) => Error::new(Kind::Contended, VERB, batch),
                _ => Error::refusal(VERB, batch, Refused { from, event }),
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
        const VERB: &str = "close batch";
        check_outputs(VERB, outputs)?;
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
        let found = self.db.rows(VERB, &held.batch, sql!("finalise/close_call"), &params).await?;
        match found[0].get("outcome") {
            "closed" => self.batch(&Scope::All, held.batch).await,
            "missing" => Err(Error::new(Kind::Missing, VERB, held.batch)),
            "differs" => Err(Error::new(Kind::Conflict, VERB, held.batch)
                .because("the rows read are not the counts")),
            _ => Err(Error::new(Kind::LeaseLost, VERB, held.batch)),
        }
    }

    async fn find_unclosed(&self, limit: u32) -> Result<Vec<BatchId>> {
        const VERB: &str = "find unclosed";
        let now = [(&self.db.now() as _, Type::TIMESTAMPTZ)];
        if !self.db.found(VERB, &"batches", sql!("finalise/has_unclosed"), &now).await? {
            return Ok(Vec::new());
        }
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let params = [(&self.db.now() as _, Type::TIMESTAMPTZ), (&limit as _, Type::INT4)];
        let sql = sql!("finalise/unclosed_call");
        let found = self.db.rows(VERB, &"batches", sql, &params).await?;
        Ok(found.iter().map(|row| BatchId(row.get("id"))).collect())
    }
}
