//! Partitions: which instance owns which streams.
//!
//! Holds throughout: one writer at a time, so that a take cannot come between a commit's look at its
//! fences and its writes, nor the other way round; an epoch only goes up.

use std::collections::BTreeSet;

use async_trait::async_trait;
use rusqlite::{Row, params};
use windrow_domain::{InstanceId, PartitionNo};
use windrow_store::partition::{Fence, Partition, Partitions, Serving, Setup, Taken};
use windrow_store::{Error, Kind, Result};

use crate::tx::{Tx, sql};
use crate::{SqliteBackend, rows};

#[async_trait]
impl Partitions for SqliteBackend {
    async fn set_up(&self, setup: Setup) -> Result<Setup> {
        self.write(move |tx| set_up(tx, setup)).await
    }

    async fn setup(&self) -> Result<Option<Setup>> {
        self.read(find_setup).await
    }

    async fn partitions(&self) -> Result<Vec<Partition>> {
        self.read(|tx| tx.all(sql!("partition/partitions"), [], read_partition)).await
    }

    async fn take_partitions(
        &self,
        instance: InstanceId,
        wanted: &[PartitionNo],
    ) -> Result<Vec<Taken>> {
        let wanted: BTreeSet<_> = wanted.iter().copied().collect();
        self.write(move |tx| take(tx, instance, &wanted)).await
    }

    async fn release_partitions(&self, instance: InstanceId, fences: &[Fence]) -> Result<u64> {
        let fences = fences.to_vec();
        self.write(move |tx| release(tx, instance, &fences)).await
    }

    async fn clear_suspects(&self, instance: InstanceId, fences: &[Fence]) -> Result<()> {
        let fences = fences.to_vec();
        self.write(move |tx| {
            check_fences(tx, instance, &fences)?;
            fences.iter().try_for_each(|fence| {
                tx.run(sql!("partition/clear_suspects"), owned(instance, fence)).map(|_| ())
            })
        })
        .await
    }
}

/// What the statements about an owned partition bind.
fn owned(instance: InstanceId, fence: &Fence) -> (PartitionNo, i64, [u8; 16]) {
    (fence.partition, rows::int(fence.epoch), instance.0.into_bytes())
}

fn set_up(tx: &Tx<'_>, mut setup: Setup) -> Result<Setup> {
    let fixed = find_setup(tx)?;
    if let Some(fixed) = &fixed {
        let same = fixed.service == setup.service && fixed.partitions == setup.partitions;
        if !same {
            let because = format!(
                "service {:?} with {} partitions is fixed here, not {:?} with {}",
                fixed.service, fixed.partitions, setup.service, setup.partitions
            );
            return Err(Error::of(Kind::Conflict).because(because));
        }
    }
    for serving in serving(tx, &setup.service)? {
        setup.object_types.extend(serving.object_types);
        setup.lifecycle |= serving.lifecycle;
    }
    setup.object_types.sort_unstable();
    setup.object_types.dedup();
    let types = serde_json::to_string(&setup.object_types).expect("names are text");
    let new = params![setup.service, setup.partitions, types, setup.lifecycle];
    if fixed.as_ref() != Some(&setup) {
        tx.run(sql!("partition/set_up"), new)?;
    }
    if fixed.is_none() {
        tx.run(sql!("partition/add_partitions"), [setup.partitions])?;
    }
    Ok(setup)
}

/// What the live members of the service serve.
fn serving(tx: &Tx<'_>, service: &str) -> Result<Vec<Serving>> {
    let said = tx.all(sql!("partition/serving"), [service], |row| row.get::<_, String>(0))?;
    Ok(said.iter().filter_map(|metadata| Serving::of(metadata)).collect())
}

/// What was fixed, if anything was.
pub(crate) fn find_setup(tx: &Tx<'_>) -> Result<Option<Setup>> {
    tx.one(sql!("partition/setup"), [], |row| {
        Ok(Setup {
            service: row.get(0)?,
            partitions: row.get(1)?,
            object_types: rows::json(row, 2)?,
            lifecycle: row.get(3)?,
        })
    })
}

