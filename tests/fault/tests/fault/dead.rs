//! Nobody waits for the dead: what a killed process held goes on at once on the same machine, and whoever is
//! only silent, stopped or uncertain is waited for.
//!
//! Holds throughout: leases, heartbeats and silence last for minutes here, so that nothing but the proof of a
//! death explains what goes on within seconds.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::task::block_in_place;
use windrow::domain::attempt::Status;
use windrow::domain::{InstanceId, LeaseId, Route, Target, UpstreamId};
use windrow::engine::clock::Clock;
use windrow::store::Scope;
use windrow::store::claim::Request;
use windrow::store::member::{Member, NewMember, ProcessLock};
use windrow_fault::check::Ended;
use windrow_fault::input::line_of;
use windrow_fault::program::{self, worker};
use windrow_fault::{Backend, Fixture, Program, rounds, wait};
use windrow_testkit::postgres::{Cluster, Options, Shutdown};
use windrow_testkit::require::required;
use windrow_testkit::upstream::{Gate, Reply, Script, Upstream};

use crate::{WITHIN, on_both_stores, saw};

/// Lines that one process leases together.
const LINES: u64 = 8;
/// Two seconds are promised on a machine that is not busy; everything else would take minutes.
const AT_ONCE: Duration = Duration::from_secs(6);
/// Bounds that are never reached within a test.
const SLOW: [(&str, &str); 5] = [
    ("WINDROW_LOCK_FLOOR_MS", "250000"),
    ("WINDROW_HEARTBEAT_MS", "30000"),
    ("WINDROW_MEMBER_STALE_MS", "900000"),
    ("WINDROW_SWEEP_MS_MIN", "60000"),
    ("WINDROW_SWEEP_MS_MAX", "60000"),
];

on_both_stores!(
    a_killed_run_goes_on_at_once,
    a_killed_worker_is_taken_over_at_once,
    a_neighbour_that_dies_is_taken_over_by_those_that_run,
    a_stopped_process_is_not_buried,
    a_process_without_its_lock_file_is_waited_for,
    a_run_says_what_it_waits_for_and_until_when,
    the_process_id_is_never_asked,
    processes_of_two_namespaces_bury_only_the_dead,
    a_line_that_kills_every_run_fails_alone,
    a_line_that_kills_every_run_takes_no_other_lease_with_it,
);

fn slow(mut command: Command) -> Command {
    command.envs(SLOW);
    command
}

/// Answers nothing until it is told to.
fn held() -> (Gate, Script) {
    let gate = Gate::default();
    (gate.clone(), Script::always(Reply::Echo.held(&gate)))
}

async fn member(fixture: &Fixture, instance: InstanceId) -> Member {
    let members = fixture.store().members().await.unwrap();
    members.into_iter().find(|member| member.instance == instance).expect("it is listed")
}

/// The instances that have not left.
async fn living(fixture: &Fixture) -> Vec<Member> {
    let members = fixture.store().members().await.unwrap();
    members.into_iter().filter(|member| member.tombstoned_at.is_none()).collect()
}

/// Another request arrives soon after that program was started.
async fn next_request(backend: Backend, upstream: &Upstream, seen: u64, clock: &Clock) {
    let arrived = tokio::time::timeout(AT_ONCE, upstream.saw(seen + 1)).await;
    assert!(arrived.is_ok(), "nothing within {AT_ONCE:?}: {:?}", upstream.counts());
    println!("{backend:?}: the first line after {} ms", clock.elapsed().as_millis());
}

async fn a_killed_run_goes_on_at_once(backend: Backend) {
    let fixture = Fixture::on(backend).await;
    let (gate, script) = held();
    let upstream = Upstream::start(script).await.unwrap();
    let input = fixture.folder().join("in.jsonl");
    fs::write(&input, windrow_fault::input::text(LINES)).unwrap();
    let start = || {
        let out = fixture.folder().join("out.jsonl");
        let command = program::run(&fixture, &input, &upstream.url(), out);
        Program::start(&fixture, "run", slow(command))
    };
    let first = start();
    saw(&upstream, LINES).await;
    first.kill();
    let clock = Clock::machine();
    let mut again = start();
    next_request(backend, &upstream, LINES, &clock).await;
    gate.open();
    let status = again.ended(WITHIN).await;
    assert!(status.success(), "{}", again.said());
    assert_eq!(living(&fixture).await, [], "one was buried, one left");
    assert_eq!(locks(&fixture, backend), 0, "both locks are gone");
}

