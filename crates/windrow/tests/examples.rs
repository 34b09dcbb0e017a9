//! The examples are run: each asserts what it says, and stays short enough to be read at once.

#[path = "../examples/embedded_server.rs"]
mod embedded_server;
#[path = "../examples/event_stream.rs"]
mod event_stream;
#[path = "../examples/inbox_consumer.rs"]
mod inbox_consumer;
#[path = "../examples/object.rs"]
mod object;
#[path = "../examples/outbox_webhook.rs"]
mod outbox_webhook;
#[path = "../examples/own_executor.rs"]
mod own_executor;
#[path = "../examples/run_a_file.rs"]
mod run_a_file;
#[path = "../examples/transactional_handler.rs"]
mod transactional_handler;

use std::fs;
use std::path::Path;

/// Most lines of an example.
const LINES_MAX: usize = 80;

#[test]
fn a_program_serves_the_http_api_itself() {
    embedded_server::main().unwrap();
}

#[test]
fn a_projection_sums_up_event_streams_and_goes_on_where_it_was() {
    event_stream::main().unwrap();
}

#[test]
fn a_consumer_handles_each_message_of_the_inbox_once_and_in_order() {
    inbox_consumer::main().unwrap();
}

#[test]
fn a_repeated_call_of_an_object_gets_the_same_answer() {
    object::main().unwrap();
}

#[test]
fn messages_of_the_outbox_reach_a_webhook_in_order() {
    outbox_webhook::main().unwrap();
}

#[test]
fn a_batch_runs_with_an_executor_of_the_programs_own() {
    own_executor::main().unwrap();
}

#[test]
fn a_file_of_requests_is_run_against_an_http_api() {
    run_a_file::main().unwrap();
}

#[test]
fn a_handlers_own_sql_is_committed_with_its_effects_or_not_at_all() {
    transactional_handler::main().unwrap();
}

#[test]
fn every_example_is_tested_says_how_to_run_it_and_is_short() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let tests = include_str!("examples.rs");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue; // `wallet`, which is a program of several files
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.lines().count() < LINES_MAX, "{name} has too many lines");
        let command = format!("--example {}`", name.trim_end_matches(".rs"));
        let head = text.lines().take_while(|line| line.starts_with("//!"));
        assert!(head.collect::<Vec<_>>().join(" ").contains(&command), "{name} is run how?");
        let test = format!("{}::main()", name.trim_end_matches(".rs"));
        assert!(tests.contains(&test), "{name} is not run by a test");
    }
}