/// How many partitions there are; `Refused` before the set-up.
pub(crate) fn count(tx: &Tx<'_>) -> Result<u16> {
    let found = tx.one(sql!("partition/setup"), [], |row| row.get(1))?;
    found.ok_or_else(|| {
        Error::of(Kind::Refused).because("messages were never set up in this database")
    })
}

fn read_partition(row: &Row<'_>) -> rusqlite::Result<Partition> {
    let instance: Option<[u8; 16]> = row.get(2)?;
    Ok(Partition {
        no: row.get(0)?,
        epoch: rows::count(row, 1)?,
        instance: instance.map(|bytes| InstanceId(uuid::Uuid::from_bytes(bytes))),
        is_owner_live: row.get(5)?,
        is_suspect: row.get(3)?,
        taken_at: rows::time_opt(row, 4)?,
    })
}

fn take(tx: &Tx<'_>, instance: InstanceId, wanted: &BTreeSet<PartitionNo>) -> Result<Vec<Taken>> {
    match find_member(tx, instance)? {
        None => return Err(Error::of(Kind::Missing).because("it never registered")),
        Some(false) => return Err(Error::of(Kind::LeaseLost).because("it is tombstoned")),
        Some(true) => {}
    }
    let mut taken = Vec::with_capacity(wanted.len());
    for &no in wanted {
        let Some(found) = tx.one(sql!("partition/find"), [no], read_partition)? else {
            continue;
        };
        if found.instance == Some(instance) {
            let fence = Fence { partition: no, epoch: found.epoch };
            taken.push(Taken { fence, is_suspect: found.is_suspect });
        } else if !found.is_owner_live {
            let by = params![no, instance.0.into_bytes(), tx.now];
            let (epoch, is_suspect) = tx.sure(sql!("partition/take_partitions"), by, |row| {
                Ok((rows::count(row, 0)?, row.get(1)?))
            })?;
            taken.push(Taken { fence: Fence { partition: no, epoch }, is_suspect });
        }
    }
    Ok(taken)
}

/// Frees partitions of a live instance. A tombstoned one frees nothing: its partitions are taken as
/// those of a dead owner, whose heads are suspects.
fn release(tx: &Tx<'_>, instance: InstanceId, fences: &[Fence]) -> Result<u64> {
    if find_member(tx, instance)? != Some(true) {
        return Ok(0);
    }
    let release =
        |fence: &Fence| tx.run(sql!("partition/release_partitions"), owned(instance, fence));
    fences.iter().map(release).sum()
}

/// Whether an instance that registered is live; none when it never did, or was forgotten.
fn find_member(tx: &Tx<'_>, instance: InstanceId) -> Result<Option<bool>> {
    tx.one(sql!("member/find"), [instance.0.into_bytes()], |row| {
        row.get::<_, Option<i64>>(0).map(|tombstoned| tombstoned.is_none())
    })
}

/// `LeaseLost` unless the instance is live and each partition is its own at that epoch.
pub(crate) fn check_fences(tx: &Tx<'_>, instance: InstanceId, fences: &[Fence]) -> Result<()> {
    if find_member(tx, instance)? != Some(true) {
        return Err(Error::of(Kind::LeaseLost).because("it is tombstoned or unknown"));
    }
    match lost(tx, instance, fences)?.first() {
        None => Ok(()),
        Some(no) => {
            let because = format!("partition {no} is not its own at that epoch");
            Err(Error::of(Kind::LeaseLost).because(because))
        }
    }
}

/// The partitions that are not the instance's at that epoch.
pub(crate) fn lost<'f>(
    tx: &Tx<'_>,
    instance: InstanceId,
    fences: impl IntoIterator<Item = &'f Fence>,
) -> Result<Vec<PartitionNo>> {
    let pairs: Vec<_> = fences.into_iter().map(|fence| (fence.partition, fence.epoch)).collect();
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    let pairs = serde_json::to_string(&pairs).expect("numbers are JSON");
    let asked = params![pairs, instance.0.into_bytes()];
    tx.all(sql!("partition/fence"), asked, |row| row.get(0))
}