async fn a_killed_worker_is_taken_over_at_once(backend: Backend) {
    let fixture = Fixture::on(backend).await;
    let batch = fixture.batch(LINES).await;
    let (gate, script) = held();
    let upstream = Upstream::start(script).await.unwrap();
    let start = |name| Program::start(&fixture, name, slow(worker(&fixture, &upstream.url())));
    let first = start("first");
    saw(&upstream, LINES).await;
    first.kill();
    let clock = Clock::machine();
    let _second = start("second");
    next_request(backend, &upstream, LINES, &clock).await;
    gate.open();
    fixture.closed(batch, WITHIN).await;
    Ended::check(&fixture, batch, LINES, 1).await.check_upstream(&upstream, 1);
}

/// Nobody starts anything: the process beside it, which idles, sees the death.
async fn a_neighbour_that_dies_is_taken_over_by_those_that_run(backend: Backend) {
    let fixture = Fixture::on(backend).await;
    let (gate, script) = held();
    let upstream = Upstream::start(script).await.unwrap();
    let start = |name| Program::start(&fixture, name, slow(worker(&fixture, &upstream.url())));
    let first = start("first");
    let batch = fixture.batch(LINES).await;
    saw(&upstream, LINES).await;
    // It joins when the first one holds everything, and has nothing to do.
    let _second = start("second");
    let both = || async { (living(&fixture).await.len() == 2).then_some(()) };
    wait::until(WITHIN, both, || async { "the second does not join".to_owned() }).await;
    // Its own look for the dead, at its start, is over.
    wait::pause(Duration::from_secs(2)).await;
    first.kill();
    let clock = Clock::machine();
    next_request(backend, &upstream, LINES, &clock).await;
    gate.open();
    fixture.closed(batch, WITHIN).await;
    Ended::check(&fixture, batch, LINES, 1).await.check_upstream(&upstream, 1);
}

/// How many locks there are in the fixture's folder.
fn locks(fixture: &Fixture, backend: Backend) -> usize {
    fs::read_dir(live_folder(fixture, backend)).unwrap().count()
}

/// Where the fixture's processes hold their locks.
pub(crate) fn live_folder(fixture: &Fixture, backend: Backend) -> std::path::PathBuf {
    match backend {
        Backend::Sqlite => fixture.folder().join("windrow.db-live"),
        Backend::Postgres => fixture.folder().join("live"),
    }
}

/// A process that stands still holds its lock: it is alive, and keeps what it has.
async fn a_stopped_process_is_not_buried(backend: Backend) {
    let fixture = Fixture::on(backend).await;
    let batch = fixture.batch(LINES).await;
    let (gate, script) = held();
    let upstream = Upstream::start(script).await.unwrap();
    let start = |name| Program::start(&fixture, name, slow(worker(&fixture, &upstream.url())));
    let sleeper = start("sleeper");
    saw(&upstream, LINES).await;
    let instance = living(&fixture).await[0].instance;
    sleeper.freeze_outside_a_commit(&fixture).await;
    let _other = start("other");
    gate.open();
    // The other has looked for the dead before it claims.
    let second = fixture.batch(LINES).await;
    fixture.closed(second, WITHIN).await;
    assert_eq!(member(&fixture, instance).await.tombstoned_at, None);
    let counts = fixture.store().batch(&Scope::All, batch).await.unwrap().counts;
    assert_eq!(counts.leased, LINES, "{counts:?}");
    sleeper.thaw();
    fixture.closed(batch, WITHIN).await;
    Ended::check(&fixture, batch, LINES, 0).await.check_upstream(&upstream, 0);
}

