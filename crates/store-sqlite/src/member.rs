//! Members: which instances are alive; a tombstone is final. An instance that leaves gives its leases
//! back; one that is buried by another keeps them, and they are lost.

use async_trait::async_trait;
use rusqlite::params;
use windrow_domain::InstanceId;
use windrow_store::member::{Evidence, Member, Members, NewMember, ProcessLock};
use windrow_store::{Error, Kind, Result};

use crate::lane_counts::Folds;
use crate::tx::{Tx, sql};
use crate::{SqliteBackend, lease, permits, rows};

#[async_trait]
impl Members for SqliteBackend {
    async fn register(&self, member: NewMember) -> Result<()> {
        self.write(move |tx| register(tx, &member)).await
    }

    async fn heartbeat(&self, instance: InstanceId) -> Result<()> {
        self.write(move |tx| heartbeat(tx, instance)).await
    }

    async fn take_duty(&self, instance: InstanceId, duty: &str, lease_ms: u64) -> Result<bool> {
        let name = duty.to_owned();
        self.write(move |tx| take_duty(tx, instance, &name, lease_ms)).await
    }

    async fn tombstone(&self, instance: InstanceId) -> Result<u64> {
        self.write(move |tx| tombstone(tx, instance)).await
    }

    async fn bury(&self, instance: InstanceId, evidence: Evidence) -> Result<bool> {
        self.write(move |tx| bury(tx, instance, evidence)).await
    }

    async fn members(&self) -> Result<Vec<Member>> {
        self.read(list).await
    }
}

fn register(tx: &Tx<'_>, member: &NewMember) -> Result<()> {
    let id = member.instance.0.into_bytes();
    let known = tx.one(sql!("member/find"), [id], |row| row.get::<_, Option<i64>>(0))?;
    if known.is_some() {
        heartbeat(tx, member.instance)?;
        return tx.run(sql!("member/describe"), params![id, member.metadata]).map(|_| ());
    }
    let lock = member.lock.as_ref();
    let new = params![
        id,
        member.service,
        member.host,
        member.pid,
        member.metadata,
        tx.now,
        lock.map(|lock| &*lock.boot_id),
        lock.map(|lock| lock.device.cast_signed()),
        lock.map(|lock| lock.inode.cast_signed()),
        lock.map(|lock| &*lock.path),
    ];
    tx.run(sql!("member/insert"), new).map(|_| ())
}

pub(crate) fn heartbeat(tx: &Tx<'_>, instance: InstanceId) -> Result<()> {
    let id = instance.0.into_bytes();
    if tx.run(sql!("member/heartbeat"), params![id, tx.now])? == 1 {
        return Ok(());
    }
    match tx.one(sql!("member/find"), [id], |row| row.get::<_, Option<i64>>(0))? {
        Some(_) => Err(Error::of(Kind::LeaseLost).because("it is tombstoned")),
        None => Err(Error::of(Kind::Missing)),
    }
}

fn take_duty(tx: &Tx<'_>, instance: InstanceId, duty: &str, lease_ms: u64) -> Result<bool> {
    let until = tx.after(lease_ms * 1000);
    let wanted = params![tx.now, instance.0.into_bytes(), duty, until];
    Ok(tx.one(sql!("member/take_duty"), wanted, |_| Ok(()))?.is_some())
}

fn tombstone(tx: &Tx<'_>, instance: InstanceId) -> Result<u64> {
    let id = instance.0.into_bytes();
    let known = tx.one(sql!("member/find"), [id], |row| row.get::<_, Option<i64>>(0))?;
    known.ok_or_else(|| Error::of(Kind::Missing))?;
    let (mut folds, mut lines) = (Folds::default(), 0);
    for row in lease::of_instance(tx, instance)? {
        lines += lease::release(tx, &row, &mut folds)?;
    }
    folds.write(tx)?;
    permits::leave(tx, instance)?;
    tx.run(sql!("member/tombstone"), params![id, tx.now])?;
    Ok(lines)
}

fn bury(tx: &Tx<'_>, instance: InstanceId, evidence: Evidence) -> Result<bool> {
    let id = instance.0.into_bytes();
    let seen = match evidence {
        Evidence::LockGot => None,
        Evidence::Silent { heartbeat_at } => Some(heartbeat_at.as_microsecond()),
    };
    if tx.run(sql!("member/bury"), params![id, tx.now, seen])? == 1 {
        permits::leave(tx, instance)?;
        return Ok(true);
    }
    let known = tx.one(sql!("member/find"), [id], |row| row.get::<_, Option<i64>>(0))?;
    let tombstoned_at = known.ok_or_else(|| Error::of(Kind::Missing))?;
    Ok(tombstoned_at.is_some())
}

fn list(tx: &Tx<'_>) -> Result<Vec<Member>> {
    tx.all(sql!("member/list"), [], |row| {
        Ok(Member {
            instance: InstanceId(rows::uuid(row, 0)?),
            service: row.get(1)?,
            host: row.get(2)?,
            pid: row.get(3)?,
            metadata: row.get(4)?,
            joined_at: rows::time(row, 5)?,
            heartbeat_at: rows::time(row, 6)?,
            silent_ms: tx.now.saturating_sub(row.get(6)?).max(0).cast_unsigned() / 1000,
            tombstoned_at: rows::time_opt(row, 7)?,
            lock: process_lock(row)?,
        })
    })
}

fn process_lock(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<ProcessLock>> {
    let (boot_id, path): (Option<String>, Option<String>) = (row.get(8)?, row.get(11)?);
    let (device, inode): (Option<i64>, Option<i64>) = (row.get(9)?, row.get(10)?);
    let (Some(boot_id), Some(device), Some(inode), Some(path)) = (boot_id, device, inode, path)
    else {
        return Ok(None);
    };
    let (device, inode) = (device.cast_unsigned(), inode.cast_unsigned());
    Ok(Some(ProcessLock { boot_id, device, inode, path }))
}
