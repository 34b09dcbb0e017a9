//! Members: which instances are alive; a tombstone is final.

use async_trait::async_trait;
use rusqlite::params;
use windrow_domain::InstanceId;
use windrow_store::member::{Member, Members, NewMember};
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

    async fn reap_members(&self, stale_ms: u64, limit: u32) -> Result<Vec<InstanceId>> {
        self.write(move |tx| reap(tx, stale_ms, limit)).await
    }

    async fn members(&self) -> Result<Vec<Member>> {
        self.read(list).await
    }
}

fn register(tx: &Tx<'_>, member: &NewMember) -> Result<()> {
    let id = member.instance.0.into_bytes();
    let known = tx.one(sql!("member/find"), [id], |row| row.get::<_, Option<i64>>(0))?;
    if known.is_some() {
        return heartbeat(tx, member.instance);
    }
    let new = params![id, member.service, member.host, member.pid, member.metadata, tx.now];
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

fn reap(tx: &Tx<'_>, stale_ms: u64, limit: u32) -> Result<Vec<InstanceId>> {
    let since = tx.now.saturating_sub(rows::int(stale_ms.saturating_mul(1000)));
    let stale = tx.all(sql!("member/find_stale"), params![since, limit], |row| {
        rows::uuid(row, 0).map(InstanceId)
    })?;
    for instance in &stale {
        tx.run(sql!("member/tombstone"), params![instance.0.into_bytes(), tx.now])?;
        permits::leave(tx, *instance)?;
    }
    Ok(stale)
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
            tombstoned_at: rows::time_opt(row, 7)?,
        })
    })
}
