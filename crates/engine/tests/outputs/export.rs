//! Exports: finished lines as a table.

use bytes::Bytes;
use calamine::{Data, Reader as _, Xlsx};
use windrow_domain::BatchId;
use windrow_domain::attempt::Status;
use windrow_engine::export::{Column, Export, Format, status};
use windrow_store::record::Finished;
use windrow_store::{Kind, Scope};

use crate::support::World;

fn columns(words: &str) -> Vec<Column> {
    words.split(' ').map(|word| word.parse().unwrap()).collect()
}

async fn text(world: &World, export: &Export, batch: BatchId) -> (u64, String) {
    let mut out = Vec::new();
    let rows = export.write(&*world.store, &Scope::All, batch, &mut out).await.unwrap();
    (rows, String::from_utf8(out).unwrap())
}

/// Lines 1 and 2 have answers, 3 is no JSON, others failed.
fn result(line: Finished) -> Finished {
    let body = match line.line {
        1 => "{\"a\":[{\"b\":\"x, \\\"y\\\"\\n\"}]}",
        2 => "{\"a\":[{\"b\":{\"c\":1}}]}\n",
        3 => "plain",
        _ => {
            let (status, http_status) = (Status::Failed, None);
            let (error_code, error) = (Some("timeout".to_owned()), Some("No answer.".to_owned()));
            return Finished { status, http_status, error_code, error, ..line };
        }
    };
    Finished { response: Some(Bytes::from(body)), ..line }
}

async fn world() -> (World, BatchId) {
    let world = World::new().await;
    let batch = world.batch(5, None).await;
    world.finish(u32::MAX, result).await;
    (world, batch)
}

#[tokio::test]
async fn a_csv_has_a_header_and_quotes_what_needs_it() {
    let (world, batch) = world().await;
    let export = Export {
        format: Format::Csv,
        columns: columns("line custom_id target status http_status error_code response:/a/0/b"),
        ..Export::default()
    };
    let (rows, text) = text(&world, &export, batch).await;
    let expected = "line,custom_id,target,status,http_status,error_code,response:/a/0/b\n\
        1,c-0,small,completed,200,,\"x, \"\"y\"\"\n\"\n\
        2,c-1,large,completed,200,,\"{\"\"c\"\":1}\"\n\
        3,c-2,tiny,completed,200,,\n\
        4,c-3,small,failed,,timeout,\n\
        5,c-4,large,failed,,timeout,\n";
    assert_eq!((rows, &*text), (5, expected));
}

#[tokio::test]
async fn jsonl_has_an_object_for_each_line_with_the_columns_in_order() {
    let (world, batch) = world().await;
    let columns = columns("attempts line response response:/a/0/b error");
    let export = Export { columns, ..Export::default() };
    let (rows, text) = text(&world, &export, batch).await;
    let lines: Vec<_> = text.lines().collect();
    assert_eq!((rows, lines.len()), (5, 5));
    assert_eq!(
        lines[1],
        "{\"attempts\":1,\"line\":2,\"response\":{\"a\":[{\"b\":{\"c\":1}}]},\
         \"response:/a/0/b\":{\"c\":1},\"error\":null}"
    );
    assert!(lines[2].contains("\"response\":\"plain\",\"response:/a/0/b\":null"));
    assert!(lines[4].contains("\"response\":null") && lines[4].ends_with("\"No answer.\"}"));
}

#[tokio::test]
async fn only_the_wanted_outcomes_are_exported_over_many_pages() {
    let world = World::new().await;
    let batch = world.batch(2600, None).await;
    world.finish(u32::MAX, result).await;
    let statuses = vec![status("failed").unwrap()];
    let export = Export { statuses, columns: columns("line"), ..Export::default() };
    let (rows, text) = text(&world, &export, batch).await;
    assert_eq!((rows, text.lines().count()), (2597, 2597));
}

