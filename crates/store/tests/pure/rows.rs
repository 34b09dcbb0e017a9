//! The merge of unfinished lines: right for any lanes and sets, and frugal with what it asks for.

use proptest::prelude::*;
use windrow_domain::{BatchId, LaneNo, LineSet};
use windrow_store::inspect::{LaneStart, Merge, Place, PlaceSet, PlaceSets, RowKey, RowsQuery};

const PLACES: [Place; 3] = [Place::Untouched, Place::Returned, Place::Leased];

/// A file: for each line its lane, and its place or (3) that it has a result.
fn sets(file: &[(LaneNo, usize)]) -> (Vec<PlaceSet>, Vec<RowKey>) {
    let mut sets = Vec::<PlaceSet>::new();
    let (mut keys, mut next) = (Vec::new(), [0_u64; 8]);
    for (at, &(lane, place)) in file.iter().enumerate() {
        let (seq, line) = (next[usize::from(lane)], at as u64 * 3 + 1);
        next[usize::from(lane)] += 1;
        let finished = place == PLACES.len();
        keys.push(RowKey { line, lane, seq, finished });
        if finished {
            continue;
        }
        let place = PLACES[place];
        if !sets.iter().any(|set| set.lane == lane && set.place == place) {
            let (lines, attempts) = (LineSet::new(), 0);
            let (not_before, held_by, held_since) = (None, None, None);
            sets.push(PlaceSet { lane, place, lines, attempts, not_before, held_by, held_since });
        }
        let set = sets.iter_mut().find(|set| set.lane == lane && set.place == place);
        assert!(set.expect("it was put there").lines.insert(seq));
    }
    (sets, keys)
}

proptest! {
    #[test]
    fn a_merge_finds_the_first_rows_and_asks_for_few(
        file in prop::collection::vec((0_u16..8, 0_usize..4), 0..400),
        start in 0_u64..1300,
        limit in 1_u32..60,
        backward: bool,
        some in prop::option::of(0_usize..3),
    ) {
        let (sets, keys) = sets(&file);
        let places = PlaceSets::new(sets);
        let wanted_places: Vec<Place> = some.map(|at| PLACES[at]).into_iter().collect();
        let query = RowsQuery {
            backward,
            from: Some(start),
            places: wanted_places,
            ..RowsQuery::of(BatchId::new(), limit)
        };
        let starts: Vec<LaneStart> = match query.lower_than(start) {
            None => Vec::new(),
            Some(lower) => (0..8)
                .map(|lane| {
                    let passed = keys.iter().filter(|key| key.lane == lane && key.line < lower);
                    LaneStart { lane, passed: passed.count() as u64 }
                })
                .collect(),
        };
        let wanted = limit as usize + 1;
        let mut merge = Merge::new(&query, wanted, &places, &starts);
        let mut asked_for = 0;
        loop {
            let asked = merge.ask();
            if asked.is_empty() {
                break;
            }
            asked_for += asked.len();
            for (lane, seq) in asked {
                let key = keys.iter().find(|key| key.lane == lane && key.seq == seq);
                merge.tell(lane, seq, key.expect("only lines of the file are asked for").line);
            }
        }
        let mut listed: Vec<RowKey> = keys
            .iter()
            .filter(|key| if backward { key.line <= start } else { key.line >= start })
            .filter(|key| match places.find(key.lane, key.seq) {
                Some(set) => query.wants(set.place),
                None => query.wants_finished(),
            })
            .copied()
            .collect();
        if backward {
            listed.reverse();
        }
        listed.truncate(wanted);
        let finished: Vec<_> = match query.wants_finished() {
            true => listed.iter().filter(|key| key.finished).copied().collect(),
            false => Vec::new(),
        };
        prop_assert_eq!(merge.with(finished), listed);
        // Its share of each lane, at least eight, and twice as much again where the rows lie in few lanes.
        prop_assert!(asked_for <= 4 * wanted + 8 * 8, "{} asked for {}", asked_for, wanted);
    }
}

#[test]
fn a_line_is_found_in_its_set_only() {
    let (sets, keys) = sets(&[(0, 0), (0, 1), (1, 3), (0, 1), (1, 2)]);
    let places = PlaceSets::new(sets);
    let found: Vec<_> =
        keys.iter().map(|key| places.find(key.lane, key.seq).map(|set| set.place)).collect();
    let (returned, leased) = (Some(Place::Returned), Some(Place::Leased));
    assert_eq!(found, [Some(Place::Untouched), returned, None, returned, leased]);
    assert!(places.find(0, 3).is_none() && places.find(2, 0).is_none());
}
