//! What every backend keeps or hands out: words in its rows, what members say of themselves, cursors.

use windrow_domain::{BatchId, Owner};
use windrow_store::Scope;
use windrow_store::call::headers;
use windrow_store::event::BATCH_KINDS;
use windrow_store::ingest::{FileState, LineError, errors_json};
use windrow_store::inspect::{Binding, Cursor};
use windrow_store::partition::Serving;
use windrow_store::recipe::recipe_hash;
use windrow_store::sweep::WORKER_LOST;

#[test]
fn files_kinds_headers_and_lost_workers_are_stored_as_these_words() {
    let states = FileState::ALL.map(|state| state.as_str()).join(" ");
    assert_eq!(states, "open sealed invalid dropped");
    let kinds = "batch.created batch.paused batch.resumed batch.cancelling batch.expiring \
                 batch.reprocessed batch.completed batch.failed batch.cancelled batch.expired";
    assert_eq!(BATCH_KINDS.join(" "), kinds);
    let names = [headers::POLICY, headers::CALLER_OBJECT, headers::CALLER_CLIENT].join(" ");
    assert_eq!(names, "windrow-crash-policy windrow-caller-object windrow-caller-client");
    assert_eq!(WORKER_LOST, "worker_lost");
}

#[test]
fn what_is_wrong_with_a_file_is_stored_so() {
    let (code, message) = ("invalid_field".to_owned(), "It is wrong.".to_owned());
    let error = LineError { code, line: Some(2), message, param: Some("url".to_owned()) };
    let stored = r#"[{"code":"invalid_field","line":2,"message":"It is wrong.","param":"url"}]"#;
    assert_eq!(errors_json(vec![error]), stored);
}

/// Other builds read it to know who shares the partitions: one that is misread owns none of them.
#[test]
fn who_runs_messages_says_so_in_these_words() {
    let serving = Serving {
        object_types: vec!["cart".into()],
        lifecycle: true,
        own_max: 7,
        consumers: Vec::new(),
        publishers: Vec::new(),
    };
    let stored = r#"{"role":"messages","object_types":["cart"],"lifecycle":true,"own_max":7}"#;
    assert_eq!(serving.to_metadata(), stored);
}

/// A creation that is repeated after an upgrade finds its batch.
#[test]
fn recipes_are_compared_by_this_hash() {
    let hash = recipe_hash("[columns]\n");
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "3cee1ab0955ca35888ba1c8b74e64608d55cbbd2704f407a29b71d61d7c629ee");
}

/// A page that somebody has open goes on after an upgrade.
#[test]
fn the_cursor_of_a_page_is_sealed_so() {
    let owner = Scope::Owner(Owner::new("ada").unwrap());
    let binding = Binding::new("batches", &owner, &"filters");
    let key = (7_i64, "01890a5d-ac96-774b-bcce-b302099a8057".parse::<BatchId>().unwrap());
    assert_eq!(
        Cursor::seal(&binding, &key),
        "KZXRTJ4hEStbNywiMDE4OTBhNWQtYWM5Ni03NzRiLWJjY2UtYjMwMjA5OWE4MDU3Il0"
    );
}
