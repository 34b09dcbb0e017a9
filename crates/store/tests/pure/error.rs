//! Errors say what, on what, and whether to try again.

use std::error::Error as _;

use windrow_domain::batch::{Event, State, apply};
use windrow_store::{Error, Kind, Retry};

#[test]
fn every_kind_says_whether_to_try_again() {
    let table = [
        (Kind::Missing, "missing", Retry::Never),
        (Kind::Conflict, "conflict", Retry::Never),
        (Kind::Refused, "refused", Retry::Never),
        (Kind::Invalid, "invalid", Retry::Never),
        (Kind::Limited, "limited", Retry::Never),
        (Kind::LeaseLost, "lease_lost", Retry::Never),
        (Kind::Contended, "contended", Retry::AtOnce),
        (Kind::Busy, "busy", Retry::AtOnce),
        (Kind::Unavailable, "unavailable", Retry::Later),
        (Kind::Corrupt, "corrupt", Retry::Never),
    ];
    for (kind, word, retry) in table {
        assert_eq!((kind.as_str(), kind.retry()), (word, retry));
    }
}

#[test]
fn the_text_names_verb_and_subject_and_the_cause_is_the_source() {
    let refused = apply(State::Completed, Event::Paused).unwrap_err();
    let error = Error::refusal(refused).named("pause batch", "b-1");
    assert_eq!(error.to_string(), "could not pause batch b-1: refused");
    assert_eq!(error.refused(), Some(refused));
    assert_eq!(error.source().unwrap().to_string(), refused.to_string());
    assert_eq!(Error::new(Kind::Busy, "turn", "x").because("why").refused(), None);
}
