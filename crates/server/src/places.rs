//! Places: how many do something at the same time, over all owners and of one.
//!
//! Holds throughout: who gets no place is told to come again, and when; a place is given back when its
//! holder goes, however that is; one owner never has all the places there are, where there are a few.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use windrow_domain::Owner;
use windrow_engine::clock::Clock;

use crate::error::{Error, Result};
use crate::options::Options;

/// Owners whose places are kept when none of them is in use.
const OWNERS_MAX: usize = 1_000;
/// When to come again.
const AGAIN_SECS: u64 = 2;

/// Every kind of place there is.
pub(crate) struct AllPlaces {
    /// Files that come in.
    pub(crate) uploads: Places,
    /// Outputs that are made from the results while they are read.
    pub(crate) downloads: Places,
    /// Tables that are made while they are read.
    pub(crate) exports: Places,
    /// Those who listen to events.
    pub(crate) listeners: Places,
    /// Slices of work that are driven.
    pub(crate) kickoffs: Places,
    /// Files that are looked through for the lines that do not fit their batch.
    pub(crate) checks: Places,
}

impl AllPlaces {
    pub(crate) fn new(options: &Options) -> Self {
        // An owner that sends all it can leaves a quarter to the others.
        let uploads = Bound {
            all_max: options.uploads_max,
            owner_max: options.uploads_max - options.uploads_max / 4,
            code: "uploads_exceeded",
            what: "uploads run",
        };
        Self {
            uploads: Places::new(uploads),
            downloads: Places::new(DOWNLOADS),
            exports: Places::new(EXPORTS),
            listeners: Places::new(LISTENERS),
            kickoffs: Places::new(KICKOFFS),
            checks: Places::new(CHECKS),
        }
    }
}

const DOWNLOADS: Bound = Bound {
    all_max: 48,
    owner_max: 32,
    code: "downloads_exceeded",
    what: "outputs are made for readers",
};
const EXPORTS: Bound =
    Bound { all_max: 48, owner_max: 32, code: "exports_exceeded", what: "exports run" };
const LISTENERS: Bound =
    Bound { all_max: 400, owner_max: 200, code: "listeners_exceeded", what: "listen to events" };
const KICKOFFS: Bound =
    Bound { all_max: 6, owner_max: 4, code: "kickoffs_exceeded", what: "jobs are driven" };
const CHECKS: Bound = Bound {
    all_max: 4,
    owner_max: 2,
    code: "checks_exceeded",
    what: "files are looked through for bad lines",
};

/// How many there are, and how one is told that there is none.
#[derive(Clone, Copy, Debug)]
struct Bound {
    all_max: usize,
    owner_max: usize,
    code: &'static str,
    what: &'static str,
}

/// One kind of place.
pub(crate) struct Places {
    bound: Bound,
    all: Arc<Semaphore>,
    owners: Mutex<HashMap<Owner, Arc<Semaphore>>>,
}

/// A place, as long as it is held.
#[derive(Debug)]
pub(crate) struct Place {
    _of_owner: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Places {
    fn new(bound: Bound) -> Self {
        let all = Arc::new(Semaphore::new(bound.all_max));
        Self { bound, all, owners: Mutex::default() }
    }

    /// A place for this owner, if there is one.
    pub(crate) fn take(&self, owner: &Owner) -> Result<Place> {
        let of_owner = self.of(owner).try_acquire_owned();
        let of_owner = of_owner.map_err(|_| self.none(" for this owner"))?;
        let of_all = self.all.clone().try_acquire_owned().map_err(|_| self.none(""))?;
        Ok(Place { _of_owner: of_owner, _of_all: of_all })
    }

    /// A place for this owner, if there is one within that time.
    pub(crate) async fn wait(
        &self,
        owner: &Owner,
        clock: &Clock,
        longest: Duration,
    ) -> Result<Place> {
        let coming = async {
            let of_owner = self.of(owner).acquire_owned().await;
            let of_owner = of_owner.map_err(|_| self.none(""))?;
            let of_all = self.all.clone().acquire_owned().await.map_err(|_| self.none(""))?;
            Ok(Place { _of_owner: of_owner, _of_all: of_all })
        };
        tokio::select! {
            biased;
            place = coming => place,
            () = clock.sleep(longest) => Err(self.none("")),
        }
    }

    fn of(&self, owner: &Owner) -> Arc<Semaphore> {
        // A panic while it was held left at worst an entry too many.
        let mut owners = self.owners.lock();
        if owners.len() >= OWNERS_MAX && !owners.contains_key(owner) {
            owners.retain(|_, places| Arc::strong_count(places) > 1);
        }
        let places = || Arc::new(Semaphore::new(self.bound.owner_max));
        owners.entry(owner.clone()).or_insert_with(places).clone()
    }

    fn none(&self, whose: &str) -> Error {
        let Bound { code, what, .. } = self.bound;
        let message = format!("As many {what}{whose} as may at a time; come again in a moment.");
        Error::new(StatusCode::TOO_MANY_REQUESTS, code, message).after_secs(AGAIN_SECS)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn places(all_max: usize, owner_max: usize) -> Places {
        Places::new(Bound { all_max, owner_max, code: "full", what: "sit" })
    }

    fn owner(name: &str) -> Owner {
        Owner::new(name).unwrap()
    }

    #[test]
    fn one_owner_leaves_places_to_others_and_gives_its_own_back() {
        let places = places(3, 2);
        let (ann, bob) = (owner("ann"), owner("bob"));
        let mut anns = vec![places.take(&ann).unwrap(), places.take(&ann).unwrap()];
        let refused = places.take(&ann).unwrap_err();
        assert_eq!((refused.status.as_u16(), refused.code), (429, "full"));
        assert_eq!(refused.retry_after_secs, Some(AGAIN_SECS));
        let bobs = places.take(&bob).unwrap();
        assert!(places.take(&bob).is_err(), "all are taken");
        anns.pop();
        assert!(places.take(&bob).is_ok() && places.take(&ann).is_ok());
        drop((anns, bobs));
    }

    #[test]
    fn owners_that_hold_nothing_are_forgotten() {
        let places = places(10, 2);
        let _held = places.take(&owner("ann")).unwrap();
        for no in 0..3 * OWNERS_MAX {
            drop(places.take(&owner(&no.to_string())).unwrap());
        }
        let kept = places.owners.lock();
        assert!(kept.len() <= OWNERS_MAX && kept.contains_key(&owner("ann")), "{}", kept.len());
    }

    #[tokio::test]
    async fn a_place_is_waited_for_but_not_without_end() {
        let places = places(1, 1);
        let (ann, clock) = (owner("ann"), Clock::manual(Timestamp::UNIX_EPOCH));
        let held = places.take(&ann).unwrap();
        let long = Duration::from_secs(2);
        let (refused, ()) = tokio::join!(places.wait(&ann, &clock, long), async {
            tokio::task::yield_now().await;
            clock.advance(long);
        });
        assert_eq!(refused.unwrap_err().code, "full");
        let (given, ()) = tokio::join!(places.wait(&ann, &clock, long), async {
            tokio::task::yield_now().await;
            drop(held);
        });
        given.unwrap();
    }
}
