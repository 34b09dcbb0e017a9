//! Counts, and when a lane is done.

use proptest::prelude::*;
use windrow_domain::{Counts, Phase};

fn counts() -> impl Strategy<Value = Counts> {
    prop::array::uniform7(0_u64..5).prop_map(
        |[untouched, returned, leased, completed, failed, not_found, skipped]| Counts {
            total: untouched + returned + leased + completed + failed + not_found + skipped,
            untouched,
            returned,
            leased,
            completed,
            failed,
            not_found,
            skipped,
        },
    )
}

proptest! {
    #[test]
    fn sums_of_counts_that_add_up_add_up(lanes in prop::collection::vec(counts(), 0..5)) {
        let mut sum = Counts::default();
        for lane in &lanes {
            prop_assert!(lane.adds_up());
            sum += *lane;
        }
        prop_assert!(sum.adds_up());
        prop_assert_eq!(sum, lanes.iter().copied().sum());
        prop_assert_eq!(sum.finished() + sum.unfinished(), sum.total);
    }

    #[test]
    fn one_line_lost_or_doubled_does_not_add_up(lane in counts(), place in 0..8_usize) {
        let mut doubled = lane;
        let slots = [
            &mut doubled.total,
            &mut doubled.untouched,
            &mut doubled.returned,
            &mut doubled.leased,
            &mut doubled.completed,
            &mut doubled.failed,
            &mut doubled.not_found,
            &mut doubled.skipped,
        ];
        *slots.into_iter().nth(place).unwrap() += 1;
        prop_assert!(!doubled.adds_up());
    }

    #[test]
    fn a_lane_is_done_when_no_line_will_move(lane in counts()) {
        prop_assert_eq!(lane.is_done(Phase::Open), lane.unfinished() == 0);
        prop_assert_eq!(lane.is_done(Phase::Paused), lane.unfinished() == 0);
        prop_assert_eq!(lane.is_done(Phase::Stopping), lane.leased == 0);
        prop_assert!(lane.is_done(Phase::Done));
    }
}

#[test]
fn an_untouched_lane_has_all_its_lines_beyond_the_cursor() {
    let lane = Counts::untouched(7);
    assert!(lane.adds_up() && !lane.is_done(Phase::Open));
    assert_eq!((lane.total, lane.untouched, lane.finished()), (7, 7, 0));
}

#[test]
fn phase_words_read_back() {
    for phase in Phase::ALL {
        assert_eq!(phase.as_str().parse(), Ok(phase));
        assert_eq!(serde_json::to_string(&phase).unwrap(), format!("{:?}", phase.as_str()));
    }
    assert!("closed".parse::<Phase>().is_err());
}
