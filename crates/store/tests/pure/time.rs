//! The clock that tests move.

use std::time::Duration;

use jiff::Timestamp;
use windrow_store::Time;

#[test]
fn a_given_clock_stands_still_until_it_is_moved() {
    let time = Time::given(Timestamp::UNIX_EPOCH);
    let same = time.clone();
    assert_eq!(time.now(), Some(Timestamp::UNIX_EPOCH));
    time.advance(Duration::from_millis(1500));
    assert_eq!(same.now(), Some(Timestamp::from_millisecond(1500).unwrap()));
    assert_eq!(Time::default().now(), None, "the database's own clock decides");
}

#[test]
#[should_panic(expected = "cannot be advanced")]
fn nobody_moves_the_databases_clock() {
    Time::Database.advance(Duration::from_secs(1));
}
