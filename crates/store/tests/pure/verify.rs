//! The audit is the judge of everything else, so each kind of wrong must be shown to it.

use windrow_domain::batch::{Ending, State};
use windrow_domain::{Counts, InstanceId, LineSet, Phase, UpstreamId};
use windrow_store::inspect::{BatchRows, LaneRows};
use windrow_store::recipe::recipe_hash;

fn set(text: &str) -> LineSet {
    text.parse().unwrap()
}

/// Twenty lines, some in each place.
fn lane() -> LaneRows {
    LaneRows {
        lane: 3,
        upstream: UpstreamId::own(),
        phase: Phase::Open,
        cursor: 14,
        counts: Counts {
            total: 20,
            untouched: 6,
            returned: 3,
            leased: 4,
            completed: 4,
            failed: 1,
            not_found: 1,
            skipped: 1,
        },
        returned: vec![set("0-1"), set("5")],
        leased: vec![set("2-4"), set("6")],
        leased_for: vec![UpstreamId::own(); 2],
        alone: Vec::new(),
        finished: [set("7-10"), set("11"), set("12"), set("13")],
        results: 7,
    }
}

fn done() -> LaneRows {
    LaneRows {
        phase: Phase::Done,
        cursor: 5,
        counts: Counts { total: 5, completed: 4, failed: 1, ..Counts::default() },
        returned: Vec::new(),
        leased: Vec::new(),
        leased_for: Vec::new(),
        alone: Vec::new(),
        finished: [set("0-3"), set("4"), set(""), set("")],
        results: 5,
        ..lane()
    }
}

fn batch(state: State, lanes: Vec<LaneRows>) -> Result<(), String> {
    BatchRows { state, generation: 0, recipe_hash: None, recipes: Vec::new(), lanes }.check()
}

#[test]
fn a_true_batch_passes() {
    lane().check().unwrap();
    done().check().unwrap();
    batch(State::InProgress, vec![lane(), done()]).unwrap();
    batch(State::Completed, vec![done(), done()]).unwrap();
    batch(State::Finalizing(Ending::Completed), vec![done()]).unwrap();
    batch(State::Failed, Vec::new()).unwrap();
    let stopping = LaneRows { phase: Phase::Stopping, ..lane() };
    batch(State::Cancelling, vec![stopping, done()]).unwrap();
    batch(State::Paused, vec![LaneRows { phase: Phase::Paused, ..lane() }]).unwrap();
    let mut stopped = lane();
    stopped.phase = Phase::Done;
    stopped.counts.leased = 0;
    stopped.counts.returned += 4;
    stopped.returned.append(&mut stopped.leased);
    batch(State::Cancelled, vec![stopped.clone()]).unwrap();
    batch(State::Finalizing(Ending::Expired), vec![stopped, done()]).unwrap();
}

#[test]
fn each_kind_of_wrong_is_named() {
    type Break = fn(&mut LaneRows);
    let breaks: [(&str, Break); 14] = [
        ("does not add up", |lane| lane.counts.total += 1),
        ("does not add up", |lane| lane.counts.untouched -= 1),
        ("0 is returned and elsewhere", |lane| lane.returned.push(set("0"))),
        ("5 is leased and elsewhere", |lane| lane.leased.push(set("5"))),
        ("11 is finished and elsewhere", |lane| lane.finished[0] = set("7-11")),
        ("14 is finished and elsewhere", |lane| lane.finished[3] = set("13-14")),
        ("lost [6]", |lane| drop(lane.leased.pop())),
        ("lost [12]", |lane| lane.finished[2] = set("")),
        ("extra [20]", |lane| lane.leased.push(set("20"))),
        ("lost [14], extra [20]", |lane| lane.cursor = 15),
        ("13 is untouched and elsewhere", |lane| lane.cursor = 13),
        ("in rows", |lane| {
            lane.counts.returned += 1;
            lane.counts.leased -= 1;
        }),
        ("in rows", |lane| {
            lane.counts.failed += 1;
            lane.counts.skipped -= 1;
        }),
        ("7 finished counted, 8 in rows", |lane| lane.results = 8),
    ];
    for (index, (expected, break_it)) in breaks.into_iter().enumerate() {
        let mut lane = lane();
        break_it(&mut lane);
        let wrong = lane.check().expect_err("it was broken");
        // Which of two places is named first is of no interest.
        let line_named = expected.split(' ').next().unwrap();
        let said = wrong.contains(expected)
            || (expected.contains("elsewhere") && wrong.contains(&format!(": {line_named} is")));
        assert!(said, "{index}: expected {expected:?}, got {wrong:?}");
        assert!(wrong.starts_with("lane 3"), "{wrong}");
        assert!(batch(State::InProgress, vec![done(), lane]).is_err());
    }
}

