//! Processes that end with the one that started them.
//!
//! Holds throughout: a server never outlives its owner. In the usual case `Drop` stops it; when the
//! owner is killed, its `Keeper`, a small shell that waits on a pipe from the owner, sees the pipe
//! close and does the same.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::Failure;

const POLL_MS: u64 = 20;
const STOP_SECS_MAX: u64 = 10;

/// Waits for its owner to release it or to die; then signals the process (or group) it was last
/// told of, and clears up. Ignores the signals a terminal sends, so that it is there to act when
/// they end its owner.
const KEEPER_SCRIPT: &str = r#"
trap '' INT TERM HUP QUIT
folder=$1 target=
shift
while read -r word value; do
  case $word in
    watch) target=$value ;;
    released) exit 0 ;;
  esac
done
for signal in "$@" KILL; do
  [ -n "$target" ] && kill -s "$signal" -- "$target" 2>/dev/null || break
  tries=0
  while kill -s 0 -- "$target" 2>/dev/null && [ "$tries" -lt 50 ]; do
    sleep 0.1
    tries=$((tries + 1))
  done
done
[ -z "$folder" ] || rm -rf -- "$folder"
"#;

/// Ends a process when its owner dies without doing so itself.
#[derive(Debug)]
pub struct Keeper {
    shell: Child,
}

impl Keeper {
    /// Watches over every process of a group: all of them get `TERM` when the owner dies.
    pub fn of_group(leader: &Child) -> Result<Self, Failure> {
        let mut keeper = Self::spawn(None, &["TERM"])?;
        keeper.tell(&format!("watch -{}", leader.id()));
        Ok(keeper)
    }

    fn spawn(folder: Option<&Path>, signals: &[&str]) -> Result<Self, Failure> {
        let shell = Command::new("sh")
            .args(["-c", KEEPER_SCRIPT, "keeper"])
            .arg(folder.unwrap_or(Path::new("")))
            .args(signals)
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(Failure::while_doing("start the shell that guards a server"))?;
        Ok(Self { shell })
    }

    fn tell(&mut self, line: &str) {
        if let Some(pipe) = &mut self.shell.stdin {
            // A keeper that is gone cannot be told; what it guarded is still ended by its owner.
            let _ = writeln!(pipe, "{line}");
        }
    }
}

/// Dropped by an owner that lives: nothing is left to do.
impl Drop for Keeper {
    fn drop(&mut self) {
        self.tell("released");
        let _ = self.shell.wait();
    }
}

/// A temporary folder with the account that servers in it run as.
#[derive(Debug)]
pub(crate) struct Home {
    // Declared first, so that it is gone before the keeper is released.
    folder: tempfile::TempDir,
    keeper: Keeper,
    account: Option<Account>,
    stop: &'static [Stop],
}

/// Who a server runs as when we are root: PostgreSQL and pgbouncer both refuse to be.
#[derive(Clone, Copy, Debug)]
struct Account {
    uid: u32,
    gid: u32,
}

impl Home {
    /// `stop` is how its server is asked to end.
    pub(crate) fn new(prefix: &str, stop: &'static [Stop]) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new()
            .prefix(prefix)
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir()
            .map_err(Failure::while_doing("make a temporary folder"))?;
        let owner = fs::metadata(folder.path())
            .map_err(Failure::while_doing("look at the temporary folder"))?
            .uid();
        let account = (owner == 0).then(unprivileged).transpose()?;
        let words: Vec<&str> = stop.iter().map(|(_, word)| *word).collect();
        let keeper = Keeper::spawn(Some(folder.path()), &words)?;
        let home = Self { folder, keeper, account, stop };
        home.hand_over(home.path())?;
        Ok(home)
    }

    /// Runs a command to its end.
    pub(crate) fn run(&mut self, mut command: Command) -> io::Result<Output> {
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = piped.spawn()?;
        self.keeper.tell(&format!("watch {}", child.id()));
        let output = child.wait_with_output();
        self.keeper.tell("watch");
        output
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A folder inside, writable by the servers.
    pub(crate) fn subfolder(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.path().join(name);
        fs::create_dir(&path).map_err(Failure::while_doing("make a folder for a server"))?;
        self.hand_over(&path)?;
        Ok(path)
    }

    /// A file inside, readable by the servers.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf, Failure> {
        let path = self.path().join(name);
        fs::write(&path, text).map_err(Failure::while_doing("write a server's settings"))?;
        self.hand_over(&path)?;
        Ok(path)
    }

