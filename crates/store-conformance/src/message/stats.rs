//! Lists and statistics of calls, on data whose figures are known.

use windrow_domain::{CallState, InstanceId};
use windrow_store::call::{Call, CallKey, CallResult, CallStats, CallsQuery, NewCall, StatsQuery};
use windrow_store::error::Kind;
use windrow_store::inspect::PAGE_MAX;
use windrow_store::message::MessageRetention;
use windrow_store::{Calls, Members, Messages, Scope};

use super::MessageWorld;
use super::fixture::*;

fn calls(limit: u32) -> CallsQuery {
    CallsQuery { limit, ..CallsQuery::default() }
}

/// All pages, by request id.
async fn listed(store: &impl Calls, scope: &Scope, query: CallsQuery) -> Vec<String> {
    let (mut rows, mut query): (Vec<Call>, _) = (Vec::new(), query);
    loop {
        let page = store.calls(scope, query.clone()).await.expect("calls are listed");
        assert!(page.rows.len() <= query.limit as usize);
        rows.extend(page.rows);
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    assert!(rows.is_sorted_by(|a, b| a.created_at >= b.created_at), "newest first");
    rows.into_iter().map(|call| call.key.request_id.to_string()).collect()
}

/// Calls are listed newest first, page by page, by object, by state and by instance; each owner sees
/// its own.
pub async fn calls_are_listed_newest_first(world: &impl MessageWorld) {
    let first = ready(world).await;
    let store = world.store();
    let mut places = Vec::new();
    for no in 0..8 {
        pass(world, 10);
        let object = ["1", "2"][no % 2];
        places.push(submit(store, call(object, &format!("r{no}"))).await);
    }
    let bobs = CallKey { owner: owner("bob"), ..call_key("b") };
    pass(world, 10);
    store.submit_call(NewCall { key: bobs, ..call("1", "b") }).await.unwrap();
    first.begin(places[2]).await;
    first.begin(places[5]).await;
    first.answer(reply(places[5], "r5", "ok")).await;
    first.answer(refusal(places[6], "r6", "no")).await;
    store.tombstone(first.instance).await.unwrap();
    let second = Runner::owning(store, &all()).await;
    second.begin(places[0]).await;
    let mine = scope(ADA);
    let whole = ["r7", "r6", "r5", "r4", "r3", "r2", "r1", "r0"];
    for limit in [1, 3, 8, PAGE_MAX] {
        assert_eq!(listed(store, &mine, calls(limit)).await, whole);
    }
    assert_eq!(listed(store, &Scope::All, calls(2)).await.len(), 9);
    assert_eq!(listed(store, &scope("bob"), calls(2)).await, ["b"]);
    let object = Some(("wallet".to_owned(), "1".to_owned()));
    let of_object = CallsQuery { object, ..calls(2) };
    assert_eq!(listed(store, &mine, of_object.clone()).await, ["r6", "r4", "r2", "r0"]);
    assert_eq!(listed(store, &Scope::All, of_object).await[0], "b");
    let states = |states: &[CallState]| CallsQuery { states: states.to_vec(), ..calls(2) };
    let by = async |wanted: &[CallState]| listed(store, &mine, states(wanted)).await;
    assert_eq!(by(&[CallState::Pending]).await, ["r7", "r4", "r3", "r1"]);
    assert_eq!(by(&[CallState::Processing]).await, ["r2", "r0"]);
    assert_eq!(by(&[CallState::Completed, CallState::Failed]).await, ["r6", "r5"]);
    assert!(by(&[CallState::Expired]).await.is_empty());
    let began = |instance| CallsQuery { instance: Some(instance), ..calls(1) };
    let by = async |instance| listed(store, &mine, began(instance)).await;
    let firsts = by(first.instance).await;
    assert!(firsts.iter().filter(|id| *id != "r6").eq(["r5", "r2"]), "{firsts:?}");
    assert_eq!(by(second.instance).await, ["r0"]);
    assert!(by(InstanceId::new()).await.is_empty());
}

/// A cursor fits its own list; limits have bounds.
pub async fn a_list_of_calls_out_of_bounds_is_invalid(world: &impl MessageWorld) {
    ready(world).await;
    let store = world.store();
    for no in 0..3 {
        submit(store, call("1", &format!("r{no}"))).await;
    }
    let after = store.calls(&scope(ADA), calls(1)).await.unwrap().next.expect("more");
    let with = |query: CallsQuery| CallsQuery { after: Some(after.clone()), ..query };
    let filtered = CallsQuery { states: vec![CallState::Pending], ..calls(1) };
    for (who, asked) in [
        (scope("bob"), with(calls(1))),
        (Scope::All, with(calls(1))),
        (scope(ADA), with(filtered)),
        (scope(ADA), CallsQuery { after: Some("x".to_owned()), ..calls(1) }),
        (scope(ADA), calls(0)),
        (scope(ADA), calls(PAGE_MAX + 1)),
    ] {
        assert_eq!(kind(store.calls(&who, asked).await), Kind::Invalid);
    }
    assert_eq!(store.calls(&scope(ADA), with(calls(9))).await.unwrap().rows.len(), 2);
}

/// Calls that began long ago and have no answer are stuck; that somebody asks again hides none.
pub async fn stuck_calls_are_listed(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    submit(store, call("1", "waits")).await;
    let stuck = submit(store, call("2", "stuck")).await;
    let answered = submit(store, call("3", "answered")).await;
    let fresh = submit(store, call("4", "fresh")).await;
    for at in [stuck, answered] {
        runner.begin(at).await;
    }
    runner.answer(reply(answered, "answered", "ok")).await;
    pass(world, 10_000);
    runner.begin(fresh).await;
    store.submit_call(call("2", "stuck")).await.unwrap();
    pass(world, 1000);
    let since = |ms| CallsQuery { stuck_ms: Some(ms), ..calls(10) };
    let stuck_for = async |ms| listed(store, &scope(ADA), since(ms)).await;
    assert_eq!(stuck_for(10_500).await, ["stuck"]);
    assert_eq!(sorted(stuck_for(500).await), ["fresh", "stuck"]);
    assert!(stuck_for(12_000).await.is_empty());
    let stats = stats(store, &scope(ADA), 10_500).await;
    assert_eq!((stats.stuck, stats.pending_old), (1, 1));
    assert_eq!(stats.pending_age_ms, Some(11_000));
}

const WINDOW_MS: u64 = 60_000;

async fn stats(store: &impl Calls, scope: &Scope, old_ms: u64) -> CallStats {
    let query = StatsQuery { window_ms: WINDOW_MS, old_ms };
    store.call_stats(scope, query).await.expect("statistics are told")
}

fn count(stats: &CallStats, state: CallState) -> u64 {
    stats.by_state.iter().filter(|(one, _)| *one == state).map(|(_, count)| count).sum()
}

/// Without calls there are no figures.
pub async fn statistics_of_nothing_are_empty(world: &impl MessageWorld) {
    ready(world).await;
    let stats = stats(world.store(), &Scope::All, 1000).await;
    assert!(stats.by_state.iter().all(|(_, count)| *count == 0));
    assert_eq!((stats.pending_age_ms, stats.pending_old, stats.stuck), (None, 0, 0));
    assert_eq!((stats.p50_ms, stats.p95_ms, stats.p99_ms), (None, None, None));
    assert_eq!((stats.failure_rate, stats.retries), (None, Vec::new()));
    assert_eq!((stats.rows, stats.archived_rows), (0, 0));
}

/// Percentiles, the failure rate and the counts are those of the calls in the window, as far as the
/// scope goes.
pub async fn statistics_tell_how_calls_are_doing(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    // Answered before the window: it would be the slowest.
    let old = submit(store, call("old", "old")).await;
    pass(world, 20_000);
    runner.answer(refusal(old, "old", "no")).await;
    pass(world, WINDOW_MS + 1);
    // 101 calls that take 0, 10, … 1000 ms: every percentile is one of them.
    let mut places = Vec::new();
    for no in 0..=100 {
        places.push(submit(store, call(&format!("o{no}"), &format!("r{no}"))).await);
    }
    for (no, at) in places.iter().enumerate() {
        let id = format!("r{no}");
        let result = if no % 4 == 0 { refusal(*at, &id, "no") } else { reply(*at, &id, "ok") };
        runner.answer(result).await;
        pass(world, 10);
    }
    let theirs =
        NewCall { key: CallKey { owner: owner("bob"), ..call_key("b") }, ..call("b", "b") };
    store.submit_call(theirs).await.unwrap();
    pass(world, 5000);
    let begun = submit(store, call("begun", "begun")).await;
    runner.begin(begun).await;
    let mine = stats(store, &scope(ADA), 4000).await;
    let near = |figure: Option<f64>, expected: f64| {
        let figure = figure.expect("there are answers");
        assert!((figure - expected).abs() < 0.01, "{figure} is not {expected}");
    };
    near(mine.p50_ms, 500.0);
    near(mine.p95_ms, 950.0);
    near(mine.p99_ms, 990.0);
    near(mine.failure_rate, 26.0 / 101.0);
    assert_eq!((count(&mine, CallState::Completed), count(&mine, CallState::Failed)), (75, 26));
    assert_eq!((count(&mine, CallState::Pending), count(&mine, CallState::Processing)), (0, 1));
    assert_eq!((mine.pending_age_ms, mine.pending_old, mine.stuck), (None, 0, 0));
    let all = stats(store, &Scope::All, 4000).await;
    assert_eq!((count(&all, CallState::Pending), all.pending_old), (1, 1));
    assert_eq!(all.pending_age_ms, Some(5000));
    assert_eq!((all.rows, all.archived_rows), (104, 0));
    let bobs = stats(store, &scope("bob"), 4000).await;
    assert_eq!((bobs.p50_ms, bobs.failure_rate), (None, None));
    assert_eq!(count(&bobs, CallState::Pending), 1);
}

/// Pending calls count however old they are; ended ones of another time do not.
pub async fn old_calls_count_while_they_have_no_answer(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let done = submit(store, call("1", "done")).await;
    submit(store, call("2", "pending")).await;
    let begun = submit(store, call("3", "begun")).await;
    runner.answer(reply(done, "done", "ok")).await;
    runner.begin(begun).await;
    pass(world, WINDOW_MS * 10);
    let stats = stats(store, &Scope::All, 1000).await;
    let counts = CallState::ALL.map(|state| count(&stats, state));
    assert_eq!(counts, [1, 1, 0, 0, 0]);
    assert_eq!((stats.p50_ms, stats.failure_rate), (None, None));
    assert_eq!((stats.pending_age_ms, stats.stuck), (Some(WINDOW_MS * 10), 1));
}

/// How often questions are repeated is told by method, the most repeated first.
pub async fn statistics_tell_what_is_repeated(world: &impl MessageWorld) {
    ready(world).await;
    let store = world.store();
    let withdraw = |id: &str| NewCall { method: "withdraw".to_owned(), ..call("1", id) };
    let order = NewCall { object_type: "order".to_owned(), ..call("1", "o1") };
    let asked = [(call("1", "d1"), 3), (call("1", "d2"), 1), (withdraw("w1"), 5), (order, 0)];
    for (new, repeats) in asked {
        for _ in 0..=repeats {
            store.submit_call(new.clone()).await.unwrap();
        }
    }
    let stats = stats(store, &scope(ADA), 1000).await;
    let told: Vec<_> = stats
        .retries
        .iter()
        .map(|one| (one.object_type.as_str(), one.method.as_str(), one.calls, one.retries_mean))
        .filter(|(.., mean)| *mean > 0.0)
        .collect();
    assert_eq!(told, [("wallet", "withdraw", 1, 5.0), ("wallet", "deposit", 2, 2.0)]);
}

/// Archived calls count as before; of expired ones the times are known, and not how they ended.
pub async fn statistics_count_the_archive(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    // Created before the window: its time to the answer counts, its state and repeats do not.
    let old = submit(store, call("old", "old")).await;
    pass(world, WINDOW_MS - 5000);
    let mut places = Vec::new();
    for no in 0..20 {
        let id = format!("r{no}");
        let kept = (no < 5).then(|| later(world, 10_000));
        let new = NewCall { expires_at: kept, ..call(&format!("o{no}"), &id) };
        places.push(submit(store, new.clone()).await);
        if no % 3 == 0 {
            store.submit_call(new).await.unwrap();
        }
    }
    pass(world, 3000);
    runner.answer(reply(old, "old", "ok")).await;
    for (no, at) in places.iter().enumerate().skip(1) {
        let id = format!("r{no}");
        let result = if no % 4 == 0 { refusal(*at, &id, "no") } else { reply(*at, &id, "ok") };
        runner.answer(result).await;
        pass(world, 10);
    }
    pass(world, 3000);
    let before = stats(store, &scope(ADA), 4000).await;
    assert_eq!((before.rows, before.archived_rows), (21, 0));
    assert_eq!((count(&before, CallState::Completed), count(&before, CallState::Failed)), (15, 4));
    let retention = MessageRetention { archive_ms: 0, ..keep() };
    assert_eq!(store.prune_messages(retention, 100).await.unwrap().archived, 20);
    let told = stats(store, &scope(ADA), 4000).await;
    assert_eq!((told.rows, told.archived_rows), (1, 20));
    let same = CallStats { rows: before.rows, archived_rows: 0, ..told };
    assert_eq!(same, before, "they moved, and nothing else");
    pass(world, 10_000);
    assert_eq!(store.prune_messages(retention, 100).await.unwrap().expired, 4);
    let told = stats(store, &scope(ADA), 4000).await;
    let counts = CallState::ALL.map(|state| count(&told, state));
    assert_eq!(counts, [1, 0, 12, 3, 4]);
    assert_eq!((told.p50_ms, told.p99_ms), (before.p50_ms, before.p99_ms));
    assert_eq!(told.failure_rate, Some(3.0 / 16.0));
    assert_eq!(told.retries, before.retries);
    pass(world, WINDOW_MS);
    let told = stats(store, &scope(ADA), 4000).await;
    assert_eq!((told.p50_ms, told.failure_rate, &told.retries), (None, None, &Vec::new()));
    assert_eq!(CallState::ALL.map(|state| count(&told, state)), [1, 0, 0, 0, 0]);
}

/// An owner's figures are of its own calls, also in the archive; what is known of all together is not
/// for one of them.
pub async fn statistics_of_an_owner_tell_of_nobody_else(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let mine = submit(store, call("1", "mine")).await;
    let bobs = CallKey { owner: owner("bob"), ..call_key("theirs") };
    for _ in 0..3 {
        let new = NewCall { key: bobs.clone(), method: "secret".to_owned(), ..call("1", "theirs") };
        store.submit_call(new).await.unwrap();
    }
    let theirs = runner.messages().await.into_iter().find(|one| one.owner == owner("bob"));
    pass(world, 100);
    runner.answer(reply(mine, "mine", "ok")).await;
    pass(world, 900);
    let at = theirs.expect("it was asked for").at;
    runner.answer(CallResult { key: bobs, ..refusal(at, "theirs", "no") }).await;
    for archived in [0, 1] {
        let told = stats(store, &scope(ADA), 1000).await;
        assert_eq!((told.p50_ms, told.p99_ms), (Some(100.0), Some(100.0)));
        assert_eq!((told.failure_rate, told.bytes), (Some(0.0), None));
        assert_eq!((told.rows, told.archived_rows), (1 - archived, archived));
        let methods: Vec<_> = told.retries.iter().map(|one| one.method.as_str()).collect();
        assert_eq!(methods, ["deposit"]);
        assert_eq!(CallState::ALL.map(|state| count(&told, state)), [0, 0, 1, 0, 0]);
        let all = stats(store, &Scope::All, 1000).await;
        assert!(all.bytes.is_some_and(|bytes| bytes > 0));
        assert_eq!((all.rows, all.archived_rows), (2 - 2 * archived, 2 * archived));
        assert_eq!((all.failure_rate, all.retries.len()), (Some(0.5), 2));
        store.prune_messages(MessageRetention { archive_ms: 0, ..keep() }, 100).await.unwrap();
    }
}
