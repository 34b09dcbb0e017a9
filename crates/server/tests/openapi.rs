//! The description of the API is kept as a file, so that a change of the contract is seen.

use std::path::Path;
use std::{env, fs};

/// Set to write the file instead of comparing it.
const UPDATE: &str = "WINDROW_UPDATE_SNAPSHOTS";

#[test]
fn the_description_is_as_it_is_kept() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let made = windrow_server::openapi();
    if env::var_os(UPDATE).is_some() {
        fs::write(&path, &made).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let differs = made.lines().zip(kept.lines()).position(|(made, kept)| made != kept);
    assert!(
        made == kept,
        "docs/openapi.json differs from line {:?} on; {UPDATE}=1 writes it anew",
        differs.map(|line| line + 1),
    );
}
