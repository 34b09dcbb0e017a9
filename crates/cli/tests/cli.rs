//! The binary as people use it, on SQLite: what it prints and how it ends.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::path::Path;
use std::process::{Command, Output};

fn windrow(dir: &Path, args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(args)
        .current_dir(dir)
        .env_remove("WINDROW_DATABASE_URL")
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn number_after(text: &str, word: &str) -> u64 {
    let line = text.lines().find(|line| line.trim_start().starts_with(word)).unwrap();
    let digits = line.trim_start()[word.len()..].split_whitespace().next().unwrap();
    digits.replace(',', "").parse().unwrap()
}

#[test]
fn the_demo_runs_every_line_and_every_outcome_appears() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = windrow(dir.path(), &["demo", "--lines", "2000", "--workers", "3"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let counts = ["completed", "failed", "not found", "skipped", "unfinished", "total"];
    let counts = counts.map(|word| number_after(&out, word));
    assert_eq!(counts, [1940, 20, 20, 20, 0, 2000], "{out}");
    assert!(out.contains("and 100 retries on the way"), "{out}");
    assert!(out.contains(r#""custom_id":"demo-1""#), "{out}");
    assert!(out.contains("every line is in exactly one place"), "{out}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "it leaves nothing behind");
}

#[test]
fn the_doctor_finds_a_database_the_demo_made_to_be_sound() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let (code, out, err) =
            windrow(dir.path(), &["demo", "--lines", "150", "--database", "d.db"]);
        assert_eq!(code, 0, "{out}{err}");
    }
    let (code, out, err) = windrow(dir.path(), &["doctor", "--database", "sqlite:d.db", "-v"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("2 batches, 300 lines: every line is in exactly one place."), "{out}");
    assert_eq!(out.matches("ok ").count(), 2, "{out}");
}

#[test]
fn a_good_file_is_taken_in_and_a_bad_one_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let good = r#"{"custom_id":"a","method":"POST","url":"/v1/x","body":{"model":"m"}}"#;
    std::fs::write(dir.path().join("good.jsonl"), format!("{good}\n")).unwrap();
    std::fs::write(dir.path().join("bad.jsonl"), format!("{good}\noops\n{good}\n")).unwrap();

    let (code, out, err) = windrow(dir.path(), &["ingest", "good.jsonl"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains(": 1 requests, 69 bytes in "), "{out}");
    assert!(dir.path().join("windrow.db").exists(), "the default database");

    let (code, out, _) = windrow(dir.path(), &["ingest", "bad.jsonl"]);
    assert_eq!(code, 3, "{out}");
    assert!(out.contains("does not validate: 2 errors"), "{out}");
    assert!(out.contains("line 2: The line is not valid JSON"), "{out}");
    assert!(
        out.contains("line 3: `custom_id` is the same as on line 1. [duplicate_custom_id]"),
        "{out}"
    );
}

#[test]
fn failures_say_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let (code, _, err) = windrow(dir.path(), &["ingest", "nowhere.jsonl"]);
    assert_eq!(code, 1);
    assert!(err.starts_with("error: could not open nowhere.jsonl\n  because "), "{err}");
    let (code, _, err) = windrow(dir.path(), &["doctor"]);
    assert_eq!(code, 1);
    assert!(err.contains("there is no database at windrow.db; give its path"), "{err}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was made");
    let (code, _, err) = windrow(dir.path(), &["demo", "--database", "mysql://x"]);
    assert_eq!(code, 2);
    assert!(err.contains("use a path or postgres://"), "{err}");
    // Port 1 refuses at once.
    let (code, _, err) =
        windrow(dir.path(), &["demo", "--database", "postgres://u:pw@127.0.0.1:1/d"]);
    assert_eq!(code, 1);
    assert!(err.contains("PostgreSQL 127.0.0.1:1/d") && !err.contains("pw"), "{err}");
    assert!(err.contains("What to do: check that the database runs"), "{err}");
}

#[test]
fn the_help_names_commands_and_exit_codes() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, _) = windrow(dir.path(), &["--help"]);
    assert_eq!(code, 0);
    for word in ["demo", "ingest", "doctor", "Exit codes:", "3  the file does not validate"] {
        assert!(out.contains(word), "{word}: {out}");
    }
}
