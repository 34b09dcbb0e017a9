//! Admission: how many uploads, downloads, exports, event streams, kickoffs and file checks run at the
//! same time, in this process and for one owner.
//!
//! Holds throughout: a caller over the limit gets a 429 with `Retry-After`; a permit goes back when its
//! holder is dropped, whatever the reason; one owner never takes all the permits there are.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use windrow_domain::Owner;
use windrow_engine::bounded_map::BoundedMap;
use windrow_engine::clock::Clock;

use crate::error::{Code, Error, Result};
use crate::options::Options;

/// Owners whose permits are kept while none of them is in use.
const OWNERS_MAX: usize = 1_000;
/// `Retry-After` of a request over the limit.
const RETRY_AFTER_SECS: u64 = 2;

/// The limits of a server.
pub(crate) struct Admission {
    /// Most uploads at the same time.
    pub(crate) uploads: Limit,
    /// Outputs that are built from the results while they are read.
    pub(crate) downloads: Limit,
    /// Exports that are built while they are read.
    pub(crate) exports: Limit,
    /// Most streams of events that are followed at the same time.
    pub(crate) listeners: Limit,
    /// Most kickoffs at the same time.
    pub(crate) kickoffs: Limit,
    /// Files that are searched for invalid lines.
    pub(crate) checks: Limit,
}

impl Admission {
    pub(crate) fn new(options: &Options) -> Self {
        // One owner leaves a quarter to the others.
        let uploads = LimitSpec {
            all_max: options.uploads_max,
            owner_max: options.uploads_max - options.uploads_max / 4,
            code: Code::UploadsExceeded,
            what: "uploads",
        };
        Self {
            uploads: Limit::new(uploads),
            downloads: Limit::new(DOWNLOADS),
            exports: Limit::new(EXPORTS),
            listeners: Limit::new(LISTENERS),
            kickoffs: Limit::new(KICKOFFS),
            checks: Limit::new(CHECKS),
        }
    }
}

const DOWNLOADS: LimitSpec = LimitSpec {
    all_max: 48,
    owner_max: 32,
    code: Code::DownloadsExceeded,
    what: "downloads of outputs in the making",
};
const EXPORTS: LimitSpec =
    LimitSpec { all_max: 48, owner_max: 32, code: Code::ExportsExceeded, what: "exports" };
const LISTENERS: LimitSpec = LimitSpec {
    all_max: 400,
    owner_max: 200,
    code: Code::ListenersExceeded,
    what: "event streams",
};
const KICKOFFS: LimitSpec =
    LimitSpec { all_max: 6, owner_max: 4, code: Code::KickoffsExceeded, what: "kickoffs" };
const CHECKS: LimitSpec =
    LimitSpec { all_max: 4, owner_max: 2, code: Code::ChecksExceeded, what: "file validations" };

/// The size of a limit, and its error.
#[derive(Clone, Copy, Debug)]
struct LimitSpec {
    all_max: usize,
    owner_max: usize,
    code: Code,
    what: &'static str,
}

/// A concurrency limit, over all owners and for each.
pub(crate) struct Limit {
    spec: LimitSpec,
    all: Arc<Semaphore>,
    owners: Mutex<BoundedMap<Owner, Arc<Semaphore>>>,
}

