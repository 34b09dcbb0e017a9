//! The running server, end to end.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod bodies;
mod brokers;
mod bucket;
mod clients;
mod contract;
mod forms;
mod lost_upload;
mod messages;
mod mixed_paths;
mod outputs;
mod paths;
mod slow_bodies;
mod start;
mod status_cache;
mod tls;
mod traces;

use windrow_e2e::Server;
use windrow_e2e::raw::{Request, form};

/// A line that can be run.
const LINE: &[u8] =
    br#"{"custom_id":"r-1","method":"POST","url":"/v1/chat/completions","body":{"model":"m"}}"#;

/// The form of a good upload.
fn good_form() -> Vec<u8> {
    form(&[("purpose", None, b"batch"), ("file", Some("in.jsonl"), LINE)])
}

/// The names of the files that the key's owner sees.
async fn files(server: &Server, key: &str) -> Vec<String> {
    let response = Request::new("GET", "/v1/files", key).send(server.address()).await;
    assert_eq!(response.status, 200, "{response:?}");
    let list = response.json();
    let name = |file: &serde_json::Value| file["filename"].as_str().unwrap().to_owned();
    list["data"].as_array().unwrap().iter().map(name).collect()
}