/// Without the file nothing is known, so the lease decides, as it does between machines.
async fn a_process_without_its_lock_file_is_waited_for(backend: Backend) {
    let fixture = Fixture::on(backend).await;
    let batch = fixture.batch(LINES).await;
    let upstream = Upstream::start(Script::always(Reply::Hang)).await.unwrap();
    let start = |name| Program::start(&fixture, name, slow(worker(&fixture, &upstream.url())));
    let first = start("first");
    saw(&upstream, LINES).await;
    let dead = living(&fixture).await[0].clone();
    fs::remove_file(dead.lock.expect("it holds a lock").path).unwrap();
    first.kill();
    upstream.set(Script::echo());
    let _other = start("other");
    let second = fixture.batch(LINES).await;
    fixture.closed(second, WITHIN).await;
    assert_eq!(member(&fixture, dead.instance).await.tombstoned_at, None);
    let held = fixture.store().holders(&Scope::All, batch).await.unwrap();
    assert_eq!((held.len(), held[0].instance, held[0].lines), (1, dead.instance, LINES));
    assert!(held[0].lost_in_ms > 0, "{held:?}");
}

/// The lock file is gone, so the first one may live: the second one says who holds what, and until when.
async fn a_run_says_what_it_waits_for_and_until_when(backend: Backend) {
    let fixture = Fixture::on(backend).await;
    let upstream = Upstream::start(Script::always(Reply::Hang)).await.unwrap();
    let input = fixture.folder().join("in.jsonl");
    fs::write(&input, windrow_fault::input::text(LINES)).unwrap();
    let start = |name| {
        let out = fixture.folder().join("out.jsonl");
        let mut command = slow(program::run(&fixture, &input, &upstream.url(), out));
        // Whoever was not heard of for a moment does not answer.
        command.env("WINDROW_HEARTBEAT_MS", "100");
        Program::start(&fixture, name, command)
    };
    let first = start("first");
    saw(&upstream, LINES).await;
    let dead = living(&fixture).await[0].clone();
    fs::remove_file(dead.lock.expect("it holds a lock").path).unwrap();
    first.kill();
    let again = start("again");
    let watch = Program::start(&fixture, "watch", {
        let mut command = program::windrow(&fixture, "watch");
        command.arg("last").env("WINDROW_HEARTBEAT_MS", "100");
        command
    });
    let held = format!("{LINES} lines are held by a process (pid {} on ", dead.pid);
    for program in [&again, &watch] {
        let said = || async {
            let said = program.said();
            let told = said.contains(&held)
                && said.contains("that does not answer; they come back within");
            told.then_some(())
        };
        wait::until(WITHIN, said, || async { program.said() }).await;
    }
}

/// A dead instance whose process id another process has is buried; a living one whose process id nobody
/// has is not.
async fn the_process_id_is_never_asked(backend: Backend) {
    let fixture = Fixture::on(backend).await;
    let batch = fixture.batch(LINES).await;
    let upstream = Upstream::start(Script::echo()).await.unwrap();
    let port = upstream.address().port();
    let to = UpstreamId::of_url("http", "127.0.0.1", port, "").unwrap();
    let (nobody, me) = (u32::MAX, std::process::id());
    let mut instances = Vec::new();
    for (pid, lives) in [(me, false), (nobody, true)] {
        let instance = InstanceId::new();
        let path = fixture.folder().join(format!("{instance}.lock"));
        let file = File::create_new(&path).unwrap();
        if lives {
            file.try_lock().unwrap();
        }
        let found = file.metadata().unwrap();
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let lock = ProcessLock {
            boot_id: boot_id.trim().to_owned(),
            device: found.dev(),
            inode: found.ino(),
            path: path.to_str().unwrap().to_owned(),
        };
        let new = NewMember {
            instance,
            service: "windrow work".to_owned(),
            host: "here".to_owned(),
            pid,
            metadata: "{}".to_owned(),
            lock: Some(lock),
        };
        fixture.store().register(new).await.unwrap();
        let request = Request {
            lease: LeaseId::new(),
            routes: vec![Route::new(to.clone(), Target::new("echo").unwrap())],
            binds: true,
            only: None,
            lines_max: 2,
            lease_ms: 250_000,
        };
        let tranche = fixture.store().lease_tranche(instance, request).await.unwrap();
        assert_eq!(tranche.expect("two lines").lines.len(), 2);
        // The dead one's file is closed here.
        instances.push((instance, lives.then_some(file)));
    }
    let [(dead, _), (living, _lock)] = &instances[..] else { unreachable!("two") };
    let _worker = Program::start(&fixture, "worker", slow(worker(&fixture, &upstream.url())));
    fixture.finished(batch, LINES - 2, WITHIN).await;
    assert!(member(&fixture, *dead).await.tombstoned_at.is_some());
    assert_eq!(member(&fixture, *living).await.tombstoned_at, None);
    let counts = fixture.store().batch(&Scope::All, batch).await.unwrap().counts;
    assert_eq!(counts.leased, 2, "{counts:?}");
}

