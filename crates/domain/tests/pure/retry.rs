//! The retry policy stays within its bounds, whatever it is given.

use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use windrow_domain::attempt::{Class, Failure, Status};
use windrow_domain::retry::{Decision, GiveUpPolicy, Overrides, Policy};

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
            attempts_not_found_max: Some(attempts_not_found_max),
            backoff_ms_min,
            backoff_ms_max,
            backoff_timeout_ms_min: backoff_ms_min / 2,
            backoff_unacceptable_ms_min: backoff_ms_min / 3,
            backoff_not_found_ms_min: backoff_ms_min * 2,
            backoff_throttled_ms_max: 5_000,
        },
    )
}

/// Any numbers at all.
fn wild() -> impl Strategy<Value = Policy> {
    any::<(u32, u32, u64, u64)>().prop_map(|(a, b, c, d)| Policy {
        attempts_max: a,
        attempts_not_found_max: Some(b),
        backoff_ms_min: c,
        backoff_ms_max: d,
        backoff_timeout_ms_min: d,
        backoff_unacceptable_ms_min: c,
        backoff_not_found_ms_min: c,
        backoff_throttled_ms_max: c,
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
    fn a_line_is_tried_at_most_as_often_as_its_class_allows(
        policy in policy(), class in class().prop_filter("counted", |class| class.is_counted()),
    ) {
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
    fn no_line_fails_because_its_target_throttles(policy in policy(), attempt: u32, roll in roll()) {
        let now = Timestamp::UNIX_EPOCH;
        let attempt = attempt.min(u32::MAX - 1);
        let decision = policy.decide(attempt, &failure(Class::Throttled, None), now, roll);
        let Decision::Again { not_before } = decision else {
            return Err(TestCaseError::fail("it was given up on"));
        };
        let wait = Duration::try_from(not_before.duration_since(now)).unwrap();
        prop_assert!(wait <= Duration::from_millis(policy.backoff_throttled_ms_max));
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
        policy in wild(), class in class(), attempt: u32, roll in roll(), failing in roll(),
        asked in prop::option::of(any::<Duration>()), micros: i64,
    ) {
        let now = Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX);
        let delay = policy.delay(attempt, asked, roll);
        prop_assert!(delay <= Duration::from_millis(policy.backoff_ms_max));
        match policy.decide_amid(attempt, &failure(class, asked), now, roll, failing) {
            Decision::Again { not_before } => {
                let wait = Duration::try_from(not_before.duration_since(now)).unwrap();
                prop_assert!(wait <= Duration::from_millis(policy.backoff_ms_max));
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

#[test]
fn a_target_may_have_bounds_of_its_own() {
    let engine = Policy::default();
    assert_eq!(engine.with(&Overrides::default()), engine);
    let own = Overrides {
        attempts_max: Some(2),
        backoff_ms_max: Some(9),
        backoff_not_found_ms_min: Some(7),
        ..Overrides::default()
    };
    let both = engine.with(&own);
    assert_eq!((both.attempts_max, both.backoff_ms_max), (2, 9));
    assert_eq!((both.backoff_not_found_ms_min, both.backoff_timeout_ms_min), (7, 1_000));
    assert_eq!(both.backoff_ms_min, engine.backoff_ms_min);
}

/// The wait after the first attempt of that class, amid a share of failures, with the most jitter.
fn first_wait(policy: &Policy, class: Class, failing: f64) -> u128 {
    let now = Timestamp::UNIX_EPOCH;
    match policy.decide_amid(1, &failure(class, None), now, 1.0, failing) {
        Decision::Again { not_before } => not_before.duration_since(now).as_millis().unsigned_abs(),
        Decision::GiveUp(status) => panic!("{status:?}"),
    }
}

#[test]
fn waits_differ_by_class() {
    let policy = Policy::default();
    let wait = |class| first_wait(&policy, class, 0.0);
    assert_eq!((wait(Class::Throttled), wait(Class::Server)), (500, 500));
    assert_eq!((wait(Class::Network), wait(Class::Timeout)), (1_000, 1_000));
    assert_eq!((wait(Class::Unacceptable), wait(Class::NotFound)), (1_000, 66_000));
    let now = Timestamp::UNIX_EPOCH;
    let missing = policy.decide_amid(1, &failure(Class::NotFound, None), now, 0.0, 0.0);
    let minute = now.checked_add(Duration::from_secs(60)).unwrap();
    assert_eq!(missing, Decision::Again { not_before: minute }, "a minute at least");
    // Messages wait the same for all.
    for class in [Class::Server, Class::Timeout, Class::NotFound] {
        let Decision::Again { not_before } = policy.decide(1, &failure(class, None), now, 1.0)
        else {
            panic!("it is given up on");
        };
        assert_eq!(not_before.duration_since(now).as_millis(), 500);
    }
}

#[test]
fn waits_grow_with_the_share_of_failures_up_to_their_bound() {
    let policy = Policy::default();
    let wait = |failing| first_wait(&policy, Class::Server, failing);
    assert_eq!([0.0, 0.1, 0.5, 1.0, 7.0, f64::NAN].map(wait), [500, 950, 2_750, 5_000, 5_000, 500]);
    assert_eq!(first_wait(&policy, Class::Throttled, 1.0), 500, "its pace spaces it");
    assert_eq!(first_wait(&policy, Class::NotFound, 1.0), 66_000);
    let short = Policy { backoff_ms_max: 700, ..policy };
    assert_eq!(first_wait(&short, Class::Timeout, 1.0), 700);
}