/// The right to run, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    _of_owner: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Limit {
    fn new(spec: LimitSpec) -> Self {
        let all = Arc::new(Semaphore::new(spec.all_max));
        Self { spec, all, owners: Mutex::new(BoundedMap::new(OWNERS_MAX)) }
    }

    /// A permit for this owner, if there is one now.
    pub(crate) fn try_acquire(&self, owner: &Owner) -> Result<Permit> {
        let of_owner = self.of(owner).try_acquire_owned();
        let of_owner = of_owner.map_err(|_| self.exceeded(" for this owner"))?;
        let of_all = self.all.clone().try_acquire_owned().map_err(|_| self.exceeded(""))?;
        Ok(Permit { _of_owner: of_owner, _of_all: of_all })
    }

    /// A permit for this owner, if there is one within that time.
    pub(crate) async fn acquire_within(
        &self,
        owner: &Owner,
        clock: &Clock,
        longest: Duration,
    ) -> Result<Permit> {
        let coming = async {
            let of_owner = self.of(owner).acquire_owned().await;
            let of_owner = of_owner.map_err(|_| self.exceeded(""))?;
            let of_all = self.all.clone().acquire_owned().await.map_err(|_| self.exceeded(""))?;
            Ok(Permit { _of_owner: of_owner, _of_all: of_all })
        };
        tokio::select! {
            biased;
            permit = coming => permit,
            () = clock.sleep(longest) => Err(self.exceeded("")),
        }
    }

    fn of(&self, owner: &Owner) -> Arc<Semaphore> {
        let in_use = |_: &Owner, permits: &Arc<Semaphore>| Arc::strong_count(permits) > 1;
        let make = || Arc::new(Semaphore::new(self.spec.owner_max));
        self.owners.lock().get_or_insert_with(owner.clone(), in_use, make).clone()
    }

    fn exceeded(&self, whose: &str) -> Error {
        let LimitSpec { code, what, .. } = self.spec;
        let message = format!("Too many concurrent {what}{whose}; retry in a moment.");
        Error::new(code, message).retry_after(RETRY_AFTER_SECS)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn limit(all_max: usize, owner_max: usize) -> Limit {
        Limit::new(LimitSpec { all_max, owner_max, code: Code::UploadsExceeded, what: "tests" })
    }

    fn owner(name: &str) -> Owner {
        Owner::new(name).unwrap()
    }

    #[test]
    fn one_owner_leaves_permits_to_others_and_returns_its_own() {
        let limit = limit(3, 2);
        let (ann, bob) = (owner("ann"), owner("bob"));
        let mut anns = vec![limit.try_acquire(&ann).unwrap(), limit.try_acquire(&ann).unwrap()];
        let refused = limit.try_acquire(&ann).unwrap_err();
        assert_eq!((refused.status().as_u16(), refused.code), (429, Code::UploadsExceeded));
        assert_eq!(refused.retry_after_secs, Some(RETRY_AFTER_SECS));
        let bobs = limit.try_acquire(&bob).unwrap();
        assert!(limit.try_acquire(&bob).is_err(), "all are taken");
        anns.pop();
        assert!(limit.try_acquire(&bob).is_ok() && limit.try_acquire(&ann).is_ok());
        drop((anns, bobs));
    }

    #[test]
    fn owners_without_permits_are_dropped() {
        let limit = limit(10, 2);
        let _held = limit.try_acquire(&owner("ann")).unwrap();
        for no in 0..3 * OWNERS_MAX {
            drop(limit.try_acquire(&owner(&no.to_string())).unwrap());
        }
        let kept = limit.owners.lock();
        assert!(kept.len() <= OWNERS_MAX && kept.get(&owner("ann")).is_some(), "{}", kept.len());
    }

    #[tokio::test]
    async fn a_permit_is_waited_for_but_not_for_ever() {
        let limit = limit(1, 1);
        let (ann, clock) = (owner("ann"), Clock::manual(Timestamp::UNIX_EPOCH));
        let held = limit.try_acquire(&ann).unwrap();
        let long = Duration::from_secs(2);
        let (refused, ()) = tokio::join!(limit.acquire_within(&ann, &clock, long), async {
            tokio::task::yield_now().await;
            clock.advance(long);
        });
        assert_eq!(refused.unwrap_err().code, Code::UploadsExceeded);
        let (given, ()) = tokio::join!(limit.acquire_within(&ann, &clock, long), async {
            tokio::task::yield_now().await;
            drop(held);
        });
        given.unwrap();
    }
}
