//! Results, exports and the tries behind them.

use windrow_testkit::upstream::{Reply, Script, Upstream};

use crate::support::{Workdir, ids, ids_of};

/// A desk where a run has ended: line 3 failed, line 4 needed a second try.
async fn desk_after_a_run() -> Workdir {
    let script = Script::new(|seen| {
        let body: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
        match (body["n"].as_u64().unwrap(), seen.key().ends_with(":1")) {
            (3, _) => Reply::error(422, "no\nthree\u{1b}[2J"),
            (4, true) => Reply::error(500, "not yet"),
            _ => Reply::Echo,
        }
    });
    let (workdir, upstream) = (Workdir::new(), Upstream::start(script).await.unwrap());
    workdir.requests("a.jsonl", 6);
    let args = ["run", "a.jsonl", "--to", &upstream.url(), "--set", "backoff_ms_min=1"];
    let output = workdir.windrow(&args).await;
    assert_eq!(output.code, 5, "{output:?}");
    assert!(!output.out.contains('\u{1b}'), "an upstream cannot write to the terminal");
    workdir
}

#[tokio::test]
async fn results_and_errors_are_written_to_a_file_or_to_standard_output() {
    let workdir = desk_after_a_run().await;
    let output = workdir.windrow(&["results", "last"]).await;
    assert_eq!((output.code, ids(&output.out)), (0, ids_of([1, 2, 4, 5, 6])));
    let output = workdir.windrow(&["results", "last", "--errors", "--out", "e.jsonl"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(ids(&workdir.read("e.jsonl")), ids_of([3]));
    assert_eq!(workdir.read("e.jsonl"), workdir.read("a.errors.jsonl"));
    // Without the outputs the database has it all.
    let folder = workdir.path("home/.local/share/windrow/outputs");
    std::fs::remove_dir_all(folder).unwrap();
    let again = workdir.windrow(&["results", "last"]).await;
    assert_eq!((again.code, again.out), (0, workdir.read("a.results.jsonl")));
    let output = workdir.windrow(&["results", "last", "--out", "no/e.jsonl"]).await;
    assert_eq!(output.code, 8, "{output:?}");
}

#[tokio::test]
async fn an_export_has_the_columns_and_lines_that_were_asked_for() {
    let workdir = desk_after_a_run().await;
    let columns = "line,custom_id,status,http_status,response:/n";
    let output =
        workdir.windrow(&["export", "last", "--format", "csv", "--columns", columns]).await;
    assert_eq!(output.code, 0, "{output:?}");
    let lines: Vec<_> = output.out.lines().collect();
    assert_eq!(lines[0], columns, "{output:?}");
    assert_eq!(lines[1], "1,r-1,completed,200,1");
    assert_eq!(lines.len(), 7);
    let failed =
        workdir.windrow(&["export", "last", "--status", "failed", "--out", "f.jsonl"]).await;
    assert_eq!(failed.code, 0, "{failed:?}");
    assert_eq!(ids(&workdir.read("f.jsonl")), ids_of([3]));

    let book = workdir.windrow(&["export", "last", "--format", "xlsx", "--out", "f.xlsx"]).await;
    assert_eq!(book.code, 0, "{book:?}");
    let bytes = std::fs::read(workdir.path("f.xlsx")).unwrap();
    assert!(bytes.starts_with(b"PK\x03\x04"), "a workbook is a zip file");

    let output = workdir.windrow(&["export", "last", "--columns", "line,colour"]).await;
    assert_eq!(output.code, 2, "{output:?}");
    assert!(output.err.contains("colour") && output.err.contains("custom_id"), "{output:?}");
    let output = workdir.windrow(&["export", "last", "--status", "lost"]).await;
    assert_eq!(output.code, 2, "{output:?}");
    assert!(output.err.contains("the statuses are completed, failed"), "{output:?}");
}

#[tokio::test]
async fn tries_that_were_repeated_are_remembered_and_lines_are_retried_by_number() {
    let workdir = desk_after_a_run().await;
    let output = workdir.windrow(&["attempts", "last", "4"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.out.contains("http_500") && output.out.contains("not yet"), "{output:?}");
    let output = workdir.windrow(&["attempts", "last", "1", "--json"]).await.json();
    assert_eq!(output["attempts"].as_array().unwrap().len(), 0);

    let output = workdir.windrow(&["retry", "last", "--lines", "1-2,5"]).await;
    assert!(output.out.contains("3 lines will run again"), "{output:?}");
    let output = workdir.windrow(&["retry", "last", "--status", "lost"]).await;
    assert_eq!(output.code, 2, "{output:?}");
    assert!(output.err.contains("the statuses are"), "{output:?}");
}
