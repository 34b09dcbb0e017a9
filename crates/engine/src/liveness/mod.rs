//! Liveness: each instance holds a lock of the kernel on a file of its own, so that others of the same
//! machine know at once that it is dead, and bury it.
//!
//! Holds throughout: only a lock that was got proves a death, and it is kept until the member is
//! tombstoned; whatever is uncertain (another boot, another file, no file, no folder) counts as alive, and
//! silence decides; process ids, names of hosts and clocks are never asked; a lock is held before its
//! instance registers, and its file is removed after the instance left.
//! Absent on purpose: locks of the database. They are free after a failover while everybody lives. See
//! docs/adr/0023-a-lock-of-the-kernel-proves-a-death.md.

mod process_lock;
mod silence;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use windrow_domain::InstanceId;
use windrow_store::member::{Evidence, Member, Members, ProcessLock};
use windrow_store::{Result, error::chain};

use process_lock::{HeldLock, instance_of};
pub(crate) use silence::SilenceWatch;

/// The lock of this instance, and how the locks of others are asked for.
pub(crate) struct Liveness {
    /// Where locks are, and the boot of this machine; none where nothing can be proven.
    place: Option<(PathBuf, String)>,
    held: Mutex<Option<HeldLock>>,
    watched: Mutex<WatchedLocks>,
}

/// The locks of others, as the members were last read.
#[derive(Default)]
struct WatchedLocks {
    /// Of instances that were alive.
    held: HashMap<InstanceId, ProcessLock>,
    /// Instances whose locks in the folder are not held, and which are not this one's to bury.
    settled: HashSet<InstanceId>,
}

