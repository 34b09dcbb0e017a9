//! Objects: the states that handlers keep between calls, read in one statement and written by commits.
//!
//! Holds throughout: a state is written under the fence of its stream's partition, which the function
//! proves; of several states of one object in a commit, the last one counts.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use tokio_postgres::types::Type;
use windrow_store::error::Result;
use windrow_store::object::{ObjectKey, Objects, PutState};

use crate::PostgresBackend;
use crate::db::{Param, sql};

#[async_trait]
impl Objects for PostgresBackend {
    async fn states(&self, keys: &[ObjectKey]) -> Result<Vec<Option<Bytes>>> {
        let mut states = vec![None; keys.len()];
        if keys.is_empty() {
            return Ok(states);
        }
        let owners: Vec<&str> = keys.iter().map(|key| key.owner.as_str()).collect();
        let streams: Vec<&str> = keys.iter().map(|key| key.stream.as_str()).collect();
        let params = [(&owners as _, Type::TEXT_ARRAY), (&streams as _, Type::TEXT_ARRAY)];
        let found = self.db.lone(sql!("object/states"), &params).await?;
        for row in &found {
            let at = usize::try_from(row.get::<_, i64>("i") - 1).expect("a place in the question");
            states[at] = Some(Bytes::copy_from_slice(row.get("state")));
        }
        Ok(states)
    }
}

/// States to be written, sorted by bytes, each object once: the last word counts.
pub(crate) struct States<'a> {
    owners: Vec<&'a str>,
    streams: Vec<&'a str>,
    states: Vec<Option<&'a [u8]>>,
}

impl<'a> States<'a> {
    pub(crate) fn of(puts: &'a [PutState]) -> Self {
        let last: BTreeMap<_, _> =
            puts.iter().map(|put| (&put.key, put.state.as_deref())).collect();
        Self {
            owners: last.keys().map(|key| key.owner.as_str()).collect(),
            streams: last.keys().map(|key| key.stream.as_str()).collect(),
            states: last.into_values().collect(),
        }
    }

    pub(crate) fn params<'b>(
        &'b self,
        now: &'b Option<Timestamp>,
        fences: &'b Vec<i32>,
    ) -> [Param<'b>; 5] {
        [
            (now, Type::TIMESTAMPTZ),
            (fences, Type::INT4_ARRAY),
            (&self.owners, Type::TEXT_ARRAY),
            (&self.streams, Type::TEXT_ARRAY),
            (&self.states, Type::BYTEA_ARRAY),
        ]
    }
}
