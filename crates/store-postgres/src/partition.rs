//! Partitions: which instance owns which streams, and in which epoch.
//!
//! Holds throughout: a take raises the epoch under the partition's lock, which a commit of the last owner
//! holds until it ends; so nothing is written under an epoch that has passed.

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;
use windrow_domain::{InstanceId, PartitionNo};
use windrow_store::error::{Error, Kind, Result};
use windrow_store::partition::{Fence, Partition, Partitions, Setup, Taken};

use crate::db::{Param, Sql, Statement, sql};
use crate::{PostgresBackend, rows};

#[async_trait]
impl Partitions for PostgresBackend {
    async fn set_up(&self, setup: Setup) -> Result<Setup> {
        let mut types = setup.object_types;
        types.sort_unstable();
        types.dedup();
        let params = [
            (&setup.service as _, Type::TEXT),
            (&i32::from(setup.partitions) as _, Type::INT4),
            (&types as _, Type::TEXT_ARRAY),
            (&setup.lifecycle as _, Type::BOOL),
        ];
        let calls = [
            Statement { sql: Sql::value("partition/set_up"), params: &params },
            Statement { sql: sql!("partition/setup"), params: &[] },
        ];
        let answers = self.db.call(&calls).await?;
        let found = answers[1].first().map(read_setup);
        found.ok_or_else(|| Error::of(Kind::Corrupt))
    }

    async fn setup(&self) -> Result<Option<Setup>> {
        let found = self.db.lone(sql!("partition/setup"), &[]).await?;
        Ok(found.first().map(read_setup))
    }

    async fn partitions(&self) -> Result<Vec<Partition>> {
        let sql = sql!("partition/partitions");
        let found = self.db.lone(sql, &[]).await?;
        let partition = |row: &Row| Partition {
            no: number(row, "no"),
            epoch: rows::count(row, "epoch"),
            instance: row.get::<_, Option<Uuid>>("instance").map(InstanceId),
            is_owner_live: row.get("is_owner_live"),
            is_suspect: row.get("is_suspect"),
            taken_at: row.get("taken_at"),
        };
        Ok(found.iter().map(partition).collect())
    }

    async fn take_partitions(
        &self,
        instance: InstanceId,
        wanted: &[PartitionNo],
    ) -> Result<Vec<Taken>> {
        let wanted: Vec<i32> = wanted.iter().map(|&no| i32::from(no)).collect();
        let params = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&instance.0 as _, Type::UUID),
            (&wanted as _, Type::INT4_ARRAY),
        ];
        let sql = Sql::rows("partition/take_partitions");
        let found = self.db.rows(sql, &params).await?;
        let taken = |row: &Row| {
            let fence = Fence { partition: number(row, "no"), epoch: rows::count(row, "epoch") };
            Taken { fence, is_suspect: row.get("is_suspect") }
        };
        Ok(found.iter().map(taken).collect())
    }

    async fn release_partitions(&self, instance: InstanceId, fences: &[Fence]) -> Result<u64> {
        let fences = Fences::of(fences);
        let sql = Sql::value("partition/release_partitions");
        let params = fences.params(&instance.0);
        let freed = self.db.rows(sql, &params).await?;
        Ok(rows::count(&freed[0], "answer"))
    }

    async fn clear_suspects(&self, instance: InstanceId, fences: &[Fence]) -> Result<()> {
        let fences = Fences::of(fences);
        let numbers = [(&fences.numbers as _, Type::INT4_ARRAY)];
        let calls = [
            Statement { sql: Sql::value("partition/fence"), params: &fences.params(&instance.0) },
            Statement { sql: sql!("partition/clear_suspects"), params: &numbers },
        ];
        self.db.call(&calls).await.map(drop)
    }
}

/// Fences as parallel arrays, each once.
pub(crate) struct Fences {
    pub(crate) numbers: Vec<i32>,
    epochs: Vec<i64>,
}

impl Fences {
    pub(crate) fn of(fences: &[Fence]) -> Self {
        let mut fences = fences.to_vec();
        fences.sort_unstable();
        fences.dedup();
        Self {
            numbers: fences.iter().map(|fence| i32::from(fence.partition)).collect(),
            epochs: fences.iter().map(|fence| fence.epoch.cast_signed()).collect(),
        }
    }

    pub(crate) fn params<'a>(&'a self, instance: &'a Uuid) -> [Param<'a>; 3] {
        [
            (instance, Type::UUID),
            (&self.numbers, Type::INT4_ARRAY),
            (&self.epochs, Type::INT8_ARRAY),
        ]
    }
}

/// A partition's number in a column.
pub(crate) fn number(row: &Row, column: &str) -> PartitionNo {
    PartitionNo::try_from(row.get::<_, i32>(column)).expect("a partition has a small number")
}

fn read_setup(row: &Row) -> Setup {
    Setup {
        service: row.get("service"),
        partitions: number(row, "partitions"),
        object_types: row.get("object_types"),
        lifecycle: row.get("lifecycle"),
    }
}