impl Liveness {
    /// With locks in that folder. Without one, or where the boot is not known, nothing is proven.
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        let place = folder.zip(process_lock::boot_id());
        Self { place, held: Mutex::new(None), watched: Mutex::default() }
    }

    /// Whether deaths can be proven here.
    pub(crate) fn proves(&self) -> bool {
        self.place.is_some()
    }

    /// Whether a process of this machine seems to have died since the members were last read: the lock of one
    /// that was alive can be got, or one that came since has left a lock that nobody holds. Asks the kernel
    /// alone, so it costs the database nothing.
    pub(crate) fn sees_dead(&self) -> bool {
        let Some((folder, _)) = &self.place else { return false };
        let watched = self.watched.lock();
        if watched.held.values().any(|lock| process_lock::prove_dead(lock, folder).is_some()) {
            return true;
        }
        let own = self.held.lock().as_ref().map(|lock| lock.instance);
        self.locks_of_folder().into_iter().any(|(instance, path)| {
            let is_known = Some(instance) == own
                || watched.held.contains_key(&instance)
                || watched.settled.contains(&instance);
            !is_known && process_lock::is_unheld(&path)
        })
    }

    /// Whether a member is proven to live: its process holds its lock on this machine.
    pub(crate) fn is_alive(&self, member: &Member) -> bool {
        let Some((folder, boot_id)) = &self.place else { return false };
        let lock = member.lock.as_ref().filter(|lock| lock.boot_id == *boot_id);
        lock.is_some_and(|lock| process_lock::is_held(lock, folder))
    }

    /// These members were read and are alive; whatever else left a lock in the folder is not to be buried.
    fn watch(&self, alive: &[&Member]) {
        let locks = alive.iter().filter_map(|one| Some((one.instance, one.lock.clone()?)));
        let held: HashMap<InstanceId, ProcessLock> = locks.take(WATCHED_MAX).collect();
        let own = self.held.lock().as_ref().map(|lock| lock.instance);
        let unheld = self.locks_of_folder().into_iter().filter(|(instance, path)| {
            let is_other = Some(*instance) != own && !held.contains_key(instance);
            is_other && process_lock::is_unheld(path)
        });
        let settled = unheld.map(|(instance, _)| instance).collect();
        *self.watched.lock() = WatchedLocks { held, settled };
    }

    /// The locks in the folder, with the instances that they are named after.
    fn locks_of_folder(&self) -> Vec<(InstanceId, PathBuf)> {
        let Some((folder, _)) = &self.place else { return Vec::new() };
        let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path())).take(LEFTOVERS_MAX);
        paths.filter_map(|path| Some((instance_of(&path)?, path))).collect()
    }

    /// Holds a lock for that instance from now on, and none for an earlier one. None when there can be
    /// no lock: then others wait for the instance when it is dead.
    pub(crate) fn hold(&self, instance: InstanceId) -> Option<ProcessLock> {
        let (folder, boot_id) = self.place.as_ref()?;
        let mut held = self.held.lock();
        if let Some(lock) = held.as_ref().filter(|lock| lock.instance == instance) {
            return Some(lock.mark.clone());
        }
        // Its instance was tombstoned by others: nothing asks for that lock any more.
        if let Some(old) = held.take() {
            old.remove();
        }
        match HeldLock::create(folder, boot_id, instance) {
            Ok(lock) => Some(held.insert(lock).mark.clone()),
            Err(error) => {
                let folder = folder.display();
                tracing::warn!(%folder, error = %chain(&error), "no lock is held for this process: if it dies, others wait for its leases");
                None
            }
        }
    }

    /// Removes the lock of an instance that has left.
    pub(crate) fn release(&self) {
        if let Some(lock) = self.held.lock().take() {
            lock.remove();
        }
    }

    /// Buries those of the given members, which have not left, that are proven dead, and gives them.
    pub(crate) async fn bury_dead(
        &self,
        store: &(impl Members + Sync + ?Sized),
        members: &[&Member],
    ) -> Result<Vec<InstanceId>> {
        let Some((folder, boot_id)) = &self.place else { return Ok(Vec::new()) };
        let (mut buried, mut alive) = (Vec::new(), Vec::new());
        for member in members {
            let Some(lock) = member.lock.as_ref().filter(|lock| lock.boot_id == *boot_id) else {
                continue;
            };
            let Some(proof) = process_lock::prove_dead(lock, folder) else {
                alive.push(*member);
                continue;
            };
            let instance = member.instance;
            if store.bury(instance, Evidence::LockGot).await? {
                let (host, pid) = (&member.host, member.pid);
                tracing::warn!(%instance, host, pid, "a process ended without leaving; its work is taken over");
                buried.push(instance);
            }
            proof.remove();
        }
        self.watch(&alive);
        Ok(buried)
    }

    /// Removes what dead processes left in the folder: the locks of members that are tombstoned, and
    /// old ones of instances that this database does not know.
    pub(crate) fn remove_leftovers(&self, members: &[Member]) {
        let known: HashMap<InstanceId, bool> =
            members.iter().map(|one| (one.instance, one.tombstoned_at.is_some())).collect();
        for (instance, path) in self.locks_of_folder() {
            let is_left = match known.get(&instance) {
                Some(is_tombstoned) => *is_tombstoned,
                // The folder may serve another database, whose members are not known here.
                None => self.is_old(&path),
            };
            if is_left {
                process_lock::remove_unheld(&path);
            }
        }
    }

    /// Whether a file is much older than the lock of this process, by the time of the folder's own clock.
    fn is_old(&self, path: &Path) -> bool {
        let held = self.held.lock();
        let Some(lock) = held.as_ref() else { return false };
        let modified = |path: &Path| path.metadata().and_then(|found| found.modified()).ok();
        let ages = modified(&lock.path).zip(modified(path));
        ages.and_then(|(now, then)| now.duration_since(then).ok())
            .is_some_and(|age| age.as_secs() > LEFTOVER_SECS)
    }
}

/// Most members of this machine whose locks are watched between two reads of the members.
const WATCHED_MAX: usize = 1_000;
/// Most files that one round looks at.
const LEFTOVERS_MAX: usize = 10_000;
/// Age from which a lock that no process holds is removed, though its instance is not known.
const LEFTOVER_SECS: u64 = 24 * 3600;

#[cfg(test)]
mod tests;
