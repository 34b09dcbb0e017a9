//! Calls do what the domain says: every state with every event, and random walks.
//!
//! Holds throughout: where a call is after a verb is [`CallState::apply`]'s word and nobody else's; what
//! it refuses, the store refuses, and nothing changes.

use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::Timestamp;
use windrow_domain::InstanceId;
use windrow_domain::call::{CallEvent, CallState};
use windrow_store::call::{Call, CallsQuery, NewCall, StatsQuery};
use windrow_store::error::Kind;
use windrow_store::message::{
    Commit, Message, MessageRef, MessageRetention, ProcessingReport, Started,
};
use windrow_store::{Calls, Members, MessageStore, Messages, Result, Scope};

use super::MessageWorld;
use super::fixture::*;

const STEPS: u32 = 200;
const OBJECTS: [&str; 4] = ["1", "2", "3", "4"];
/// How long the answers of some calls are kept.
const KEPT_MS: u64 = 1000;

/// A walk of calls agrees with the domain at every step: seed one.
pub async fn a_walk_of_calls_agrees_with_the_domain_seed_one(world: &impl MessageWorld) {
    walk(world, 1).await;
}

/// A walk of calls agrees with the domain at every step: seed two.
pub async fn a_walk_of_calls_agrees_with_the_domain_seed_two(world: &impl MessageWorld) {
    walk(world, 2).await;
}

/// From every state, every event leads where the domain says, or is refused and changes nothing.
pub async fn every_event_leads_a_call_where_the_domain_says(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let mut asked = 0;
    for from in CallState::ALL {
        for event in CallEvent::ALL {
            // Those of before are forgotten first, so that only this one can be.
            pass(world, KEPT_MS);
            runner.store.prune_messages(keep(), 100).await.unwrap();
            asked += 1;
            let id = format!("r{asked}");
            let kept = Some(later(world, KEPT_MS));
            let new = NewCall { expires_at: kept, ..call(&format!("o{asked}"), &id) };
            let mut known = Known::asked(&runner, new).await;
            for event in way_to(from) {
                happen(world, &runner, &mut known, event).await;
            }
            assert_eq!(seen_call(&runner.store, &id).await.state, from);
            happen(world, &runner, &mut known, event).await;
        }
    }
}

/// What brings a call that was just asked into a state.
fn way_to(state: CallState) -> Vec<CallEvent> {
    match state {
        CallState::Pending => vec![],
        CallState::Processing => vec![CallEvent::Started],
        CallState::Completed => vec![CallEvent::Replied],
        CallState::Failed => vec![CallEvent::Started, CallEvent::GaveUp],
        CallState::Expired => vec![CallEvent::Replied, CallEvent::Forgotten],
    }
}

/// A call as the domain knows it.
#[derive(Clone, Debug)]
struct Known {
    id: String,
    at: MessageRef,
    /// As it was read when it was asked for.
    message: Message,
    state: CallState,
    instance: Option<InstanceId>,
    retries: u32,
    expires_at: Option<Timestamp>,
    is_kept: bool,
}

impl Known {
    async fn asked<S: MessageStore + Clone>(runner: &Runner<S>, new: NewCall) -> Self {
        let (id, expires_at) = (new.key.request_id.to_string(), new.expires_at);
        let at = submit(&runner.store, new).await;
        let message = read(&runner.store, at).await.expect("it was asked for");
        let (state, instance, retries) = (CallState::Pending, None, 0);
        let is_kept = expires_at.is_none();
        Self { id, at, message, state, instance, retries, expires_at, is_kept }
    }

    /// The call is as it must be.
    fn agrees(&self, told: &Call, story: &str) {
        let found = (told.state, told.retry_count, told.instance);
        assert_eq!(found, (self.state, self.retries, self.instance), "{story}: {}", self.id);
        let has = (told.reply.is_some(), told.error.is_some(), told.processed_at.is_some());
        let expected = match self.state {
            CallState::Pending | CallState::Processing => (false, false, false),
            CallState::Completed => (true, false, true),
            CallState::Failed => (false, true, true),
            CallState::Expired => (false, false, true),
        };
        assert_eq!(has, expected, "{story}: {}", self.id);
        assert_eq!(told.args.is_empty(), self.state == CallState::Expired, "{story}");
    }
}

