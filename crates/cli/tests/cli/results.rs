//! Results, exports and the tries behind them.

use windrow_testkit::upstream::{Reply, Script, Upstream};

use crate::kit::{Desk, ids, ids_of};

/// A desk where a run has ended: line 3 failed, line 4 needed a second try.
async fn desk_after_a_run() -> Desk {
    let script = Script::new(|seen| {
        let body: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
        match (body["n"].as_u64().unwrap(), seen.key().ends_with(":1")) {
            (3, _) => Reply::error(422, "no\nthree\u{1b}[2J"),
            (4, true) => Reply::error(500, "not yet"),
            _ => Reply::Echo,
        }
    });
    let (desk, upstream) = (Desk::new(), Upstream::start(script).await.unwrap());
    desk.requests("a.jsonl", 6);
    let args = ["run", "a.jsonl", "--to", &upstream.url(), "--set", "backoff_ms_min=1"];
    let said = desk.windrow(&args).await;
    assert_eq!(said.code, 5, "{said:?}");
    assert!(!said.out.contains('\u{1b}'), "an upstream cannot write to the terminal");
    desk
}

#[tokio::test]
async fn results_and_errors_are_written_to_a_file_or_to_standard_output() {
    let desk = desk_after_a_run().await;
    let said = desk.windrow(&["results", "last"]).await;
    assert_eq!((said.code, ids(&said.out)), (0, ids_of([1, 2, 4, 5, 6])));
    let said = desk.windrow(&["results", "last", "--errors", "--out", "e.jsonl"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(ids(&desk.read("e.jsonl")), ids_of([3]));
    assert_eq!(desk.read("e.jsonl"), desk.read("a.errors.jsonl"));
    // Without the outputs the database has it all.
    let folder = desk.path("home/.local/share/windrow/outputs");
    std::fs::remove_dir_all(folder).unwrap();
    let again = desk.windrow(&["results", "last"]).await;
    assert_eq!((again.code, again.out), (0, desk.read("a.results.jsonl")));
    let said = desk.windrow(&["results", "last", "--out", "no/e.jsonl"]).await;
    assert_eq!(said.code, 8, "{said:?}");
}

#[tokio::test]
async fn an_export_has_the_columns_and_lines_that_were_asked_for() {
    let desk = desk_after_a_run().await;
    let columns = "line,custom_id,status,http_status,response:/n";
    let said = desk.windrow(&["export", "last", "--format", "csv", "--columns", columns]).await;
    assert_eq!(said.code, 0, "{said:?}");
    let lines: Vec<_> = said.out.lines().collect();
    assert_eq!(lines[0], columns, "{said:?}");
    assert_eq!(lines[1], "1,r-1,completed,200,1");
    assert_eq!(lines.len(), 7);
    let failed = desk.windrow(&["export", "last", "--status", "failed", "--out", "f.jsonl"]).await;
    assert_eq!(failed.code, 0, "{failed:?}");
    assert_eq!(ids(&desk.read("f.jsonl")), ids_of([3]));

    let book = desk.windrow(&["export", "last", "--format", "xlsx", "--out", "f.xlsx"]).await;
    assert_eq!(book.code, 0, "{book:?}");
    let bytes = std::fs::read(desk.path("f.xlsx")).unwrap();
    assert!(bytes.starts_with(b"PK\x03\x04"), "a workbook is a zip file");

    let said = desk.windrow(&["export", "last", "--columns", "line,colour"]).await;
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("colour") && said.err.contains("custom_id"), "{said:?}");
    let said = desk.windrow(&["export", "last", "--status", "lost"]).await;
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("the statuses are completed, failed"), "{said:?}");
}

#[tokio::test]
async fn tries_that_were_repeated_are_remembered_and_lines_are_retried_by_number() {
    let desk = desk_after_a_run().await;
    let said = desk.windrow(&["attempts", "last", "4"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("http_500") && said.out.contains("not yet"), "{said:?}");
    let said = desk.windrow(&["attempts", "last", "1", "--json"]).await.json();
    assert_eq!(said["attempts"].as_array().unwrap().len(), 0);

    let said = desk.windrow(&["retry", "last", "--lines", "1-2,5"]).await;
    assert!(said.out.contains("3 lines will run again"), "{said:?}");
    let said = desk.windrow(&["retry", "last", "--status", "lost"]).await;
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("the statuses are"), "{said:?}");
}