#[test]
fn a_lane_is_marked_done_exactly_when_it_is() {
    assert!(LaneRows { phase: Phase::Open, ..done() }.check().is_err());
    assert!(LaneRows { phase: Phase::Paused, ..done() }.check().is_err());
    let mut stopping = LaneRows { phase: Phase::Stopping, ..lane() };
    stopping.check().unwrap();
    stopping.counts.leased = 0;
    stopping.counts.returned += 4;
    let leased = std::mem::take(&mut stopping.leased);
    stopping.returned.extend(leased);
    assert!(stopping.check().is_err(), "nothing is leased, so it is done");
}

#[test]
fn a_batch_and_its_lanes_agree() {
    assert!(batch(State::InProgress, vec![done()]).is_err(), "all lanes done, still running");
    assert!(batch(State::Completed, vec![done(), lane()]).is_err(), "closed with an open lane");
    assert!(batch(State::Finalizing(Ending::Completed), vec![lane()]).is_err());
    assert!(batch(State::Paused, vec![lane()]).is_err(), "a paused batch with an open lane");
    assert!(batch(State::Cancelling, vec![lane()]).is_err());
    let paused = LaneRows { phase: Phase::Paused, ..lane() };
    assert!(batch(State::InProgress, vec![paused]).is_err(), "a paused lane nobody will resume");
}

#[test]
fn a_done_lane_holds_no_lease_and_leaves_lines_only_when_stopped() {
    let held = LaneRows { phase: Phase::Done, ..lane() };
    assert!(batch(State::Cancelled, vec![held.clone()]).is_err(), "done with leased lines");
    assert!(batch(State::Cancelling, vec![held]).is_err());
    let mut left = done();
    left.counts.total += 1;
    left.counts.untouched = 1;
    batch(State::Cancelled, vec![left.clone()]).unwrap();
    assert!(batch(State::Completed, vec![left.clone()]).is_err(), "completed with lines left");
    assert!(batch(State::InProgress, vec![left, lane()]).is_err(), "lines nobody will claim");
}

/// A claim binds the lane, so a lane that is not bound has no lease for anybody. What an older build
/// leased, and what was moved since it was leased, is no contradiction.
#[test]
fn a_lane_that_nobody_knows_has_nothing_leased_for_anybody() {
    let unknown = LaneRows { upstream: UpstreamId::unknown(), ..lane() };
    let error = batch(State::InProgress, vec![unknown.clone()]).unwrap_err();
    assert!(error.contains("its upstream is not known"), "{error}");
    let old = LaneRows { leased_for: vec![UpstreamId::unknown(); 2], ..unknown };
    batch(State::InProgress, vec![old]).unwrap();
    let moved = LaneRows { upstream: UpstreamId::new("b").unwrap(), ..lane() };
    batch(State::InProgress, vec![moved]).unwrap();
}

/// A line that runs alone is the only one of its lease, and of its instance.
#[test]
fn a_line_that_runs_alone_is_alone() {
    let one = InstanceId::new();
    let marked = |alone| vec![LaneRows { alone, ..lane() }];
    batch(State::InProgress, marked(vec![(one, set("6"))])).unwrap();
    batch(State::InProgress, marked(vec![(one, set("6")), (InstanceId::new(), set("2"))])).unwrap();
    let error = batch(State::InProgress, marked(vec![(one, set("2-4"))])).unwrap_err();
    assert!(error.contains("2-4 is marked"), "{error}");
    let twice = marked(vec![(one, set("6")), (one, set("2"))]);
    assert!(batch(State::InProgress, twice).unwrap_err().contains("so does another line"));
}

/// A batch that was made with a recipe has kept just that one, and none of a generation to come.
#[test]
fn the_recipes_of_a_batch_are_those_that_its_row_says() {
    let hash = recipe_hash("a");
    let rows = |generation, recipe_hash, recipes: &[(u32, [u8; 32])]| {
        let recipes = recipes.to_vec();
        BatchRows { state: State::Completed, generation, recipe_hash, recipes, lanes: vec![done()] }
    };
    rows(2, None, &[]).check().unwrap();
    rows(0, Some(hash), &[(0, hash)]).check().unwrap();
    rows(2, Some(hash), &[(0, hash), (2, recipe_hash("b"))]).check().unwrap();
    rows(1, None, &[(1, hash)]).check().unwrap();
    let lost = [rows(0, Some(hash), &[]), rows(0, None, &[(0, hash)])];
    let other = rows(1, Some(hash), &[(0, recipe_hash("b"))]);
    for wrong in lost.into_iter().chain([other]) {
        assert!(wrong.check().unwrap_err().contains("another recipe"));
    }
    let early = rows(0, Some(hash), &[(0, hash), (1, hash)]);
    assert!(early.check().unwrap_err().contains("did not begin"));
}
