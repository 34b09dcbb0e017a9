//! Planning outcomes: each named line lands in exactly one place.

use jiff::{SignedDuration, Timestamp};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use windrow_domain::attempt::{Class, Status};
use windrow_domain::lines::TEXT_BYTES_MAX;
use windrow_domain::{LeaseId, LeaseProof, LineSet};
use windrow_store::Kind;
use windrow_store::record::{Again, BUCKET_MS, Finished, Outcomes, bucket, plan};

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(1_700_000_000_000 + ms).unwrap()
}

fn again(seq: u64, ms: i64) -> Again {
    let (error_code, error) = ("http_503".to_owned(), "Busy.".to_owned());
    Again { seq, line: seq + 1, not_before: at(ms), class: Class::Server, error_code, error }
}

fn finished(seq: u64, status: Status) -> Finished {
    Finished::bare(seq, seq + 1, status, 1)
}

fn no_outcomes(outstanding: &LineSet) -> Outcomes {
    let (id, outstanding) = (LeaseId::new(), outstanding.clone());
    Outcomes::of(LeaseProof { id, token: 1, version: 0, outstanding })
}

/// What somebody says became of a line.
#[derive(Clone, Copy, Debug)]
enum Said {
    Finished(Status),
    Again(i64),
    Released,
}

fn said() -> impl Strategy<Value = Said> {
    prop_oneof![
        prop::sample::select(Status::ALL.to_vec()).prop_map(Said::Finished),
        (0_i64..2000).prop_map(Said::Again),
        Just(Said::Released),
    ]
}

fn outcomes(outstanding: &LineSet, said: impl IntoIterator<Item = (u64, Said)>) -> Outcomes {
    let mut outcomes = no_outcomes(outstanding);
    for (seq, said) in said {
        match said {
            Said::Finished(status) => outcomes.finished.push(finished(seq, status)),
            Said::Again(ms) => outcomes.again.push(again(seq, ms)),
            Said::Released => assert!(outcomes.released.insert(seq)),
        }
    }
    outcomes
}

proptest! {
    #[test]
    fn every_line_lands_in_exactly_one_place(
        outstanding in vec(0_u64..100, 0..80),
        said in btree_map(0_u64..120, said(), 0..80),
    ) {
        let outstanding: LineSet = outstanding.into_iter().collect();
        let outcomes = outcomes(&outstanding, said.clone());
        let plan = plan(&outcomes, &outstanding).unwrap();

        let results: LineSet = plan.finished.iter().map(|line| line.seq).collect();
        let tried: LineSet = plan.again.iter().map(|line| line.seq).collect();
        let backs = plan.backs.iter().fold(LineSet::new(), |all, back| all.union(&back.lines));
        prop_assert_eq!(results.len() + backs.len() + plan.remaining.len(), outstanding.len());
        prop_assert_eq!(&results.union(&backs).union(&plan.remaining), &outstanding);

        let named: LineSet = said.keys().copied().collect();
        prop_assert_eq!(&plan.ignored, &named.difference(&outstanding));
        prop_assert_eq!(&plan.remaining, &outstanding.difference(&named));
        prop_assert_eq!(plan.returned(), backs.len());
        prop_assert_eq!(plan.is_empty(), results.is_empty() && backs.is_empty());
        prop_assert_eq!(plan.statuses.iter().sum::<u64>(), results.len());
        for line in &plan.finished {
            let same = plan.finished.iter().filter(|other| other.status == line.status).count();
            prop_assert_eq!(plan.statuses[usize::try_from(line.status.code()).unwrap()], same as u64);
        }
        for back in &plan.backs {
            prop_assert_eq!(back.tried, !back.lines.is_disjoint(&tried));
            prop_assert_eq!(back.tried, back.not_before.is_some());
            prop_assert!(!back.lines.is_empty());
            for line in plan.again.iter().filter(|line| back.lines.contains(line.seq)) {
                prop_assert_eq!(back.not_before, Some(bucket(line.not_before)));
            }
        }
    }

    /// Recording the same outcomes again, against what is left, changes nothing.
    #[test]
    fn a_repeat_changes_nothing(said in btree_map(0_u64..120, said(), 0..80)) {
        let outstanding = LineSet::span(0, 100);
        let outcomes = outcomes(&outstanding, said);
        let left = plan(&outcomes, &outstanding).unwrap().remaining;
        let repeat = plan(&outcomes, &left).unwrap();
        prop_assert!(repeat.is_empty() && repeat.again.is_empty());
        prop_assert_eq!(repeat.remaining, left);
    }

    #[test]
    fn a_line_with_two_outcomes_is_refused(seq in 0_u64..50, first in said(), second in said()) {
        let outstanding = LineSet::span(0, 40);
        let mut twice = outcomes(&outstanding, [(seq, first)]);
        match second {
            Said::Finished(status) => twice.finished.push(finished(seq, status)),
            Said::Again(ms) => twice.again.push(again(seq, ms)),
            // A set cannot hold a line twice, so a second release is no second outcome.
            Said::Released if !twice.released.insert(seq) => return Ok(()),
            Said::Released => {}
        }
        let error = plan(&twice, &outstanding).unwrap_err();
        prop_assert_eq!(error.kind, Kind::Invalid);
        prop_assert!(error.subject.contains(&twice.held.id.to_string()));
    }

    #[test]
    fn a_bucket_is_never_early_and_little_late(
        seconds in -377_705_023_201_i64..=253_402_207_200, nanos in 0_i32..1_000_000_000,
    ) {
        let Ok(asked) = Timestamp::new(seconds, nanos) else { return Ok(()) };
        let given = bucket(asked);
        prop_assert!(given >= asked);
        prop_assert!(given.duration_since(asked) < SignedDuration::from_millis(BUCKET_MS));
        prop_assert_eq!(bucket(given), given);
    }
}

#[test]
fn the_ends_of_time_have_buckets_too() {
    assert_eq!(bucket(Timestamp::MAX), Timestamp::MAX);
    assert!(bucket(Timestamp::MIN) >= Timestamp::MIN);
    assert_eq!(bucket(at(0)), at(0));
    assert_eq!(bucket(at(1)), at(250));
    assert_eq!(bucket(at(250)), at(250));
    assert_eq!(bucket(at(250).checked_add(SignedDuration::from_nanos(1)).unwrap()), at(500));
}

/// A retry storm of a whole tranche makes few rows, and none of them is too long to store.
#[test]
fn a_retry_storm_makes_few_rows() {
    let outstanding = LineSet::span(0, 1000);
    let mut storm = no_outcomes(&outstanding);
    storm.again = (0..1000).map(|seq| again(seq, i64::try_from(seq).unwrap())).collect();
    let backs = plan(&storm, &outstanding).unwrap().backs;
    assert!(backs.len() <= 5, "{} rows", backs.len());

    let wide: LineSet = (0..1000).map(|n| 1_000_000_000_000 + n * 2).collect();
    let mut released = no_outcomes(&wide);
    released.released = wide.clone();
    let backs = plan(&released, &wide).unwrap().backs;
    assert!(backs.len() > 1 && backs.iter().all(|b| b.lines.to_string().len() <= TEXT_BYTES_MAX));
}
