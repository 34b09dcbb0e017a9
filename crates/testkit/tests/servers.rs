//! Servers that are started come up, and go away with whoever started them.

#![expect(
    clippy::disallowed_methods,
    reason = "waits for processes to end, and there is no signal for a process that is not ours"
)]

use std::env;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use windrow_testkit::pgbouncer::Pooler;
use windrow_testkit::postgres::{Cluster, Options};
use windrow_testkit::{programs, required};

const OWNER: &str = "WINDROW_TESTKIT_OWNER";

fn has_programs() -> bool {
    required("PostgreSQL's server programs", programs::postgres_folder()).is_some()
        && required("pgbouncer", programs::pgbouncer()).is_some()
}

fn answers(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[test]
fn a_dropped_cluster_leaves_nothing() {
    if !has_programs() {
        return;
    }
    let cluster = Cluster::start(&Options { durable: true, ..Options::default() }).unwrap();
    let pooler = Pooler::start(&cluster).unwrap();
    let (port, folder) = (cluster.port(), cluster.folder().to_path_buf());
    assert!(answers(port));
    assert!(pooler.url().starts_with("postgres://postgres@127.0.0.1:"));
    drop(pooler);
    drop(cluster);
    assert!(!answers(port));
    assert!(!folder.exists());
}

#[test]
fn a_setting_that_does_not_exist_is_reported_with_the_log() {
    if !has_programs() {
        return;
    }
    let settings = vec![("no_such_setting".to_owned(), "1".to_owned())];
    let failure = Cluster::start(&Options { settings, ..Options::default() }).unwrap_err();
    assert!(failure.to_string().contains("no_such_setting"), "{failure}");
}

/// Not a test of its own: the program below runs it in a second process, and kills that.
#[test]
fn owner_of_a_cluster() {
    if env::var_os(OWNER).is_none() {
        return;
    }
    let cluster = Cluster::start(&Options::default()).unwrap();
    println!("\nowner {} {}", cluster.port(), cluster.folder().display());
    loop {
        thread::park();
    }
}

#[test]
fn a_killed_owner_leaves_nothing() {
    if !has_programs() {
        return;
    }
    let mut owner = Command::new(env::current_exe().unwrap())
        .args(["--exact", "owner_of_a_cluster", "--nocapture"])
        .env(OWNER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said = lines.find(|line| line.starts_with("owner ")).expect("the owner says where it is");
    let words: Vec<&str> = said.splitn(3, ' ').collect();
    let (port, folder) = (words[1].parse().unwrap(), PathBuf::from(words[2]));
    assert!(answers(port));
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert!(gone_within(Duration::from_secs(30), port, &folder), "{said}");
}

fn gone_within(limit: Duration, port: u16, folder: &Path) -> bool {
    let start = Instant::now();
    while start.elapsed() < limit {
        if !answers(port) && !folder.exists() {
            return true;
        }
        thread::sleep(Duration::from_millis(50));
    }
    false
}