/// The message at a place as it is now.
async fn read(store: &impl Messages, at: MessageRef) -> Option<Message> {
    waiting(store).await.into_iter().find(|message| message.at == at)
}

/// Whether an event is a part of a commit; the others are verbs of their own.
fn is_committed(event: CallEvent) -> bool {
    !matches!(event, CallEvent::Expired | CallEvent::Cancelled | CallEvent::Forgotten)
}

/// What a verb says of an event, as a commit.
async fn effect<S: MessageStore + Clone>(
    world: &impl MessageWorld,
    runner: &Runner<S>,
    known: &Known,
    event: CallEvent,
) -> Commit {
    let (at, blank) = (known.at, runner.effects());
    match event {
        CallEvent::Started => Commit { started: vec![Started { at }], ..blank },
        CallEvent::Seen => {
            let message = read(&runner.store, at).await.unwrap_or_else(|| known.message.clone());
            Commit { running: vec![ProcessingReport::of(&message)], ..blank }
        }
        CallEvent::Returned => Commit { failed: vec![failed(at, "again", now(world))], ..blank },
        CallEvent::Replied => Commit { calls: vec![reply(at, &known.id, "ok")], ..blank },
        CallEvent::GaveUp => Commit { calls: vec![refusal(at, &known.id, "no")], ..blank },
        CallEvent::Expired | CallEvent::Cancelled | CallEvent::Forgotten => blank,
    }
}

/// Lets an event happen through the store's verb, and checks what became of the call.
async fn happen<S: MessageStore + Clone>(
    world: &impl MessageWorld,
    runner: &Runner<S>,
    known: &mut Known,
    event: CallEvent,
) {
    let story = format!("{:?} of a {} call", event, known.state);
    let verdict = known.state.apply(event);
    match event {
        CallEvent::Forgotten => {
            pass(world, KEPT_MS);
            let tidied = runner.store.prune_messages(keep(), 100).await.unwrap();
            let moves = verdict.is_ok_and(|to| to != known.state);
            assert_eq!(tidied.expired > 0, moves, "{story}");
        }
        CallEvent::Expired => {
            pass(world, KEPT_MS);
            let ended = runner.store.expire_calls(100).await.unwrap();
            assert_eq!(ended.contains(&call_key(&known.id)), verdict.is_ok(), "{story}");
        }
        CallEvent::Cancelled => {
            let done = runner.store.cancel_call(&call_key(&known.id), None).await;
            agrees(verdict.is_ok(), done, &story);
        }
        _ => {
            let commit = effect(world, runner, known, event).await;
            agrees(verdict.is_ok(), runner.store.commit(commit).await, &story);
        }
    }
    note(known, event, runner.instance, now(world));
    known.state = verdict.unwrap_or(known.state);
    known.agrees(&seen_call(&runner.store, &known.id).await, &story);
}

/// What the domain refuses, the store refuses.
fn agrees<T: std::fmt::Debug>(is_allowed: bool, done: Result<T>, story: &str) {
    match is_allowed {
        true => drop(done.expect(story)),
        false => assert_eq!(kind(done), Kind::Conflict, "{story}"),
    }
}

/// Who was seen with a call by an event that the domain allows, and whether its answer came late: then it is
/// kept for longer than a walk.
fn note(known: &mut Known, event: CallEvent, instance: InstanceId, now: Timestamp) {
    let seen = matches!(
        event,
        CallEvent::Started | CallEvent::Seen | CallEvent::Replied | CallEvent::GaveUp
    );
    if known.state.is_ended() {
        return;
    }
    if seen {
        known.instance = Some(instance);
    }
    let ends = known.state.apply(event).is_ok_and(CallState::is_ended);
    known.is_kept |= ends && known.expires_at.is_some_and(|at| at <= now);
}

struct Walker<'a, W: MessageWorld> {
    world: &'a W,
    dice: Dice,
    runner: Runner<W::Store>,
    ghosts: Vec<Runner<W::Store>>,
    calls: Vec<Known>,
    archived: usize,
    story: String,
}

