//! A line that kills its worker ends alone; its neighbours never pay for it.

use std::collections::VecDeque;

use proptest::prelude::*;
use windrow_domain::lease::{Loss, TRANCHE_LINES_MAX, is_suspect, on_loss};

/// Lines that wait together: how many leases they were lost in, the most of them in one tranche.
struct Waiting {
    lines: Vec<u64>,
    crashes: u32,
    tranche_max: usize,
}

/// Runs lines in tranches; a tranche with a killer in it is lost. Gives the lines that failed, and
/// how many leases were lost until then.
fn run(lines: u64, killers: &[u64], tranche_max: usize, crashes_max: u32) -> (Vec<u64>, u32) {
    let all = Waiting { lines: (0..lines).collect(), crashes: 0, tranche_max };
    let (mut queue, mut failed, mut losses) = (VecDeque::from([all]), Vec::new(), 0);
    while let Some(mut waiting) = queue.pop_front() {
        while !waiting.lines.is_empty() {
            let size = waiting.lines.len().min(waiting.tranche_max);
            let tranche: Vec<u64> = waiting.lines.drain(..size).collect();
            if !tranche.iter().any(|line| killers.contains(line)) {
                continue;
            }
            losses += 1;
            assert!(losses < 100_000, "it never ends");
            let lines = tranche.len() as u64;
            let alone = is_suspect(lines, waiting.crashes, crashes_max);
            match on_loss(lines, waiting.crashes, alone, crashes_max) {
                Loss::Fail => failed.extend(tranche),
                Loss::Return { tranche_max, crashes } => {
                    let tranche_max = tranche_max as usize;
                    queue.push_back(Waiting { lines: tranche, crashes, tranche_max });
                }
            }
        }
    }
    failed.sort_unstable();
    (failed, losses)
}

proptest! {
    #[test]
    fn a_killer_is_soon_alone_and_only_it_fails(
        (lines, killer) in (1_u64..=1000).prop_flat_map(|lines| (Just(lines), 0..lines)),
        crashes_max in 1_u32..6,
    ) {
        let (failed, losses) = run(lines, &[killer], TRANCHE_LINES_MAX as usize, crashes_max);
        prop_assert_eq!(failed, vec![killer]);
        let halvings = u64::BITS - (lines - 1).leading_zeros();
        prop_assert!(losses <= halvings + crashes_max, "{} losses of {} lines", losses, lines);
    }

    #[test]
    fn several_killers_fail_and_nobody_else(
        killers in prop::collection::btree_set(0_u64..300, 1..6),
        tranche_max in 1_usize..300,
        crashes_max in 1_u32..5,
    ) {
        let killers: Vec<u64> = killers.into_iter().collect();
        prop_assert_eq!(run(300, &killers, tranche_max, crashes_max).0, killers);
    }

    #[test]
    fn only_a_line_that_ran_alone_can_fail(
        lines: u64,
        crashes: u32,
        alone: bool,
        crashes_max: u32,
    ) {
        match on_loss(lines, crashes, alone, crashes_max) {
            Loss::Fail => prop_assert!(lines <= 1 && alone),
            Loss::Return { tranche_max, .. } => {
                prop_assert!((1..=TRANCHE_LINES_MAX).contains(&tranche_max));
                prop_assert!(lines < 2 || u64::from(tranche_max) < lines);
            }
        }
    }
}

#[test]
fn a_line_alone_gets_all_its_chances() {
    let back = |tranche_max, crashes| Loss::Return { tranche_max, crashes };
    assert_eq!(on_loss(1, 0, true, 3), back(1, 1));
    assert_eq!(on_loss(1, 1, false, 3), back(1, 2));
    assert_eq!(on_loss(1, 2, true, 3), Loss::Fail);
    assert_eq!(on_loss(1, u32::MAX, true, 3), Loss::Fail);
    assert_eq!(on_loss(2, u32::MAX, true, 3), back(1, u32::MAX));
    assert_eq!(on_loss(u64::MAX, 0, true, 0), back(TRANCHE_LINES_MAX, 1));
}

#[test]
fn a_suspect_that_did_not_run_alone_is_not_charged() {
    for crashes in [2, 3, u32::MAX] {
        assert_eq!(on_loss(1, crashes, false, 3), Loss::Return { tranche_max: 1, crashes });
    }
}
