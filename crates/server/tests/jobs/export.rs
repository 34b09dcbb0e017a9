//! Exports: the same rows in three formats, none of which starts a formula.

use std::io::Cursor;

use calamine::{Data, Reader as _, Xlsx};
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Harness, line};

const TRICKY: [&str; 7] = ["=1+1", "+1", "-1+2", "@SUM(A1)", "\t=1", "\r=1", "plain, \"text\""];

async fn tricky(harness: &Harness) -> String {
    let answers = TRICKY.iter().map(|text| json!({ "v": text }).to_string());
    let answers = answers.chain([r#"{"v":-5}"#.to_owned(), "=cmd()".to_owned()]);
    let lines = (1..).zip(answers).map(|(no, answer)| line(no, json!({ "answer": answer })));
    let lines: String = lines.chain([line(10, json!({ "do": "fail" }))]).collect();
    let job = harness.job(&harness.ann, "", lines).await;
    let id = job["jobId"].as_str().unwrap().to_owned();
    harness.finish(&harness.ann, &id).await;
    id
}

#[tokio::test]
async fn no_cell_of_a_csv_or_workbook_begins_a_formula_and_both_agree() {
    let harness = Harness::new().await;
    let id = tricky(&harness).await;
    let path = |format: &str| {
        format!("/api/jobs/{id}/export?format={format}&columns=line,status,response:/v,response")
    };
    let csv = harness.get(&harness.ann, &path("csv")).await;
    assert_eq!((csv.status, csv.header("content-type")), (200, "text/csv; charset=utf-8"));
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(&csv.body[..]);
    let csv: Vec<Vec<String>> =
        reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect();
    let book = harness.send(&harness.ann, Method::POST, &path("xlsx"), &[], "").await;
    assert!(
        book.header("content-type").ends_with("spreadsheetml.sheet"),
        "{}",
        book.header("content-type")
    );
    let mut book = Xlsx::new(Cursor::new(book.body)).unwrap();
    let sheet = book.worksheets().remove(0).1;
    assert!(book.worksheet_formula("Sheet1").unwrap().is_empty());
    let shown = |cell: &Data| match cell {
        Data::Empty => String::new(),
        other => other.to_string(),
    };
    let rows: Vec<Vec<String>> = sheet.rows().map(|row| row.iter().map(shown).collect()).collect();
    assert_eq!(csv, rows);
    assert_eq!(csv[0], ["line", "status", "response:/v", "response"]);
    let parts: Vec<_> = csv[1..8].iter().map(|row| row[2].as_str()).collect();
    let expected = ["'=1+1", "'+1", "'-1+2", "'@SUM(A1)", "'\t=1", "'\r=1", "plain, \"text\""];
    assert_eq!(parts, expected);
    assert_eq!((&*csv[8][2], &*csv[9][3], csv.len()), ("-5", "'=cmd()", 11));
    assert!(matches!(sheet.get((8, 2)), Some(Data::Float(value)) if *value == -5.0));
    let job = harness.get(&harness.ann, &format!("/api/jobs/{id}")).await.ok(200);
    let acts: Vec<_> = job["acts"].as_array().unwrap().iter().map(|act| &act["action"]).collect();
    assert_eq!(acts, ["create", "kickoff", "export", "export"]);
}

#[tokio::test]
async fn jsonl_has_what_came_and_only_what_was_asked_for() {
    let harness = Harness::new().await;
    let id = tricky(&harness).await;
    let path = format!("/api/jobs/{id}/export?");
    let all = harness.get(&harness.ann, &path).await;
    assert_eq!((all.status, all.header("content-type")), (200, "application/jsonl"));
    let rows: Vec<Value> =
        all.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((rows.len(), &rows[0]["response"]["v"]), (10, &json!("=1+1")));
    let failed =
        harness.get(&harness.ann, &format!("{path}statuses=ERROR&columns=line,error_code")).await;
    assert_eq!(failed.text(), "{\"line\":10,\"error_code\":\"http_400\"}\n");
    for bad in ["format=pdf", "columns=colour", "statuses=PENDING"] {
        harness.get(&harness.ann, &format!("{path}{bad}")).await.refused(400, "invalid_value");
    }
    let many = vec!["line"; 101].join(",");
    harness.get(&harness.ann, &format!("{path}columns={many}")).await.refused(400, "invalid_value");
}

#[tokio::test]
async fn a_job_that_runs_is_exported_as_far_as_it_is() {
    let harness = Harness::new().await;
    let id = harness.plain_job(&harness.ann, 3).await;
    let csv =
        harness.get(&harness.ann, &format!("/api/jobs/{id}/export?format=csv&columns=line")).await;
    assert_eq!(csv.text(), "line\n");
    harness.finish(&harness.ann, &id).await;
    let csv =
        harness.get(&harness.ann, &format!("/api/jobs/{id}/export?format=csv&columns=line")).await;
    assert_eq!(csv.text(), "line\n1\n2\n3\n");
}
