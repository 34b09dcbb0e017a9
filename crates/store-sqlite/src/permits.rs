//! Permits: how many lines of a target may be in flight over all instances (rule 12).
//!
//! Holds throughout: permits granted to instances never exceed the target's limit, and an instance
//! claims no more than it was granted; so the lines in flight never exceed the limit. Permits that
//! lie idle with one instance are taken back when another finds none left, so no instance starves.

use std::collections::HashSet;

use rusqlite::params;
use windrow_domain::{InstanceId, Target};
use windrow_store::Result;

use crate::rows;
use crate::tx::{Tx, sql};

/// Permits come in blocks of this part of the limit.
const BLOCK_PART: u64 = 8;

/// What an instance has of a target.
#[derive(Clone, Copy, Default)]
struct Share {
    granted: u64,
    used: u64,
}

struct Limit {
    in_flight_max: u64,
    granted: u64,
}

impl Limit {
    fn block(&self) -> u64 {
        (self.in_flight_max / BLOCK_PART).max(1)
    }

    fn left(&self) -> u64 {
        self.in_flight_max.saturating_sub(self.granted)
    }
}

fn limit(tx: &Tx<'_>, target: &Target) -> Result<Option<Limit>> {
    tx.one(sql!("permits/limit"), [target.as_str()], |row| {
        Ok(Limit { in_flight_max: rows::count(row, 0)?, granted: rows::count(row, 1)? })
    })
}

fn share(tx: &Tx<'_>, target: &Target, instance: InstanceId) -> Result<Share> {
    let of = params![target.as_str(), instance.0.into_bytes()];
    let found = tx.one(sql!("permits/of_instance"), of, |row| {
        Ok(Share { granted: rows::count(row, 0)?, used: rows::count(row, 1)? })
    })?;
    Ok(found.unwrap_or_default())
}

fn put(tx: &Tx<'_>, target: &Target, instance: InstanceId, share: Share) -> Result<()> {
    let id = instance.0.into_bytes();
    if share.granted == 0 && share.used == 0 {
        tx.run(sql!("permits/drop"), params![target.as_str(), id])?;
    } else {
        let (granted, used) = (rows::int(share.granted), rows::int(share.used));
        tx.run(sql!("permits/put"), params![target.as_str(), id, granted, used])?;
    }
    recount(tx, target)
}

fn recount(tx: &Tx<'_>, target: &Target) -> Result<()> {
    tx.run(sql!("permits/recount"), [target.as_str()]).map(|_| ())
}

/// How many of the `wanted` lines the instance may claim now; grants it what it needs and can have.
pub(crate) fn allow(
    tx: &Tx<'_>,
    target: &Target,
    instance: InstanceId,
    wanted: u64,
) -> Result<u64> {
    let Some(mut limit_now) = limit(tx, target)? else {
        return Ok(wanted);
    };
    let mut own = share(tx, target, instance)?;
    if own.granted - own.used.min(own.granted) < wanted {
        let lacking = |own: &Share| (own.used + wanted).saturating_sub(own.granted);
        if limit_now.left() < lacking(&own) {
            tx.run(sql!("permits/take_idle"), [target.as_str()])?;
            recount(tx, target)?;
            own = share(tx, target, instance)?;
            limit_now.granted = limit(tx, target)?.map_or(0, |limit| limit.granted);
        }
        own.granted += limit_now.left().min(limit_now.block().max(lacking(&own)));
        put(tx, target, instance, own)?;
    }
    Ok(wanted.min(own.granted.saturating_sub(own.used)))
}

/// Which of the targets have no permit left for any instance: one statement for all of them, so
/// that many targets at their limit do not cost a claim one search each.
pub(crate) fn full(tx: &Tx<'_>, targets: &[&str]) -> Result<HashSet<String>> {
    let wanted = serde_json::to_string(targets).expect("names are text");
    Ok(tx.all(sql!("permits/full"), [wanted], |row| row.get(0))?.into_iter().collect())
}

/// `n` more lines of the instance are in flight. Permits that it holds beyond its lines in flight
/// and one spare block are given back.
pub(crate) fn spend(tx: &Tx<'_>, target: &Target, instance: InstanceId, n: u64) -> Result<()> {
    let Some(limit) = limit(tx, target)? else {
        return Ok(());
    };
    let mut own = share(tx, target, instance)?;
    own.used += n;
    own.granted = own.granted.min(own.used + limit.block());
    put(tx, target, instance, own)
}

/// `n` lines of the instance are no longer in flight. Permits that it holds beyond the rest and one
/// spare block are given back.
pub(crate) fn free(tx: &Tx<'_>, target: &Target, instance: InstanceId, n: u64) -> Result<()> {
    let Some(limit) = limit(tx, target)? else {
        return Ok(());
    };
    let mut own = share(tx, target, instance)?;
    own.used = own.used.saturating_sub(n);
    // Over the limit after it was lowered: nothing idle is kept.
    let block = if limit.granted > limit.in_flight_max { 0 } else { limit.block() };
    own.granted = own.granted.min(own.used + block);
    put(tx, target, instance, own)
}

/// An instance that left keeps only what its lines in flight need.
pub(crate) fn leave(tx: &Tx<'_>, instance: InstanceId) -> Result<()> {
    let id = [instance.0.into_bytes()];
    let targets: Vec<Target> =
        tx.all(sql!("permits/limited_of_instance"), id, |row| rows::name(row, 0))?;
    for target in &targets {
        let own = share(tx, target, instance)?;
        put(tx, target, instance, Share { granted: own.used, used: own.used })?;
    }
    Ok(())
}

/// Sets, changes or removes a limit. What is in flight now counts as used.
pub(crate) fn set(tx: &Tx<'_>, target: &Target, in_flight_max: Option<u32>) -> Result<()> {
    tx.run(sql!("permits/clear"), [target.as_str()])?;
    let Some(max) = in_flight_max else {
        return tx.run(sql!("permits/remove_limit"), [target.as_str()]).map(|_| ());
    };
    tx.run(sql!("permits/set_limit"), params![target.as_str(), max])?;
    tx.run(sql!("permits/count_in_flight"), [target.as_str()])?;
    recount(tx, target)
}
