//! What a test needs besides Rust: a program, a server, an interpreter with its packages.
//!
//! Holds throughout: under the test command (`cargo xtask test`, which installs what is missing and
//! sets [`REQUIRE`]) a test whose needs are not met fails; it never passes by absence. A plain
//! `cargo test` skips it and prints why.

use std::env;

/// Set to `all`, a test that misses something fails. Empty or `none`, it is skipped.
pub const REQUIRE: &str = "WINDROW_TEST_REQUIRE";
/// Every need has to be met.
pub const ALL: &str = "all";

/// Passes on what was found. Nothing found means that the test is to be skipped, which is printed.
///
/// # Panics
/// When nothing was found and [`REQUIRE`] says that it has to be there.
pub fn required<T>(what: &str, found: Option<T>) -> Option<T> {
    if found.is_none() {
        let wanted = env::var(REQUIRE).unwrap_or_default();
        assert!(!is_required(&wanted), "missing: {what}, and {REQUIRE} is `{wanted}`");
        println!("skipped: {what} is missing; `cargo xtask test` installs what tests need");
    }
    found
}

fn is_required(wanted: &str) -> bool {
    !matches!(wanted, "" | "none")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nothing_and_none_let_a_test_be_skipped() {
        assert!(!is_required("") && !is_required("none"));
        // A value that is misspelt is no permission.
        assert!(is_required(ALL) && is_required("al"));
    }

    #[test]
    fn what_is_there_is_passed_on() {
        assert_eq!(required("a number", Some(7)), Some(7));
    }
}
