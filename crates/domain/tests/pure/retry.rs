//! The retry policy stays within its bounds, whatever it is given.

use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use windrow_domain::attempt::{Class, Failure, Status};
use windrow_domain::retry::{Decision, GiveUpPolicy, Policy};

fn failure(class: Class, retry_after: Option<Duration>) -> Failure {
    let mut failure = Failure::new(class, "http_503", "Busy.");
    failure.retry_after = retry_after;
    failure
}

fn class() -> impl Strategy<Value = Class> {
    prop::sample::select(Class::ALL.to_vec())
}

fn policy() -> impl Strategy<Value = Policy> {
    (0_u32..8, 0_u32..8, 0_u64..10_000, 0_u64..1_000_000).prop_map(
        |(attempts_max, attempts_not_found_max, backoff_ms_min, backoff_ms_max)| Policy {
            attempts_max,
            attempts_not_found_max,
            backoff_ms_min,
            backoff_ms_max,
        },
    )
}

/// Any numbers at all.
fn wild() -> impl Strategy<Value = Policy> {
    any::<(u32, u32, u64, u64)>().prop_map(|(a, b, c, d)| Policy {
        attempts_max: a,
        attempts_not_found_max: b,
        backoff_ms_min: c,
        backoff_ms_max: d,
    })
}

fn roll() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => 0.0..1.0,
        1 => any::<f64>(),
        1 => prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1.0]),
    ]
}

proptest! {
    #[test]
    fn a_line_is_tried_at_most_as_often_as_its_class_allows(policy in policy(), class in class()) {
        let mut attempts = 0;
        let ending = loop {
            attempts += 1;
            match policy.decide(attempts, &failure(class, None), Timestamp::UNIX_EPOCH, 0.5) {
                Decision::Again { .. } => prop_assert!(attempts < 100),
                Decision::GiveUp(status) => break status,
            }
        };
        prop_assert_eq!(attempts, policy.attempts_max(class).max(1));
        prop_assert!(attempts <= policy.attempts_max.max(1));
        prop_assert!(class != Class::Permanent || attempts == 1);
        let expected = if class == Class::NotFound { Status::NotFound } else { Status::Failed };
        prop_assert_eq!(ending, expected);
    }

    #[test]
    fn the_jitter_is_full_and_the_backoff_doubles(policy in policy(), attempt in 1_u32..40, roll in 0.0..1.0) {
        let most = u128::from(policy.backoff_ms_min) << (attempt - 1).min(40);
        let most = most.min(u128::from(policy.backoff_ms_max));
        let delay = policy.delay(attempt, None, roll);
        prop_assert!(delay.as_millis() <= most);
        prop_assert_eq!(policy.delay(attempt, None, 0.0), Duration::ZERO);
        prop_assert_eq!(policy.delay(attempt, None, 1.0).as_millis(), most);
        // Full jitter: the roll is spread over everything from nothing to the most.
        let expected = Duration::from_millis(u64::try_from(most).unwrap()).mul_f64(roll);
        prop_assert_eq!(delay, expected);
    }

    #[test]
    fn what_the_target_asked_for_is_not_undercut(
        policy in policy(), attempt in 1_u32..40, roll in 0.0..1.0, asked_ms in 0_u64..2_000_000,
    ) {
        let bound = Duration::from_millis(policy.backoff_ms_max);
        let asked = Duration::from_millis(asked_ms);
        let delay = policy.delay(attempt, Some(asked), roll);
        prop_assert!(delay >= asked.min(bound));
        prop_assert!(delay <= bound);
    }

    #[test]
    fn no_number_makes_it_panic(
        policy in wild(), class in class(), attempt: u32, roll in roll(),
        asked in prop::option::of(any::<Duration>()), micros: i64,
    ) {
        let now = Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX);
        let delay = policy.delay(attempt, asked, roll);
        prop_assert!(delay <= Duration::from_millis(policy.backoff_ms_max));
        match policy.decide(attempt, &failure(class, asked), now, roll) {
            Decision::Again { not_before } => {
                prop_assert!(not_before >= now);
                prop_assert!(attempt < policy.attempts_max(class));
                prop_assert!(class != Class::Permanent || attempt == 0);
            }
            Decision::GiveUp(_) => prop_assert!(attempt >= policy.attempts_max(class)),
        }
    }
}

proptest! {
    #[test]
    fn who_waits_for_a_target_that_is_away_stays_within_all_bounds(
        policy in wild(), give_up_secs: u64, backoff_ms_max: u64, away in any::<Duration>(),
        asked in prop::option::of(any::<Duration>()), roll in roll(),
    ) {
        let patience = GiveUpPolicy { give_up_secs, backoff_ms_max };
        let longest = Duration::from_millis(policy.backoff_ms_max);
        let delay = patience.delay(&policy, away, asked, roll);
        prop_assert!(delay <= longest);
        prop_assert!(delay >= asked.unwrap_or_default().min(longest));
        prop_assert!(asked.is_some() || delay <= Duration::from_millis(backoff_ms_max));
        prop_assert!(!patience.is_over(away, Duration::ZERO) || give_up_secs < 24);
    }
}

#[test]
fn the_longer_a_target_is_away_the_longer_the_waits_up_to_a_bound() {
    let (policy, patience) = (Policy::default(), GiveUpPolicy::default());
    let wait = |secs, roll| patience.delay(&policy, Duration::from_secs(secs), None, roll);
    let longest: Vec<u128> = [0, 1, 4, 10, 60, 3600].map(|secs| wait(secs, 1.0).as_millis()).into();
    assert_eq!(longest, [500, 1_000, 4_000, 10_000, 15_000, 15_000]);
    assert_eq!(wait(60, 0.0).as_millis(), 7_500, "the jitter is the upper half");
    let asked = patience.delay(&policy, Duration::ZERO, Some(Duration::from_secs(120)), 0.5);
    assert!(asked >= Duration::from_secs(120), "{asked:?}");
}

#[test]
fn a_message_is_given_up_on_when_it_is_old_and_its_target_is_away_for_a_while() {
    let patience = GiveUpPolicy::default();
    let hours = |hours: u64| Duration::from_secs(hours * 3600);
    assert!(!patience.is_over(hours(23), hours(23)));
    assert!(patience.is_over(hours(24), hours(24)));
    assert!(!patience.is_over(hours(999), hours(0)), "it was late, and this is the first trouble");
    assert!(patience.is_over(hours(999), hours(1)));
}

#[test]
fn a_roll_that_is_no_number_waits_not_at_all_and_does_not_panic() {
    assert_eq!(Policy::default().delay(3, None, f64::NAN), Duration::ZERO);
}

#[test]
fn the_default_policy_waits_longer_each_time() {
    let policy = Policy::default();
    let longest: Vec<u128> = (1..12).map(|n| policy.delay(n, None, 1.0).as_millis()).collect();
    let expected = [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 128_000, 256_000, 300_000];
    assert_eq!(longest, expected);
    assert_eq!(
        serde_json::from_str::<Policy>(&serde_json::to_string(&policy).unwrap()).unwrap(),
        policy
    );
}