    /// A command that runs inside, as the unprivileged account where there is one.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path()).stdin(Stdio::null());
        if let Some(account) = self.account {
            command.uid(account.uid).gid(account.gid);
        }
        command
    }

    fn hand_over(&self, path: &Path) -> Result<(), Failure> {
        let Some(account) = self.account else {
            return Ok(());
        };
        chown(path, Some(account.uid), Some(account.gid))
            .map_err(Failure::while_doing("hand a folder to the servers' account"))
    }
}

fn unprivileged() -> Result<Account, Failure> {
    let found = ["postgres", "nobody"]
        .into_iter()
        .find_map(|name| Some(Account { uid: id_of(name, "-u")?, gid: id_of(name, "-g")? }));
    found.ok_or_else(|| {
        Failure::new(
            "running as root, and there is no account `postgres` or `nobody` to run servers as",
        )
    })
}

fn id_of(name: &str, flag: &str) -> Option<u32> {
    let output = Command::new("id").args([flag, name]).output().ok()?;
    if !output.status.success() {
        return None;
    }
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

/// One way of asking a server to stop, gentlest first; in the end it is killed.
pub(crate) type Stop = (Signal, &'static str);

/// A running server and its folder.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    home: Home,
}

impl Server {
    /// Starts it in a process group of its own, so that a terminal's interrupt reaches the tests
    /// and not the server under them. Its output goes to `log` in its folder.
    pub(crate) fn spawn(mut home: Home, command: Command) -> Result<Self, Failure> {
        let child = launch(&mut home, command)?;
        Ok(Self { child, home })
    }

    /// Stops it as asked, and by force when that does not help. Its folder stays.
    pub(crate) fn stop(&mut self, how: &[Stop]) {
        let pid = Pid::from_child(&self.child);
        let mut ended = self.child.try_wait().ok().flatten();
        for (signal, _) in how {
            if ended.is_none() && kill_process(pid, *signal).is_ok() {
                ended = self.wait_for_end();
            }
        }
        if ended.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        // Its number may be another's soon.
        self.home.keeper.tell("watch");
    }

    /// Starts it once more in its folder, after it was stopped.
    pub(crate) fn start_again(
        &mut self,
        program: &Path,
        words: &[OsString],
    ) -> Result<(), Failure> {
        let mut command = self.home.command(program);
        command.args(words);
        self.child = launch(&mut self.home, command)?;
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        self.home.path()
    }

    /// Waits until `ready`, or says with the end of the log why it never was.
    pub(crate) fn wait_until(
        &mut self,
        name: &str,
        within: Duration,
        ready: impl Fn() -> bool,
    ) -> Result<(), Failure> {
        let start = Instant::now();
        while !ready() {
            let ended = self.child.try_wait().ok().flatten();
            if let Some(status) = ended {
                return Err(self.trouble(name, &format!("ended with {status}")));
            }
            if start.elapsed() > within {
                let waited = format!("was not ready within {} s", within.as_secs());
                return Err(self.trouble(name, &waited));
            }
            thread::sleep(Duration::from_millis(POLL_MS));
        }
        Ok(())
    }

    fn trouble(&self, name: &str, what: &str) -> Failure {
        let log = fs::read_to_string(self.home.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(10)..].join("\n");
        Failure::new(format!("{name} {what}; the end of its log:\n{tail}"))
    }

    fn wait_for_end(&mut self) -> Option<ExitStatus> {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(STOP_SECS_MAX) {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(POLL_MS)),
                Ok(status) => return status,
                Err(_) => return None,
            }
        }
        None
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop(self.home.stop);
    }
}

fn launch(home: &mut Home, mut command: Command) -> Result<Child, Failure> {
    let log = File::options()
        .create(true)
        .append(true)
        .open(home.path().join("log"))
        .map_err(Failure::while_doing("make a server's log"))?;
    let twin = log.try_clone().map_err(Failure::while_doing("share a server's log"))?;
    let child = command
        .process_group(0)
        .stdout(log)
        .stderr(twin)
        .spawn()
        .map_err(Failure::while_doing("start a server"))?;
    home.keeper.tell(&format!("watch {}", child.id()));
    Ok(child)
}

/// A port that was free a moment ago. Another process may take it before the server does, so
/// starters try again with another one.
pub(crate) fn free_port() -> Result<u16, Failure> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(Failure::while_doing("find a free port"))
}