/// Two containers on one volume: in both the process has the same id. One dies, and the other takes over.
async fn processes_of_two_namespaces_bury_only_the_dead(backend: Backend) {
    let unshare = |command: &mut Command| command.status().is_ok_and(|status| status.success());
    let allowed = unshare(Command::new("unshare").args(UNSHARE).arg("true"));
    let what = "unshare with the right to make a process namespace";
    let Some(()) = required(what, allowed.then_some(())) else { return };
    let fixture = Fixture::on(backend).await;
    let batch = fixture.batch(LINES).await;
    let (gate, script) = held();
    let upstream = Upstream::start(script).await.unwrap();
    let start = |name| {
        let mut command = slow(worker(&fixture, &upstream.url()));
        command.envs([("WINDROW_SWEEP_MS_MIN", "200"), ("WINDROW_SWEEP_MS_MAX", "400")]);
        Program::start(&fixture, name, in_own_namespace(&command))
    };
    let first = start("first");
    saw(&upstream, LINES).await;
    let dead = living(&fixture).await[0].clone();
    let second = start("second");
    let both = || async { (living(&fixture).await.len() == 2).then_some(()) };
    wait::until(WITHIN, both, || async { "the second does not join".to_owned() }).await;
    let members = living(&fixture).await;
    assert!(members.iter().all(|one| one.pid == dead.pid), "{members:?}");
    first.kill();
    saw(&upstream, LINES + 1).await;
    gate.open();
    fixture.closed(batch, WITHIN).await;
    let left = living(&fixture).await;
    assert_eq!(left.len(), 1, "{left:?}");
    assert_ne!(left[0].instance, dead.instance);
    drop(second);
}

/// A process namespace of its own, whose processes end with the one that made it.
const UNSHARE: [&str; 4] = ["--pid", "--fork", "--mount-proc", "--kill-child"];

fn in_own_namespace(command: &Command) -> Command {
    let mut wrapped = Command::new("unshare");
    wrapped.env_clear().args(UNSHARE).arg(command.get_program()).args(command.get_args());
    wrapped.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    wrapped.current_dir(command.get_current_dir().expect("a folder of its own"));
    wrapped
}

/// Each death counts, though nobody waits: in the end the line is alone in its process, and fails.
async fn a_line_that_kills_every_run_fails_alone(backend: Backend) {
    run_over_a_killer(backend, None).await;
}

/// The same where each line is alone in its lease from the start: all leases of the process are lost each time.
async fn a_line_that_kills_every_run_takes_no_other_lease_with_it(backend: Backend) {
    run_over_a_killer(backend, Some("1")).await;
}