/// Answers that a spreadsheet would take for formulas, and numbers that it may take for numbers.
fn tricky(line: Finished) -> Finished {
    let body = match line.line {
        1 => r#"{"v":"=1+1"}"#,
        2 => r#"{"v":"+49 30"}"#,
        3 => r#"{"v":-7}"#,
        4 => r#"{"v":"@SUM(A1)"}"#,
        5 => r#"{"v":"\t=1"}"#,
        6 => r#"{"v":9007199254740993}"#,
        7 => "=cmd()",
        9 => "-12.5",
        _ => r#"{"v":"-7"}"#,
    };
    Finished { response: Some(Bytes::from(body)), ..line }
}

#[tokio::test]
async fn formulas_are_escaped_where_that_is_asked_for_and_numbers_never() {
    let world = World::new().await;
    let batch = world.batch(9, None).await;
    world.finish(u32::MAX, tricky).await;
    let export = Export {
        format: Format::Csv,
        columns: columns("line response:/v response"),
        defuse: true,
        ..Export::default()
    };
    let (_, csv) = text(&world, &export, batch).await;
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
    let column = |no: usize| rows.iter().map(|row| row[no].to_owned()).collect::<Vec<_>>();
    let parts = ["'=1+1", "'+49 30", "-7", "'@SUM(A1)", "'\t=1", "9007199254740993", "", "", "'-7"];
    assert_eq!(column(1), parts);
    assert_eq!((&rows[6][2], &rows[7][2], &rows[8][2]), ("'=cmd()", "-12.5", r#"{"v":"-7"}"#));
    let plain = Export { defuse: false, ..export };
    let (_, csv) = text(&world, &plain, batch).await;
    assert!(csv.contains("1,=1+1,") && csv.contains("10,-7,"), "{csv}");
}

#[tokio::test]
async fn a_workbook_has_the_same_rows_with_numbers_as_numbers() {
    let world = World::new().await;
    let batch = world.batch(9, None).await;
    world.finish(u32::MAX, tricky).await;
    let export = Export {
        format: Format::Xlsx,
        columns: columns("line status response:/v response error"),
        defuse: true,
        ..Export::default()
    };
    let mut out = Vec::new();
    let rows = export.write(&*world.store, &Scope::All, batch, &mut out).await.unwrap();
    let mut book = Xlsx::new(std::io::Cursor::new(out)).unwrap();
    let sheets = book.worksheets();
    assert_eq!((rows, sheets.len()), (9, 1));
    let sheet = &sheets[0].1;
    let text = |text: &str| Data::String(text.to_owned());
    let header = ["line", "status", "response:/v", "response", "error"].map(text);
    let read: Vec<Vec<Data>> = sheet.rows().map(<[Data]>::to_vec).collect();
    assert_eq!(read[0], header);
    assert_eq!((&read[3][0], &read[3][2]), (&Data::Float(3.0), &Data::Float(-7.0)));
    assert_eq!(read[1][1..3], [text("completed"), text("'=1+1")]);
    assert_eq!((&read[6][2], &read[9][2]), (&text("9007199254740993"), &text("'-7")));
    assert_eq!((&read[7][3], &read[8][3]), (&text("'=cmd()"), &Data::Float(-12.5)));
    assert_eq!((read.len(), &read[1][4]), (10, &Data::Empty));
    assert!(book.worksheet_formula("Sheet1").unwrap().is_empty());
}

#[tokio::test]
async fn a_batch_that_is_not_there_is_missing() {
    let world = World::new().await;
    let export = Export::default();
    let missing = export.write(&*world.store, &Scope::All, BatchId::new(), &mut Vec::new()).await;
    let windrow_engine::export::Error::Store(error) = missing.unwrap_err() else {
        panic!("the store had to say so");
    };
    assert_eq!(error.kind, Kind::Missing);
}

#[test]
fn unknown_words_are_told_the_known_ones() {
    let text = status("done").unwrap_err().to_string();
    assert_eq!(text, "unknown status \"done\"; known are completed, failed, not_found, skipped");
    let text = "ods".parse::<Format>().unwrap_err().to_string();
    assert_eq!(text, "unknown format \"ods\"; known are jsonl, csv, xlsx");
}
