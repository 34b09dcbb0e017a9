//! Names that were retired, and the word to use instead.
//!
//! Holds throughout: only names of Rust files, folders, types and, for the synonyms of the glossary,
//! other identifiers are looked at. Words in SQL, migrations, comments, strings and the API are not.

use super::{Complaint, Workspace};

/// A name that is not used any more.
struct Retired {
    name: &'static str,
    instead: &'static str,
    /// Where it is retired; everywhere when empty.
    below: &'static str,
}

const fn everywhere(name: &'static str, instead: &'static str) -> Retired {
    Retired { name, instead, below: "" }
}

const fn below(below: &'static str, name: &'static str, instead: &'static str) -> Retired {
    Retired { name, instead, below }
}

/// Files, without their ending, and folders.
const FILES: &[Retired] = &[
    everywhere("abandon", "cancellation"),
    everywhere("act", "audit_log"),
    everywhere("actor", "event_loop"),
    everywhere("around", "layer"),
    everywhere("away", "availability"),
    everywhere("bed", "fixture"),
    everywhere("board", "queue"),
    everywhere("clash", "lock_order"),
    everywhere("contended", "stream_backoff"),
    everywhere("crowd", "limits"),
    everywhere("desk", "harness"),
    everywhere("drive", "batch_run"),
    everywhere("ear", "listener"),
    everywhere("ending", "exit_code"),
    everywhere("entry", "outcome"),
    everywhere("fit", "endpoint_check"),
    everywhere("fold", "lane_counts"),
    everywhere("ground", "fixture"),
    everywhere("held", "what is held: deferred_seal, queue"),
    everywhere("herd", "instances"),
    everywhere("intake", "upload or feeder"),
    everywhere("kit", "support"),
    everywhere("listening", "listener"),
    everywhere("look", "poll"),
    everywhere("looks", "version_cache"),
    everywhere("meet", "concurrency"),
    everywhere("nearest", "suggest"),
    everywhere("ops", "health"),
    everywhere("own", "transactional"),
    everywhere("patience", "what is waited for: body_timeout, store_retry"),
    everywhere("pick", "batch_selector"),
    everywhere("places", "admission"),
    everywhere("plane", "message"),
    everywhere("reach", "probe"),
    everywhere("reading", "read_planner"),
    everywhere("station", "target"),
    everywhere("steer", "control"),
    everywhere("storm", "stress"),
    everywhere("tail", "path_segments"),
    everywhere("upkeep", "maintenance"),
    below("crates/", "tidy", "prune or retention"),
    below("crates/cli/", "failure", "error"),
    below("crates/cli/", "place", "output_target"),
    below("crates/server/", "words", "params"),
];

/// Structs, enums, traits and aliases.
const TYPES: &[Retired] = &[
    everywhere("Act", "AuditEntry"),
    everywhere("Actor", "EventLoop"),
    everywhere("Around", "WorkerDeps or StoreLayer"),
    everywhere("Arrived", "IncomingMessage"),
    everywhere("Away", "Availability"),
    everywhere("Board", "StreamQueues"),
    everywhere("Broken", "ScriptError"),
    everywhere("Desk", "what it serves: ScriptServer, Harness"),
    everywhere("Door", "Connector"),
    everywhere("Doze", "IdleState"),
    everywhere("Drive", "BatchRun"),
    everywhere("Driven", "BatchRun"),
    everywhere("Ear", "what is listened for: AnswerListener, WakeListener"),
    everywhere("FailedTry", "FailedAttempt"),
    everywhere("Held", "what is held: LeaseProof, StreamQueue, DeferredSeal"),
    everywhere("Herd", "Instances"),
    everywhere("Inlet", "Inbox"),
    everywhere("Inside", "what it is inside of: TransactionClient"),
    everywhere("Intake", "Subscription or InboxFeeder"),
    everywhere("Judge", "OutcomePolicy"),
    everywhere("Life", "TargetHealth"),
    everywhere("Link", "SharedConnection"),
    everywhere("Look", "what is polled or allowed: Access"),
    everywhere("Looks", "VersionCache"),
    everywhere("Misfit", "EndpointMismatch"),
    everywhere("Own", "Transactional"),
    everywhere("Parcel", "OutgoingMessage"),
    everywhere("PastTry", "PastFailure"),
    everywhere("Patience", "what is waited for: GiveUpPolicy, StoreRetry"),
    everywhere("Places", "what is counted: ConcurrencyLimits"),
    everywhere("Plane", "MessageStore"),
    everywhere("Runs", "LongCalls"),
    everywhere("Station", "TargetQueue"),
    everywhere("Surrounded", "LayeredStore"),
    everywhere("Tail", "PathSegments"),
    everywhere("Terms", "KeySpec"),
    everywhere("Told", "UserError"),
    everywhere("Tried", "Attempt"),
    everywhere("Unsealed", "DeferredSeal"),
    everywhere("Wire", "SqlSession or TimeoutStream"),
    below("crates/brokers/", "Fate", "Acceptance"),
];

