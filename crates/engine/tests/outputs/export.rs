//! Exports: finished lines as a table.

use bytes::Bytes;
use windrow_domain::BatchId;
use windrow_domain::attempt::Status;
use windrow_engine::export::{Column, Export, Format, status};
use windrow_store::record::Finished;
use windrow_store::{Kind, Scope};

use crate::kit::World;

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
        statuses: Vec::new(),
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
    let text = "xlsx".parse::<Format>().unwrap_err().to_string();
    assert_eq!(text, "unknown format \"xlsx\"; known are jsonl, csv");
}
