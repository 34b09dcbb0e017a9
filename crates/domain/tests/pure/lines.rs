//! `LineSet` against the plainest model there is: a `BTreeSet` of numbers.

use std::collections::BTreeSet;

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use windrow_domain::LineSet;

type Model = BTreeSet<u64>;

/// Small numbers, so that ranges touch, overlap and swallow each other.
fn lines() -> impl Strategy<Value = Model> {
    btree_set(0_u64..60, 0..40)
}

fn set(model: &Model) -> LineSet {
    model.iter().copied().collect()
}

/// The set holds what the model holds, and its ranges are sorted, disjoint and do not touch.
fn same(set: &LineSet, model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(set.iter().collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
    prop_assert_eq!(set.len(), model.len() as u64);
    prop_assert_eq!(set.is_empty(), model.is_empty());
    prop_assert_eq!(set.first(), model.first().copied());
    prop_assert_eq!(set.last(), model.last().copied());
    well_formed(set)
}

fn well_formed(set: &LineSet) -> Result<(), TestCaseError> {
    prop_assert!(set.ranges().iter().all(|(lo, hi)| lo <= hi), "{:?}", set);
    prop_assert!(set.ranges().windows(2).all(|pair| pair[1].0 - pair[0].1 > 1), "{:?}", set);
    Ok(())
}

proptest! {
    #[test]
    fn the_algebra_agrees_with_the_model(left in lines(), right in lines()) {
        let (a, b) = (set(&left), set(&right));
        same(&a, &left)?;
        same(&a.union(&b), &(&left | &right))?;
        same(&a.intersection(&b), &(&left & &right))?;
        same(&a.difference(&b), &(&left - &right))?;
        prop_assert_eq!(a.is_disjoint(&b), left.is_disjoint(&right));
        prop_assert_eq!(a == b, left == right);
    }

    #[test]
    fn inserting_says_whether_it_was_new(order in vec(0_u64..60, 0..60)) {
        let (mut set, mut model) = (LineSet::new(), Model::new());
        for line in order {
            prop_assert_eq!(set.insert(line), model.insert(line));
            same(&set, &model)?;
        }
    }

    #[test]
    fn contains_agrees_with_the_model(model in lines(), line in 0_u64..70) {
        prop_assert_eq!(set(&model).contains(line), model.contains(&line));
    }

    #[test]
    fn take_gives_the_lowest_and_leaves_the_rest(model in lines(), count in 0_u64..70) {
        let (taken, rest) = set(&model).take(count);
        let at = usize::try_from(count).unwrap();
        same(&taken, &model.iter().copied().take(at).collect())?;
        same(&rest, &model.iter().copied().skip(at).collect())?;
    }

    #[test]
    fn the_text_form_reads_back(model in lines()) {
        let set = set(&model);
        prop_assert_eq!(&set.to_string().parse::<LineSet>().unwrap(), &set);
        let json = serde_json::to_string(&set).unwrap();
        prop_assert_eq!(serde_json::from_str::<LineSet>(&json).unwrap(), set);
    }

    /// A store appends to a set by appending text, so the order of parts must not matter.
    #[test]
    fn parts_are_read_in_any_order(
        (model, parts) in lines().prop_flat_map(|model| {
            let parts: Vec<String> = model.iter().map(u64::to_string).collect();
            (Just(model), Just(parts).prop_shuffle())
        })
    ) {
        same(&parts.join(",").parse().unwrap(), &model)?;
    }

    #[test]
    fn parts_that_overlap_are_refused(lo in 0_u64..50, size in 0_u64..50, at in 0_u64..50) {
        let (hi, inside) = (lo + size, lo + at % (size + 1));
        let texts = [
            format!("{lo}-{hi},{inside}"),
            format!("{inside},{lo}-{hi}"),
            format!("{lo}-{hi},{inside}-{}", hi + 3),
        ];
        for text in texts {
            prop_assert!(text.parse::<LineSet>().is_err(), "{}", text);
        }
    }

    #[test]
    fn splitting_keeps_every_line_and_the_bound(model in lines(), bytes_max in 0_usize..40) {
        let whole = set(&model);
        let parts = whole.split_text(bytes_max);
        let mut joined = LineSet::new();
        for part in &parts {
            well_formed(part)?;
            prop_assert!(!part.is_empty());
            prop_assert!(part.is_disjoint(&joined));
            let fits = part.to_string().len() <= bytes_max;
            prop_assert!(fits || part.ranges().len() == 1, "{} in {}", part, bytes_max);
            joined = joined.union(part);
        }
        prop_assert_eq!(&joined, &whole);
        prop_assert_eq!(whole.split_text(usize::MAX).len(), usize::from(!model.is_empty()));
    }

    #[test]
    fn garbage_never_panics(text in "[0-9,\\- a]{0,30}|.{0,20}") {
        if let Ok(set) = text.parse::<LineSet>() {
            well_formed(&set)?;
            prop_assert_eq!(set.to_string().parse::<LineSet>().unwrap(), set);
        }
    }

    /// At the very end of the numbers every operation still gives an answer.
    #[test]
    fn the_last_numbers_do_not_overflow(from in 0_u64..4, count in 0_u64..6, cut in 0_u64..6) {
        let high = LineSet::range(u64::MAX - from, u64::MAX);
        let span = LineSet::span(u64::MAX - from, count);
        well_formed(&high.union(&span))?;
        prop_assert_eq!(&high.union(&span), &high);
        prop_assert_eq!(&high.intersection(&span), &span);
        prop_assert_eq!(high.difference(&span).len() + span.len(), high.len());
        prop_assert_eq!(high.take(cut).0.len(), cut.min(from + 1));
        prop_assert_eq!(&high.to_string().parse::<LineSet>().unwrap(), &high);
        let mut grown = LineSet::new();
        for line in (u64::MAX - from)..=u64::MAX {
            prop_assert!(grown.insert(line));
        }
        prop_assert!(!grown.insert(u64::MAX));
        prop_assert_eq!(grown, high);
    }
}

#[test]
fn the_set_of_all_numbers_saturates_and_does_not_panic() {
    let all = LineSet::range(0, u64::MAX);
    assert_eq!(all.len(), u64::MAX, "one short of the truth, which does not fit");
    let (taken, rest) = all.take(10);
    assert_eq!((taken, rest), (LineSet::range(0, 9), LineSet::range(10, u64::MAX)));
    let (taken, rest) = all.take(u64::MAX);
    assert_eq!(
        (taken, rest),
        (LineSet::range(0, u64::MAX - 1), LineSet::range(u64::MAX, u64::MAX))
    );
    assert_eq!(all.difference(&all), LineSet::new());
    assert_eq!(all.union(&all), all);
    assert_eq!(all.split_text(1), [all]);
}

#[test]
fn text_is_compact_and_bad_text_is_named() {
    let set: LineSet = "200-210,1-100,105,101".parse().unwrap();
    assert_eq!(set.to_string(), "1-101,105,200-210");
    assert_eq!(LineSet::range(5, 4), LineSet::new());
    assert_eq!("".parse::<LineSet>().unwrap(), LineSet::new());
    let bad = [
        ("a", "is not a number"),
        ("1,", "is not a number"),
        (",1", "is not a number"),
        ("1--2", "is not a number"),
        ("-1", "is not a number"),
        ("+1", "is not a number"),
        (" 1", "is not a number"),
        ("1-2-3", "is not a number"),
        ("18446744073709551616", "is not a number"),
        ("5-4", "ends before it starts"),
        ("1-5,5", "overlaps another part"),
        ("7,7", "overlaps another part"),
    ];
    for (text, because) in bad {
        assert_eq!(text.parse::<LineSet>().unwrap_err().because, because, "{text:?}");
    }
}