/// Other words for what the glossary has one word for.
const SYNONYMS: &[Retired] = &[
    everywhere("give_back", "release or return_lines"),
    everywhere("tries", "attempts"),
    everywhere("tries_max", "attempts_max"),
    everywhere("upkeep", "maintenance or retention"),
];

/// The edge may speak of items, since its API does; everything behind it has lines.
const ITEM_AT_THE_EDGE: [&str; 2] = ["crates/server/", "crates/cli/"];

pub(super) fn check(workspace: &Workspace) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (path, facts) in &workspace.rust {
        let parts = path.trim_end_matches(".rs").split('/');
        for (part, retired) in parts.filter_map(|part| Some((part, find(FILES, path, part)?))) {
            complaints.push(complaint(path, 1, &format!("{part}.rs"), retired.instead));
        }
        for (name, line) in &facts.names {
            if let Some(retired) = find(TYPES, path, name) {
                complaints.push(complaint(path, *line, name, retired.instead));
            }
            if is_item(path, name) {
                complaints.push(complaint(path, *line, name, "Line"));
            }
        }
        for retired in SYNONYMS {
            if let Some(line) = facts.identifiers.get(retired.name) {
                complaints.push(complaint(path, *line, retired.name, retired.instead));
            }
        }
    }
    complaints
}

fn find(list: &'static [Retired], path: &str, name: &str) -> Option<&'static Retired> {
    list.iter().find(|retired| retired.name == name && path.starts_with(retired.below))
}

/// A type of items behind the edge. `Item` alone is what iterators and streams call theirs.
fn is_item(path: &str, name: &str) -> bool {
    let behind =
        path.starts_with("crates/") && !ITEM_AT_THE_EDGE.iter().any(|edge| path.starts_with(edge));
    behind && name != "Item" && (name.starts_with("Item") || name.ends_with("Item"))
}

fn complaint(path: &str, line: usize, name: &str, instead: &str) -> Complaint {
    Complaint::new(path, line, format!("`{name}` is a retired name: use {instead}"))
}

#[cfg(test)]
mod tests {
    use super::super::{fixture, lines};
    use super::*;

    #[test]
    fn retired_files_types_and_synonyms_are_found_and_words_elsewhere_are_not() {
        let workspace = fixture(&[
            ("crates/engine/src/ear.rs", "struct Ear;\nstruct Earnest;\n"),
            ("crates/engine/src/board/mod.rs", "/// The tries of an Ear.\nfn f(tries: u32) {}\n"),
            ("crates/engine/src/keyboard.rs", "const SQL: &str = \"tries, Ear\";\n"),
            ("crates/engine/src/item.rs", "struct ItemRow;\nimpl I for X { type Item = u8; }\n"),
            ("crates/server/src/item.rs", "struct ItemRow;\n"),
            ("crates/server/src/words.rs", ""),
            ("xtask/src/words.rs", ""),
            ("crates/cli/src/failure.rs", ""),
            ("crates/testkit/src/failure.rs", ""),
        ]);
        let mut found = lines(check(&workspace));
        found.sort();
        assert_eq!(
            found,
            [
                "crates/cli/src/failure.rs:1",
                "crates/engine/src/board/mod.rs:1",
                "crates/engine/src/board/mod.rs:2",
                "crates/engine/src/ear.rs:1",
                "crates/engine/src/ear.rs:1",
                "crates/engine/src/item.rs:1",
                "crates/server/src/words.rs:1",
            ]
        );
    }

    #[test]
    fn each_name_is_listed_once() {
        for list in [FILES, TYPES, SYNONYMS] {
            assert!(
                list.windows(2)
                    .all(|two| (two[0].below, two[0].name) < (two[1].below, two[1].name))
            );
        }
    }
}