async fn walk<W: MessageWorld>(world: &W, seed: u64) {
    let (dice, runner) = (Dice::seeded(seed), ready(world).await);
    let mut walker = Walker {
        world,
        dice,
        runner,
        ghosts: Vec::new(),
        calls: Vec::new(),
        archived: 0,
        story: String::new(),
    };
    for step in 0..STEPS {
        walker.story = format!("seed {seed}, step {step}");
        walker.step().await;
        walker.compare().await;
    }
}

impl<W: MessageWorld> Walker<'_, W> {
    async fn step(&mut self) {
        match self.dice.below(100) {
            0..20 => self.ask().await,
            20..30 => self.repeat().await,
            30..75 => self.work().await,
            75..83 => self.overreach().await,
            83..86 => self.forget().await,
            86..88 => self.expire().await,
            88..90 => self.cancel().await,
            90..92 => self.archive().await,
            92..95 => self.kill().await,
            95..97 => self.haunt().await,
            _ => pass(self.world, self.dice.below(300)),
        }
    }

    async fn ask(&mut self) {
        let object = self.dice.pick(&OBJECTS).expect("there are objects");
        let expires_at = self.dice.percent(50).then(|| later(self.world, KEPT_MS));
        let id = format!("r{}", self.calls.len());
        let known = Known::asked(&self.runner, NewCall { expires_at, ..call(object, &id) });
        let known = known.await;
        self.calls.push(known);
    }

    async fn repeat(&mut self) {
        let Some(known) = self.any() else { return };
        let told = self.runner.store.call(&call_key(&known.id)).await.unwrap();
        // An expired call has no arguments any more; the question is known all the same.
        let args = Bytes::from(format!("args of {}", known.id));
        let again = NewCall { args, ..call(&told.object_id, &known.id) };
        assert_eq!(self.runner.store.submit_call(again).await.unwrap().at, None, "{}", self.story);
        self.known(&known.id).retries += 1;
    }

    /// Several calls at once, each with an event that the domain allows.
    async fn work(&mut self) {
        let mut commit = self.runner.effects();
        let mut chosen: BTreeMap<String, CallEvent> = BTreeMap::new();
        for _ in 0..=self.dice.below(3) {
            let Some(known) = self.any() else { return };
            let event = self.dice.pick(&CallEvent::ALL).expect("there are events");
            let allowed = known.state.apply(event).is_ok() && is_committed(event);
            if !allowed || chosen.contains_key(&known.id) {
                continue;
            }
            let one = effect(self.world, &self.runner, &known, event).await;
            commit.started.extend(one.started);
            commit.running.extend(one.running);
            commit.failed.extend(one.failed);
            commit.calls.extend(one.calls);
            chosen.insert(known.id, event);
        }
        self.runner.store.commit(commit).await.expect(&self.story);
        let (instance, now) = (self.runner.instance, now(self.world));
        for (id, event) in chosen {
            let known = self.known(&id);
            note(known, event, instance, now);
            known.state = known.state.apply(event).expect("it is allowed");
        }
    }

    /// An event that the domain refuses takes all of its commit with it.
    async fn overreach(&mut self) {
        let Some(known) = self.any() else { return };
        let event = self.dice.pick(&CallEvent::ALL).expect("there are events");
        if !is_committed(event) || known.state.apply(event).is_ok() {
            return;
        }
        let mut commit = effect(self.world, &self.runner, &known, event).await;
        let other = self.calls.iter().find(|other| !other.state.is_ended());
        commit.calls.extend(other.map(|other| reply(other.at, &other.id, "never")));
        assert_eq!(kind(self.runner.store.commit(commit).await), Kind::Conflict, "{}", self.story);
    }

    /// Time passes, and answers are forgotten: all of them that the domain lets go.
    async fn forget(&mut self) {
        pass(self.world, KEPT_MS);
        let mut expired = 0;
        for known in self.calls.iter_mut().filter(|known| !known.is_kept) {
            let forgotten = known.state.apply(CallEvent::Forgotten).unwrap_or(known.state);
            expired += u64::from(forgotten != known.state);
            known.state = forgotten;
        }
        let tidied = self.runner.store.prune_messages(keep(), 1000).await.unwrap();
        assert_eq!(tidied.expired, expired, "{}", self.story);
    }

    /// Time passes, and calls that wait are ended: all of them whose time is over.
    async fn expire(&mut self) {
        pass(self.world, KEPT_MS);
        let now = now(self.world);
        let mut expected = Vec::new();
        for known in &mut self.calls {
            let is_over = known.expires_at.is_some_and(|at| at <= now);
            if let (true, Ok(state)) = (is_over, known.state.apply(CallEvent::Expired)) {
                (known.state, known.is_kept) = (state, true);
                expected.push(known.id.clone());
            }
        }
        let ended = self.runner.store.expire_calls(1000).await.unwrap();
        let ended = sorted(ended.into_iter().map(|key| key.request_id.to_string()));
        assert_eq!(ended, sorted(expected.into_iter()), "{}", self.story);
    }

    /// Somebody cancels a call, whoever has it.
    async fn cancel(&mut self) {
        let Some(known) = self.any() else { return };
        if known.state == CallState::Failed {
            return;
        }
        let verdict = known.state.apply(CallEvent::Cancelled);
        let done = self.runner.store.cancel_call(&call_key(&known.id), None).await;
        agrees(verdict.is_ok(), done, &self.story);
        let (instance, now) = (self.runner.instance, now(self.world));
        let known = self.known(&known.id);
        note(known, CallEvent::Cancelled, instance, now);
        known.state = verdict.unwrap_or(known.state);
    }

    /// Where a call is kept is no part of where it is.
    async fn archive(&mut self) {
        // Nothing is due to be forgotten, so that only this happens.
        self.forget().await;
        let retention = MessageRetention { archive_ms: 0, ..keep() };
        self.runner.store.prune_messages(retention, 1000).await.unwrap();
        self.archived = self.calls.iter().filter(|known| known.state.is_ended()).count();
    }

    async fn kill(&mut self) {
        self.runner.store.tombstone(self.runner.instance).await.unwrap();
        let next = Runner::owning(&self.runner.store, &all()).await;
        self.ghosts.push(std::mem::replace(&mut self.runner, next));
    }

    /// Somebody of old changes nothing.
    async fn haunt(&mut self) {
        let Some(ghost) = self.dice.pick(&self.ghosts) else { return };
        let Some(known) = self.any() else { return };
        let event = self.dice.pick(&CallEvent::ALL).expect("there are events");
        let commit = effect(self.world, &ghost, &known, event).await;
        assert_eq!(kind(ghost.store.commit(commit).await), Kind::LeaseLost, "{}", self.story);
    }

    fn any(&mut self) -> Option<Known> {
        self.dice.pick(&self.calls)
    }

    fn known(&mut self, id: &str) -> &mut Known {
        self.calls.iter_mut().find(|known| known.id == id).expect("it was asked for")
    }

    async fn compare(&self) {
        let store = self.world.store();
        for known in &self.calls {
            known.agrees(&seen_call(store, &known.id).await, &self.story);
        }
        let open = self.calls.iter().filter(|known| !known.state.is_ended());
        let open = sorted(open.map(|known| known.id.clone()));
        let found = sorted(waiting(store).await.into_iter().map(|message| message.id));
        assert_eq!(found, open, "{}: who has no answer has a message", self.story);
        let stats = StatsQuery { window_ms: 365 * 24 * 3_600_000, old_ms: 1000 };
        let stats = store.call_stats(&Scope::All, stats).await.unwrap();
        for state in CallState::ALL {
            let expected = self.calls.iter().filter(|known| known.state == state).count();
            let of = stats.by_state.iter().find(|(one, _)| *one == state);
            let counted = of.map_or(0, |(_, calls)| *calls);
            assert_eq!(counted, expected as u64, "{}: {state}", self.story);
            let query = CallsQuery { states: vec![state], limit: 1000, ..CallsQuery::default() };
            let listed = store.calls(&Scope::All, query).await.unwrap().rows.len();
            assert!(listed <= expected, "{}: {state}", self.story);
            let is_whole = !state.is_ended() || self.archived == 0 && state != CallState::Expired;
            assert!(!is_whole || listed == expected, "{}: {state}", self.story);
        }
    }
}
