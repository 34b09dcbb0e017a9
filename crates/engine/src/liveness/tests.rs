//! Proofs of death, and what proves nothing.

use std::fs::{File, OpenOptions};
use std::time::Duration;

use jiff::{Timestamp, ToSpan as _};

use super::process_lock::prove_dead;
use super::*;

fn member(lock: Option<ProcessLock>) -> Member {
    Member {
        instance: InstanceId::new(),
        service: "windrow".to_owned(),
        host: "here".to_owned(),
        pid: 1,
        metadata: "{}".to_owned(),
        joined_at: Timestamp::UNIX_EPOCH,
        heartbeat_at: Timestamp::UNIX_EPOCH,
        silent_ms: 0,
        tombstoned_at: None,
        lock,
    }
}

#[test]
fn a_lock_is_got_when_its_holder_is_gone_and_not_before() {
    let folder = tempfile::tempdir().unwrap();
    let liveness = Liveness::new(Some(folder.path().join("live")));
    let lock = liveness.hold(InstanceId::new()).expect("a boot id and a folder");
    assert!(prove_dead(&lock, folder.path()).is_none(), "its holder lives");
    drop(liveness);
    let proof = prove_dead(&lock, folder.path()).expect("its holder is gone");
    assert!(prove_dead(&lock, folder.path()).is_none(), "one buries at a time");
    proof.remove();
    assert!(prove_dead(&lock, folder.path()).is_none(), "no file proves nothing");
}

#[test]
fn another_folder_name_for_the_same_file_is_found_by_its_inode() {
    let folder = tempfile::tempdir().unwrap();
    let liveness = Liveness::new(Some(folder.path().to_owned()));
    let mut lock = liveness.hold(InstanceId::new()).unwrap();
    drop(liveness);
    lock.path = lock.path.replace(folder.path().to_str().unwrap(), "/elsewhere");
    assert!(prove_dead(&lock, folder.path()).is_some());
}

#[test]
fn another_file_under_the_same_name_proves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let liveness = Liveness::new(Some(folder.path().to_owned()));
    let lock = liveness.hold(InstanceId::new()).unwrap();
    drop(liveness);
    // The first one stays under another name, so that its number is not given again.
    std::fs::rename(&lock.path, folder.path().join("kept")).unwrap();
    File::create(&lock.path).unwrap();
    assert!(prove_dead(&lock, folder.path()).is_none());
}

#[test]
fn an_instance_that_left_leaves_no_file_and_one_that_died_is_cleaned_up_after() {
    let folder = tempfile::tempdir().unwrap();
    let files = || std::fs::read_dir(folder.path()).unwrap().count();
    let (left, died) = (
        Liveness::new(Some(folder.path().to_owned())),
        Liveness::new(Some(folder.path().to_owned())),
    );
    left.hold(InstanceId::new()).unwrap();
    let dead = InstanceId::new();
    died.hold(dead).unwrap();
    left.release();
    drop(died);
    assert_eq!(files(), 1);
    let cleaner = Liveness::new(Some(folder.path().to_owned()));
    cleaner.hold(InstanceId::new()).unwrap();
    cleaner.remove_leftovers(&[]);
    assert_eq!(files(), 2, "it may be another database's, and it is new");
    let mut known = Member { instance: dead, ..member(None) };
    cleaner.remove_leftovers(std::slice::from_ref(&known));
    assert_eq!(files(), 2, "it is to be buried first");
    known.tombstoned_at = Some(Timestamp::UNIX_EPOCH);
    cleaner.remove_leftovers(&[known]);
    assert_eq!(files(), 1);
}

#[test]
fn an_old_lock_that_nobody_holds_is_removed_and_a_held_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let living = Liveness::new(Some(folder.path().to_owned()));
    let held = living.hold(InstanceId::new()).unwrap();
    let cleaner = Liveness::new(Some(folder.path().to_owned()));
    cleaner.hold(InstanceId::new()).unwrap();
    let left = folder.path().join(format!("{}.lock", InstanceId::new()));
    File::create(&left).unwrap();
    for path in [held.path.as_str(), left.to_str().unwrap()] {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    }
    cleaner.remove_leftovers(&[]);
    assert!(!left.exists() && std::path::Path::new(&held.path).exists());
}

