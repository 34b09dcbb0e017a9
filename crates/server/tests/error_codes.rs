//! The table of error codes is kept as a file, written from the one enum that has them.

use std::path::Path;
use std::{env, fs};

use windrow_server::error::Code;

/// Set to write the file instead of comparing it.
const UPDATE: &str = "WINDROW_UPDATE_SNAPSHOTS";

const HEAD: &str = "\
# Error codes of the HTTP API

Every response with a status of 400 or more has the body
`{\"error\": {\"message\", \"type\", \"param\", \"code\"}}`. Programs match on `code`; `message` is a sentence for people and
may change. A code always has the same status. Statuses 429 and 503 come with `Retry-After`, in seconds, where a retry
can help by itself.

This table is written from `crates/server/src/error/codes.rs`; `WINDROW_UPDATE_SNAPSHOTS=1 cargo test -p windrow-server
--test error_codes` writes it anew.

| code | status | when it happens | what to do |
|---|---|---|---|
";

#[test]
fn the_table_of_codes_is_as_it_is_kept() {
    let row = |code: &Code| {
        let (name, status) = (code.as_str(), code.status().as_u16());
        format!("| `{name}` | {status} | {} | {} |\n", code.cause(), code.remedy())
    };
    let made = HEAD.to_owned() + &Code::ALL.iter().map(row).collect::<String>();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors/codes.md");
    if env::var_os(UPDATE).is_some() {
        fs::write(&path, &made).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(made == kept, "docs/errors/codes.md differs; {UPDATE}=1 writes it anew");
}
