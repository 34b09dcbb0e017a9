//! The real binary as processes: started, stopped in every way, and read afterwards.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use windrow::domain::Target;
use windrow_testkit::process::Keeper;

use crate::{Fixture, wait};

/// Names the binary, when it is not beside the test.
pub const BINARY: &str = "WINDROW_BIN";

/// Bounds that make every test short. A line that is caught in many crashes must still not fail.
pub(crate) const BOUNDS: &[(&str, &str)] = &[
    ("WINDROW_LOCK_FLOOR_MS", "1500"),
    ("WINDROW_WORKER_TARGET_SLICE_MS", "500"),
    ("WINDROW_CLAIM_MAX", "200"),
    ("WINDROW_SWEEP_MS_MIN", "200"),
    ("WINDROW_SWEEP_MS_MAX", "400"),
    ("WINDROW_HEARTBEAT_MS", "500"),
    ("WINDROW_MEMBER_STALE_MS", "5000"),
    ("WINDROW_POLL_MS", "100"),
    ("WINDROW_GRACE_MS", "3000"),
    ("WINDROW_BACKOFF_MS_MIN", "20"),
    ("WINDROW_BACKOFF_MS_MAX", "1000"),
    ("WINDROW_CRASHES_MAX", "1000"),
    ("WINDROW_FINALISE_LEASE_MS", "2000"),
];

/// Longest a process may take to stand still.
const STOP_MAX: Duration = Duration::from_secs(10);
/// Longest until it stands still outside of a commit.
const FREEZE_MAX: Duration = Duration::from_secs(60);
/// A free database answers a write long before that.
const FREE: Duration = Duration::from_millis(500);
/// Lines of a program's log that a failed test shows.
const TAIL_LINES: usize = 30;

/// Where the binary is.
///
/// # Panics
/// When it was not built.
pub fn binary() -> PathBuf {
    let path = std::env::var_os(BINARY).map(PathBuf::from).unwrap_or_else(|| beside("windrow"));
    assert!(
        path.is_file(),
        "there is no binary at {}: run `cargo xtask test fault`, which builds it, or name it with {BINARY}",
        path.display()
    );
    path
}

/// Where an example of that name is.
///
/// # Panics
/// When it was not built.
pub fn example(name: &str) -> PathBuf {
    let path = beside("examples").join(name);
    let shown = path.display();
    assert!(path.is_file(), "there is no {shown}: run `cargo xtask test fault`, which builds it");
    path
}

/// What cargo builds into the same folder as this test.
fn beside(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a test program knows its own path");
    // target/<profile>/deps/fault-…
    let folder = own.parent().and_then(Path::parent).expect("a test program is in a folder");
    folder.join(name)
}

/// The binary with that command, on that fixture, with short bounds and nothing of this process's
/// own environment.
pub fn windrow(fixture: &Fixture, subcommand: &str) -> Command {
    let mut command = Command::new(binary());
    command.env_clear().env("HOME", fixture.folder()).envs(BOUNDS.iter().copied());
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("WINDROW_STORAGE", fixture.outputs()).current_dir(fixture.folder());
    command.arg(subcommand).args(["--database", fixture.database()]);
    command.arg("--data").arg(fixture.folder());
    command
}

/// `windrow work` for one upstream.
pub fn worker(fixture: &Fixture, to: &str) -> Command {
    let mut command = windrow(fixture, "work");
    command.args(["--to", to]);
    command
}

/// `windrow run` over a file, with the results in another.
pub fn run(fixture: &Fixture, file: &Path, to: &str, out: impl AsRef<OsStr>) -> Command {
    let mut command = windrow(fixture, "run");
    command.arg(file).args(["--to", to, "--out"]).arg(out);
    command
}

/// A process; killed when it is dropped, or when this one dies.
pub struct Program {
    child: Child,
    log: PathBuf,
    _keeper: Keeper,
}

impl Program {
    /// Starts it. What it says goes to a file of that name in the fixture's folder, after what an
    /// earlier one said there.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(fixture: &Fixture, name: &str, mut command: Command) -> Self {
        command.stdin(Stdio::null());
        Self::start_in(fixture.folder(), name, command)
    }

    /// The same in any folder, with the standard input that the command has.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start_in(folder: &Path, name: &str, mut command: Command) -> Self {
        let log = folder.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log).expect("a log opens");
        let twin = file.try_clone().expect("a log is shared");
        command.stdout(file).stderr(twin).process_group(0);
        let child = command.spawn().unwrap_or_else(|why| panic!("could not start {name}: {why}"));
        let keeper = Keeper::of_group(&child).expect("a keeper for it");
        Self { child, log, _keeper: keeper }
    }

    /// As a crash of the machine would: `kill -9`.
    ///
    /// # Panics
    /// When it had ended by itself.
    pub fn kill(mut self) {
        let ended = self.child.try_wait().expect("a child can be asked");
        assert!(ended.is_none(), "it ended by itself ({ended:?}):\n{}", self.said());
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a killed child ends");
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stands still, as in a long pause of a virtual machine. Returns when every thread does: on a
    /// busy machine some run on for a while after the signal, and may take a lock.
    ///
    /// # Panics
    /// When it does not stop in time.
    pub async fn freeze(&self) {
        self.signal(Signal::STOP);
        let id = self.child.id();
        let look = || async move { is_stopped(id).then_some(()) };
        wait::until(STOP_MAX, look, || async { "it does not stop".to_owned() }).await;
    }

    /// Stands still, but not in the middle of a write: a stopped process keeps the lock of an SQLite file that
    /// it is writing to, and everybody waits for it. On PostgreSQL it holds no lock for longer than a
    /// statement.
    ///
    /// # Panics
    /// When it writes all the time, or the store refuses a write.
    pub async fn freeze_outside_a_commit(&self, fixture: &Fixture) {
        let probe = Target::new("probe").expect("a valid name");
        let freeze = || async {
            self.freeze().await;
            match tokio::time::timeout(FREE, fixture.store().set_limit(&probe, None)).await {
                Ok(free) => {
                    free.expect("a free database takes a write");
                    Some(())
                }
                Err(_) => {
                    self.thaw();
                    None
                }
            }
        };
        wait::until(FREEZE_MAX, freeze, || async { "it is always writing".to_owned() }).await;
    }

    /// Goes on.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Is asked to end.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a child takes signals");
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().expect("a child can be asked").is_none()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it does not end in time, with the end of what it said.
    pub async fn ended(&mut self, within: Duration) -> ExitStatus {
        let log = self.log.clone();
        let child = &mut self.child;
        let look = || {
            let ended = child.try_wait().expect("a child can be asked");
            async move { ended }
        };
        wait::until(within, look, || async move { tail(&log) }).await
    }

    /// The end of what it said.
    pub fn said(&self) -> String {
        tail(&self.log)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended long ago.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- {}\n{}", self.log.display(), self.said());
        }
    }
}

/// Whether every thread of a process stands still, as `/proc` has it.
fn is_stopped(id: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{id}/task")).expect("a child has threads");
    tasks.flatten().all(|task| {
        // The state follows the name, which ends in the last bracket. A thread may end meanwhile.
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
    })
}

fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}