#[test]
fn a_member_is_silent_when_it_was_read_again_and_again_without_a_new_heartbeat() {
    let mut watch = SilenceWatch::new(Duration::from_secs(10), Duration::from_secs(30));
    let mut member = member(None);
    let mut at = 0;
    let mut read = |member: &Member, pause: u64| {
        at += pause;
        watch.observe(at, std::iter::once(member)).len()
    };
    assert_eq!(read(&member, 0), 0);
    for _ in 0..3 {
        assert_eq!(read(&member, 10_000), 0);
    }
    assert_eq!(read(&member, 10_000), 1);
    member.heartbeat_at += 1.second();
    assert_eq!(read(&member, 10_000), 0, "it was heard of");
}

#[test]
fn an_outage_of_the_reader_is_no_silence_of_others() {
    let mut watch = SilenceWatch::new(Duration::from_secs(10), Duration::from_secs(30));
    let member = member(None);
    // Longer than two pauses, and then again.
    for at in [0, 10_000, 20_000, 110_000, 200_000] {
        assert_eq!(watch.observe(at, std::iter::once(&member)), [], "at {at} ms");
    }
    // Shorter, with an error in between.
    watch.interrupt();
    for at in [215_000, 225_000] {
        assert_eq!(watch.observe(at, std::iter::once(&member)), [], "at {at} ms");
    }
    assert_eq!(watch.observe(235_000, std::iter::once(&member)).len(), 1);
}

/// Members that bury, of a store that has no others.
struct Burials(Mutex<Vec<InstanceId>>);

#[async_trait::async_trait]
impl Members for Burials {
    async fn register(&self, _: windrow_store::member::NewMember) -> Result<()> {
        Ok(())
    }

    async fn heartbeat(&self, _: InstanceId) -> Result<()> {
        Ok(())
    }

    async fn tombstone(&self, _: InstanceId) -> Result<u64> {
        Ok(0)
    }

    async fn bury(&self, instance: InstanceId, _: Evidence) -> Result<bool> {
        self.0.lock().push(instance);
        Ok(true)
    }

    async fn members(&self) -> Result<Vec<Member>> {
        Ok(Vec::new())
    }

    async fn take_duty(&self, _: InstanceId, _: &str, _: u64) -> Result<bool> {
        Ok(true)
    }
}

/// A death is seen without the store, whether the members were read since the instance joined or not; and once
/// it was dealt with, or is not this one's to deal with, it is not seen again.
#[tokio::test]
async fn a_death_is_seen_by_the_lock_alone() {
    let folder = tempfile::tempdir().unwrap();
    let new = || Liveness::new(Some(folder.path().to_owned()));
    let (store, watcher, known, late) = (Burials(Mutex::default()), new(), new(), new());
    watcher.hold(InstanceId::new()).unwrap();
    let lock = known.hold(InstanceId::new());
    let neighbour = member(lock);
    let neighbour = Member { instance: known.held.lock().as_ref().unwrap().instance, ..neighbour };
    watcher.bury_dead(&store, &[&neighbour]).await.unwrap();
    assert!(!watcher.sees_dead(), "all live");
    late.hold(InstanceId::new()).unwrap();
    assert!(!watcher.sees_dead(), "one more lives");
    drop(late);
    assert!(watcher.sees_dead(), "one that came since has died");
    watcher.bury_dead(&store, &[&neighbour]).await.unwrap();
    assert!(!watcher.sees_dead(), "the database does not know it: not asked again");
    drop(known);
    assert!(watcher.sees_dead(), "the neighbour has died");
    watcher.bury_dead(&store, &[&neighbour]).await.unwrap();
    assert_eq!(*store.0.lock(), [neighbour.instance]);
    assert!(!watcher.sees_dead(), "it is buried");
}
