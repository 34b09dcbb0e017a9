//! Links: what a call made, and the calls that take its id.

use serde_json::json;
use utoipa::openapi::link::{Link, LinkBuilder};
use utoipa::openapi::path::Operation;
use utoipa::openapi::{OpenApi, RefOr};

/// A call, the status of its response, where the id is in it, and the calls that take the id.
const MADE: [(&str, &str, &str, &[&str]); 4] = [
    ("uploadFile", "200", "/id", &["retrieveFile", "readFile", "deleteFile"]),
    ("createBatch", "200", "/id", &["retrieveBatch", "cancelBatch"]),
    ("createKey", "201", "/key/id", &["revokeKey"]),
    (
        "createJob",
        "201",
        "/jobId",
        &[
            "retrieveJob",
            "pauseJob",
            "resumeJob",
            "cancelJob",
            "deleteJob",
            "kickoffJob",
            "reprocessJob",
            "exportJob",
            "exportJobByPost",
            "followJob",
            "listItems",
        ],
    ),
];

/// Adds all links to the description.
pub(super) fn add(api: &mut OpenApi) {
    for item in api.paths.paths.values_mut() {
        for operation in [&mut item.get, &mut item.post, &mut item.delete].into_iter().flatten() {
            add_to(operation);
        }
    }
}

fn add_to(operation: &mut Operation) {
    let id = operation.operation_id.clone().unwrap_or_default();
    let made = MADE.iter().filter(|(from, ..)| *from == id);
    for (_, status, pointer, calls) in made {
        let Some(RefOr::T(answer)) = operation.responses.responses.get_mut(*status) else {
            continue;
        };
        let links = calls.iter().map(|call| ((*call).to_owned(), RefOr::T(by_id(call, pointer))));
        answer.links.extend(links);
        if id == "uploadFile" {
            answer.links.insert("createBatch".to_owned(), RefOr::T(batch()));
        }
    }
}

fn by_id(call: &str, pointer: &str) -> Link {
    let id = format!("$response.body#{pointer}");
    LinkBuilder::new().operation_id(call).parameter("id", id).build()
}

fn batch() -> Link {
    let body = json!({
        "input_file_id": "$response.body#/id",
        "endpoint": "/v1/chat/completions",
        "completion_window": "24h",
    });
    LinkBuilder::new().operation_id("createBatch").request_body(Some(body)).build()
}