/// Runs a file over and over until it ends, with a line in it that kills whoever sends it.
async fn run_over_a_killer(backend: Backend, claim_max: Option<&str>) {
    const KILLER: u64 = 5;
    /// Lines of one lease are halved by each death, and the line that is left may die three times.
    const DEATHS_MAX: u32 = 12;
    let fixture = Fixture::on(backend).await;
    let victim = Arc::new(AtomicU32::new(0));
    let killed = victim.clone();
    let script = Script::new(move |seen| {
        if line_of(&seen.body) == KILLER {
            let id = i32::try_from(killed.load(Ordering::SeqCst)).unwrap();
            kill_process(Pid::from_raw(id).expect("it runs"), Signal::KILL).unwrap();
            return Reply::Hang;
        }
        Reply::Echo
    });
    let upstream = Upstream::start(script).await.unwrap();
    let input = fixture.folder().join("in.jsonl");
    fs::write(&input, windrow_fault::input::text(LINES)).unwrap();
    let mut deaths = 0;
    let clock = Clock::machine();
    loop {
        let out = fixture.folder().join("out.jsonl");
        let mut command = slow(program::run(&fixture, &input, &upstream.url(), out));
        command.env("WINDROW_CRASHES_MAX", "3");
        command.envs(claim_max.map(|lines| ("WINDROW_CLAIM_MAX", lines)));
        let mut run = Program::start(&fixture, "run", command);
        victim.store(run.id(), Ordering::SeqCst);
        let status = run.ended(WITHIN).await;
        if status.code().is_some() {
            break;
        }
        deaths += 1;
        assert!(deaths <= DEATHS_MAX, "it kills for ever");
    }
    println!("{backend:?}: {deaths} deaths in {} ms", clock.elapsed().as_millis());
    assert!(deaths >= 3, "{deaths}");
    let batches = windrow::store::inspect::BatchesQuery { limit: 10, ..Default::default() };
    let batch = fixture.store().batches(&Scope::All, batches).await.unwrap().rows.remove(0);
    let ended = Ended::rows(&fixture, batch.id, LINES).await;
    let failed: Vec<_> =
        ended.results.iter().filter(|line| line.result.status == Status::Failed).collect();
    let told: Vec<_> =
        failed.iter().map(|line| (line.result.line, line.result.error_code.as_deref())).collect();
    assert_eq!(told, [(KILLER, Some("worker_lost"))]);
    assert_eq!(ended.count(Status::Completed), LINES - 1);
}

/// The database is away for longer than the time after which a silent process is dead, and comes back:
/// nobody was heard of, and nobody is buried.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_was_away_buries_nobody() {
    const PROCESSES: usize = 4;
    let (away, heartbeat_ms, stale_ms, sweep_ms) = rounds(
        (Duration::from_secs(5), "300", "1500", "300"),
        (Duration::from_secs(90), "10000", "60000", "10000"),
    );
    let options = Options { durable: true, connections_max: 100, ..Options::default() };
    let mut cluster = block_in_place(|| Cluster::start(&options)).unwrap();
    let fixture = Fixture::at(cluster.url()).await;
    let upstream = Upstream::start(Script::echo()).await.unwrap();
    let start = |no: usize| {
        let mut command = worker(&fixture, &upstream.url());
        command.envs([
            ("WINDROW_HEARTBEAT_MS", heartbeat_ms),
            ("WINDROW_MEMBER_STALE_MS", stale_ms),
            ("WINDROW_SWEEP_MS_MIN", sweep_ms),
            ("WINDROW_SWEEP_MS_MAX", sweep_ms),
        ]);
        Program::start(&fixture, &format!("worker-{no}"), command)
    };
    let _workers: Vec<Program> = (0..PROCESSES).map(start).collect();
    let all = || async { (living(&fixture).await.len() == PROCESSES).then_some(()) };
    wait::until(WITHIN, all, || async { "not all have joined".to_owned() }).await;
    block_in_place(|| cluster.stop(Shutdown::Fast));
    wait::pause(away).await;
    block_in_place(|| cluster.start_again()).unwrap();
    // Often enough that everybody has swept since.
    for _ in 0..4 {
        let before = beats(&fixture).await;
        let heard = || async {
            let (now, members) = (beats(&fixture).await, fixture.store().members().await.ok()?);
            let is_heard = |instance: &InstanceId| now.get(instance) > before.get(instance);
            let is_over = members.iter().any(|one| one.tombstoned_at.is_some());
            (is_over || members.iter().all(|one| is_heard(&one.instance))).then_some(())
        };
        let said = || async { format!("{:?}", fixture.store().members().await) };
        wait::until(WITHIN, heard, said).await;
    }
    let members = fixture.store().members().await.unwrap();
    assert_eq!(members.len(), PROCESSES, "nobody joined again: {members:#?}");
    assert!(members.iter().all(|one| one.tombstoned_at.is_none()), "{members:#?}");
}

/// The last heartbeat of each instance, in a form that compares.
async fn beats(fixture: &Fixture) -> HashMap<InstanceId, i64> {
    let look = || async { fixture.store().members().await.ok() };
    let away = || async { "the database does not answer".to_owned() };
    let members = wait::until(WITHIN, look, away).await;
    members.iter().map(|one| (one.instance, one.heartbeat_at.as_microsecond())).collect()
}
