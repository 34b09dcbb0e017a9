//! Random walks: hundreds of seeded operations, one after the other, each compared with the model.

use std::collections::{BTreeMap, BTreeSet};

use windrow_domain::attempt::Status;
use windrow_domain::batch::Event;
use windrow_domain::{
    AuditEntryId, BatchId, InstanceId, LeaseId, LineSet, Route, State, Target, UpstreamId,
};
use windrow_store::audit_log::NewAuditEntry;
use windrow_store::batch::{NewBatch, Reprocess, Select};
use windrow_store::claim::{Request, Tranche};
use windrow_store::error::Kind;
use windrow_store::inspect::{BatchRow, Place, RowsQuery};
use windrow_store::member::{Evidence, NewMember};
use windrow_store::record::{Fold, Outcomes, Turn};
use windrow_store::{Batches, Claim, Finalise, Inspect, Members, Record, Scope, Sweep};

use crate::World;
use crate::fixture::*;
use crate::model::Model;

const STEPS: u32 = 250;
const CRASHES_MAX: u32 = 3;
const LINES_PER_LANE: u64 = 30;

/// A walk agrees with the model at every step: seed one.
pub async fn a_walk_agrees_with_the_model_seed_one(world: &impl World) {
    walk(world, 1).await;
}

/// A walk agrees with the model at every step: seed two.
pub async fn a_walk_agrees_with_the_model_seed_two(world: &impl World) {
    walk(world, 2).await;
}

/// A walk agrees with the model at every step: seed three.
pub async fn a_walk_agrees_with_the_model_seed_three(world: &impl World) {
    walk(world, 3).await;
}

/// A walk agrees with the model at every step: seed four.
pub async fn a_walk_agrees_with_the_model_seed_four(world: &impl World) {
    walk(world, 4).await;
}

async fn walk(world: &impl World, seed: u64) {
    let mut walker = Walker {
        world,
        dice: Dice::seeded(seed),
        instances: [join(world).await, join(world).await],
        targets: vec![target("model-a"), target("model-b")],
        model: Model::default(),
        held: Vec::new(),
        ghosts: Vec::new(),
        story: String::new(),
        step: 0,
    };
    walker.create().await;
    for step in 0..STEPS {
        walker.story = format!("seed {seed}, step {step}");
        walker.step = step as usize;
        walker.step().await;
        walker.compare().await;
    }
}

async fn join(world: &impl World) -> InstanceId {
    let member = NewMember {
        instance: InstanceId::new(),
        service: "walk".to_owned(),
        host: "here".to_owned(),
        pid: 1,
        metadata: "{}".to_owned(),
        lock: None,
    };
    let instance = member.instance;
    world.store().register(member).await.expect("anybody may join");
    instance
}

struct Walker<'w, W: World> {
    world: &'w W,
    dice: Dice,
    instances: [InstanceId; 2],
    targets: Vec<Target>,
    model: Model,
    /// What the two instances hold, as the last reply left it.
    held: Vec<Tranche>,
    /// Proofs from earlier: of leases that ended, or old versions of living ones.
    ghosts: Vec<Tranche>,
    story: String,
    step: usize,
}

impl<W: World> Walker<'_, W> {
    async fn step(&mut self) {
        let roll = self.dice.below(100);
        let verb = match roll {
            0..45 => "turn",
            45..52 => "ghost",
            52..57 => "release",
            57..61 => "renew",
            61..65 => "mark",
            65..68 => "lose",
            68..71 => "die",
            71..85 => "steer",
            85..88 => "expire",
            88 => "move",
            89..93 => "reprocess",
            93..95 => "try now",
            95..98 => "close",
            _ => "create",
        };
        self.story = format!("{}, {verb}", self.story);
        pass(self.world, self.dice.below(3000));
        match verb {
            "turn" => self.turn().await,
            "ghost" => self.ghost().await,
            "release" => self.release().await,
            "renew" => self.renew().await,
            "mark" => self.mark().await,
            "lose" => self.lose().await,
            "die" => self.die().await,
            "steer" => self.steer().await,
            "expire" => self.expire().await,
            "move" => self.move_batch().await,
            "reprocess" => self.reprocess().await,
            "try now" => self.try_now().await,
            "close" => self.close().await,
            _ => self.create().await,
        }
    }

    async fn compare(&self) {
        for id in self.model.batches.keys() {
            let rows = self.world.store().verify(*id).await.expect("an audit is made");
            self.model.compare(*id, &rows, &self.story);
            let shown = batch(self.world.store(), *id).await;
            assert_eq!(shown.generation, self.model.batches[id].generation, "{}", self.story);
        }
        let shown = self.model.batches.keys().nth(self.step % self.model.batches.len());
        self.compare_rows(*shown.expect("there are that many")).await;
    }

    /// The page of rows says of every line what the rows themselves say, both ways.
    async fn compare_rows(&self, id: BatchId) {
        let store = self.world.store();
        let rows = store.verify(id).await.expect("an audit is made");
        let mut expected = BTreeMap::new();
        for lane in &rows.lanes {
            let mut put = |set: &LineSet, standing| {
                expected.extend(set.iter().map(|seq| ((lane.lane, seq), standing)));
            };
            put(&LineSet::span(lane.cursor, lane.counts.untouched), Ok(Place::Untouched));
            lane.returned.iter().for_each(|set| put(set, Ok(Place::Returned)));
            lane.leased.iter().for_each(|set| put(set, Ok(Place::Leased)));
            let by_status = Status::ALL.into_iter().zip(&lane.finished);
            by_status.for_each(|(status, set)| put(set, Err(status)));
        }
        let mut pages = Vec::new();
        for backward in [false, true] {
            let query = RowsQuery { backward, ..RowsQuery::of(id, 1000) };
            pages.push(store.rows(&Scope::All, query).await.expect("a page comes").rows);
        }
        pages[1].reverse();
        assert_eq!(pages[0], pages[1], "{}", self.story);
        assert!(pages[0].is_sorted_by(|a, b| a.line < b.line), "{}", self.story);
        let standing = |row: &BatchRow| match (row.place, &row.result) {
            (Some(place), None) => Ok(place),
            (None, Some(result)) => Err(result.result.status),
            other => panic!("{}: {other:?}", self.story),
        };
        let shown = pages[0].iter().map(|row| ((row.lane, row.seq), standing(row)));
        assert_eq!(shown.collect::<BTreeMap<_, _>>(), expected, "{}", self.story);
    }

    async fn create(&mut self) {
        let running = |state: State| !state.is_closed();
        if self.model.batches.values().filter(|batch| running(batch.state)).count() >= 4 {
            return;
        }
        let names: Vec<_> = self.targets.iter().map(|target| target.as_str()).collect();
        let sheet = Sheet::of("ada").rounds(&names, LINES_PER_LANE);
        let file = sheet.seal(self.world.store()).await;
        let window_secs = self.dice.percent(50).then(|| 60 + self.dice.below(600));
        // Two runs over one file, now and then.
        for _ in 0..=self.dice.below(2) {
            let upstream = self.any_upstream();
            let upstreams = upstream.clone().into();
            let recipe = (self.model.batches.len() % 2 == 1).then(|| "[columns]".to_owned());
            let new = NewBatch { window_secs, upstreams, recipe, ..run_over(file, "ada") };
            let made = self.world.store().create_batch(new).await.expect("a batch is created");
            self.model.create(made.id, &self.targets, LINES_PER_LANE, made.deadline, &upstream);
        }
    }

    fn outcomes(&mut self, tranche: &Tranche) -> Outcomes {
        let mut outcomes = Outcomes::of(tranche.lease.held.clone());
        for line in &tranche.lines {
            let one = |seq| seq == line.seq;
            match self.dice.below(10) {
                0 | 1 => {}
                2 => drop(outcomes.released.insert(line.seq)),
                3 | 4 => {
                    let at = later(self.world, self.dice.below(5000));
                    outcomes.again.extend(again_some(tranche, at, one).again);
                }
                _ => {
                    let status = self.dice.pick(&Status::ALL).expect("four");
                    outcomes.finished.extend(finished_some(tranche, status, one).finished);
                }
            }
        }
        outcomes
    }

    async fn turn(&mut self) {
        let instance = self.dice.pick(&self.instances).expect("two");
        let mine: Vec<_> = self
            .held
            .iter()
            .filter(|tranche| tranche.lease.instance == instance)
            .cloned()
            .collect();
        let mut named = mine;
        self.dice.shuffle(&mut named);
        named.truncate(usize::try_from(self.dice.below(4)).expect("small"));
        let outcomes: Vec<_> = named.iter().map(|tranche| self.outcomes(tranche)).collect();
        let lines_max = u32::try_from(self.dice.below(12) + 1).expect("small");
        let claim = self.dice.percent(80).then(|| self.request(instance, lines_max));
        let turn = Turn { instance, outcomes, claim };
        self.play(turn).await;
    }

    /// Mostly one of the two that instances serve, now and then none.
    fn any_upstream(&mut self) -> UpstreamId {
        match self.dice.below(5) {
            0 => UpstreamId::unknown(),
            1 | 2 => upstream("b"),
            _ => UpstreamId::own(),
        }
    }

    /// What an instance asks for: the first one serves the program's own executor, the second another
    /// upstream; now and then each the other's.
    fn request(&mut self, instance: InstanceId, lines_max: u32) -> Request {
        let is_first = (instance == self.instances[0]) != self.dice.percent(10);
        let served = if is_first { UpstreamId::own() } else { upstream("b") };
        let route = |target: &Target| Route::new(served.clone(), target.clone());
        let mut routes: Vec<_> = self.targets.iter().map(route).collect();
        if self.dice.percent(30) {
            routes.truncate(1);
        }
        let (lease, binds) = (LeaseId::new(), self.dice.percent(50));
        Request { lease, routes, binds, only: None, lines_max, lease_ms: 20_000 }
    }

    async fn move_batch(&mut self) {
        let (id, to) = (self.any_batch(), self.any_upstream());
        let entry = NewAuditEntry {
            id: AuditEntryId::new(),
            actor: "the walk".to_owned(),
            address: None,
            action: format!("move to {to}"),
        };
        let outcome = self.world.store().move_batch(&Scope::All, id, to.clone(), entry).await;
        if to.is_unknown() {
            assert_eq!(kind(outcome), Kind::Invalid, "{}", self.story);
            return;
        }
        self.model.moved(id, &to);
        assert_eq!(outcome.expect("a batch is moved").upstreams, [to], "{}", self.story);
    }

    /// Sends a turn, judges the reply by the model, and now and then sends it again.
    async fn play(&mut self, turn: Turn) {
        let store = self.world.store();
        let now = now(self.world);
        let reply = store.turn(turn.clone()).await.expect("a turn is answered");
        assert_eq!(reply.folds.len(), turn.outcomes.len());
        let mut touched = BTreeSet::new();
        for (outcomes, fold) in turn.outcomes.iter().zip(&reply.folds) {
            let id = outcomes.held.id;
            touched.extend(self.model.leases.get(&id).map(|lease| lease.batch));
            let expected = self.model.record(outcomes, now);
            match (expected, fold) {
                (None, Fold::Lost { lease }) => assert_eq!(*lease, id),
                (Some((missed, remaining)), Fold::Kept { lease, held, ignored }) => {
                    assert_eq!((*lease, ignored), (id, &missed), "{}", self.story);
                    let left = held.as_ref().map(|held| held.outstanding.clone());
                    assert_eq!(left.unwrap_or_default(), remaining, "{}", self.story);
                }
                (expected, fold) => panic!("{}: {expected:?}, not {fold:?}", self.story),
            }
            self.follow(id, fold);
        }
        let settled: BTreeSet<_> =
            touched.into_iter().filter(|id| self.model.settle(*id)).collect();
        let reported: BTreeSet<_> = reply.finalizing.iter().copied().collect();
        assert_eq!(
            (reported.len(), &reported),
            (reply.finalizing.len(), &settled),
            "{}",
            self.story
        );
        if let Some(request) = &turn.claim {
            match &reply.claimed {
                Some(tranche) => {
                    self.model.granted(tranche, request, now);
                    self.held.push(tranche.clone());
                }
                None => self.model.nothing_to_claim(request, now),
            }
        }
        if self.dice.percent(15) && (turn.claim.is_none() || reply.claimed.is_some()) {
            let again = store.turn(turn).await.expect("a repeat is answered");
            assert!(again.finalizing.is_empty(), "{}", self.story);
            let lines = |tranche: &Option<Tranche>| tranche.clone().map(|tranche| tranche.lines);
            assert_eq!(lines(&again.claimed), lines(&reply.claimed), "{}", self.story);
        }
    }

    /// Brings what the walker holds up to date, and keeps the old proof to misuse it later.
    fn follow(&mut self, id: LeaseId, fold: &Fold) {
        let Some(at) = self.held.iter().position(|tranche| tranche.lease.held.id == id) else {
            return;
        };
        self.ghosts.push(self.held[at].clone());
        match fold {
            Fold::Kept { held: Some(held), .. } => {
                let tranche = &mut self.held[at];
                tranche.lines.retain(|line| held.outstanding.contains(line.seq));
                tranche.lease.held = held.clone();
            }
            Fold::Kept { held: None, .. } | Fold::Lost { .. } => drop(self.held.remove(at)),
        }
    }

    async fn ghost(&mut self) {
        let Some(ghost) = self.dice.pick(&self.ghosts) else { return };
        let outcomes = vec![self.outcomes(&ghost)];
        self.play(Turn { instance: ghost.lease.instance, outcomes, claim: None }).await;
    }

    /// Lets go of a lease in the walker's books.
    fn bury(&mut self, id: LeaseId) {
        let (gone, held) = self.held.drain(..).partition(|tranche| tranche.lease.held.id == id);
        self.held = held;
        self.ghosts.extend::<Vec<Tranche>>(gone);
    }

    async fn release(&mut self) {
        let Some(tranche) = self.dice.pick(&self.held) else { return };
        let (id, instance) = (tranche.lease.held.id, tranche.lease.instance);
        let went = self.world.store().release_leases(instance, vec![id]).await.unwrap();
        let (lines, batch) = self.model.release(id, now(self.world)).expect("a living lease");
        assert_eq!(went, lines, "{}", self.story);
        self.model.settle(batch);
        self.bury(id);
    }

    async fn renew(&mut self) {
        let instance = self.dice.pick(&self.instances).expect("two");
        let mine = self.held.iter().filter(|tranche| tranche.lease.instance == instance);
        let (mut known, mut forgotten) = (Vec::new(), Vec::new());
        for tranche in mine {
            let forget = self.dice.percent(20);
            if forget { &mut forgotten } else { &mut known }.push(tranche.lease.held.id);
        }
        let store = self.world.store();
        let said = store.extend_leases(instance, known.clone(), 20_000).await.unwrap();
        let sorted = |mut ids: Vec<LeaseId>| {
            ids.sort();
            ids
        };
        assert_eq!(sorted(said.extended), sorted(known.clone()), "{}", self.story);
        assert_eq!(sorted(said.released), sorted(forgotten.clone()), "{}", self.story);
        assert!(said.lost.is_empty(), "{}", self.story);
        let until = later(self.world, 20_000);
        for id in known {
            self.model.leases.get_mut(&id).expect("living").expires_at = until;
        }
        for id in forgotten {
            let (_, batch) = self.model.release(id, now(self.world)).expect("living");
            self.model.settle(batch);
            self.bury(id);
        }
    }

    /// Marks a lease, of a single line where there is one; a proof from earlier marks nothing.
    async fn mark(&mut self) {
        let is_single = |tranche: &&Tranche| tranche.lease.held.outstanding.len() == 1;
        let single: Vec<Tranche> = self.held.iter().filter(is_single).cloned().collect();
        let from = if single.is_empty() { &self.held } else { &single };
        if let Some(tranche) = self.dice.pick(from) {
            let (held, instance) = (&tranche.lease.held, tranche.lease.instance);
            let store = self.world.store();
            let marked = store.mark_alone(instance, held.id, held.token).await.unwrap();
            assert_eq!(marked, self.model.mark(held.id), "{}", self.story);
        }
        let Some(ghost) = self.dice.pick(&self.ghosts) else { return };
        if self.model.leases.contains_key(&ghost.lease.held.id) {
            return;
        }
        let (held, instance) = (&ghost.lease.held, ghost.lease.instance);
        let marked = self.world.store().mark_alone(instance, held.id, held.token).await;
        assert!(!marked.unwrap(), "{}", self.story);
    }

    async fn lose(&mut self) {
        pass(self.world, self.dice.below(15_000));
        let now = now(self.world);
        let lost = self.world.store().return_lost(1000, CRASHES_MAX).await.unwrap();
        let late = self.model.leases.iter().filter(|(_, lease)| lease.expires_at <= now);
        let dead: Vec<_> = late.map(|(id, _)| *id).collect();
        let (leases, returned, failed, touched) = self.model.lose(now, CRASHES_MAX);
        assert_eq!((lost.leases, lost.returned, lost.failed), (leases, returned, failed));
        let settled: BTreeSet<_> =
            touched.into_iter().filter(|id| self.model.settle(*id)).collect();
        let reported: BTreeSet<_> = lost.finalizing.into_iter().collect();
        assert_eq!(reported, settled, "{}", self.story);
        dead.into_iter().for_each(|id| self.bury(id));
    }

    /// One of the two is buried: its leases are lost before their time. Another one comes in its place.
    async fn die(&mut self) {
        let dead = self.dice.pick(&self.instances).expect("two");
        assert!(self.world.store().bury(dead, Evidence::LockGot).await.unwrap());
        let now = now(self.world);
        for tranche in self.held.iter().filter(|tranche| tranche.lease.instance == dead) {
            let lease = self.model.leases.get_mut(&tranche.lease.held.id);
            lease.expect("a living lease").expires_at = now;
        }
        let next = join(self.world).await;
        self.instances = self.instances.map(|one| if one == dead { next } else { one });
        self.lose().await;
    }

    fn any_batch(&mut self) -> BatchId {
        let ids: Vec<_> = self.model.batches.keys().copied().collect();
        self.dice.pick(&ids).expect("the walk begins with a batch")
    }

    async fn steer(&mut self) {
        let (id, all, store) = (self.any_batch(), Scope::All, self.world.store());
        let mut window_secs = None;
        let (event, outcome) = match self.dice.below(20) {
            0..7 => (Event::Paused, store.pause_batch(&all, id, None).await),
            7..19 => {
                window_secs = self.dice.percent(30).then(|| 60 + self.dice.below(600));
                (Event::Resumed, store.resume_batch(&all, id, window_secs).await)
            }
            _ => (Event::Cancelled, store.cancel_batch(&all, id).await),
        };
        let allowed = self.model.steer(id, event);
        match outcome {
            Ok(shown) => {
                assert!(allowed, "{}: {event:?}", self.story);
                if let Some(secs) = window_secs {
                    let deadline = later(self.world, secs * 1000);
                    self.model.batches.get_mut(&id).expect("it was picked").deadline =
                        Some(deadline);
                }
                let model = &self.model.batches[&id];
                assert_eq!(
                    (shown.state, shown.deadline),
                    (model.state, model.deadline),
                    "{}",
                    self.story
                );
            }
            Err(error) => {
                assert!(!allowed && error.kind == Kind::Refused, "{}: {event:?}", self.story);
            }
        }
    }

    async fn expire(&mut self) {
        let now = now(self.world);
        let expired = self.world.store().expire_batches(1000).await.unwrap();
        let mut expected = BTreeSet::new();
        let ids: Vec<_> = self.model.batches.keys().copied().collect();
        for id in ids {
            let batch = &self.model.batches[&id];
            let open = matches!(batch.state, State::InProgress | State::Paused);
            if open && batch.deadline.is_some_and(|deadline| deadline <= now) {
                self.model.steer(id, Event::DeadlinePassed);
                expected.insert(id);
            }
        }
        assert_eq!(expired.into_iter().collect::<BTreeSet<_>>(), expected, "{}", self.story);
    }

    async fn reprocess(&mut self) {
        let id = self.any_batch();
        let statuses = vec![self.dice.pick(&Status::ALL).expect("four"), Status::Failed];
        let lines_max = u32::try_from(self.dice.below(20) + 1).expect("small");
        let select = Select::Statuses(statuses.clone());
        let reset_attempts = self.dice.percent(70);
        let step = Reprocess { lines_max, reset_attempts, ..Reprocess::first(id, select) };
        let outcome = self.world.store().reprocess(&Scope::All, step.clone()).await;
        match (self.model.reprocess(&step, &statuses, now(self.world)), outcome) {
            (Some(moved), Ok(done)) => {
                let generation = self.model.batches[&id].generation;
                assert_eq!((done.moved, done.generation), (moved, generation), "{}", self.story);
            }
            (None, Err(error)) => assert_eq!(error.kind, Kind::Refused, "{}", self.story),
            other => panic!("{}: {other:?}", self.story),
        }
    }

    /// Some lines of a batch, anywhere: those that wait are due, those that are held are counted.
    async fn try_now(&mut self) {
        let id = self.any_batch();
        let total = self.targets.len() as u64 * LINES_PER_LANE;
        let from = self.dice.below(total) + 1;
        let lines = LineSet::range(from, from + self.dice.below(total));
        let lines = lines.union(&LineSet::range(1, self.dice.below(4) + 1));
        let tried = self.world.store().try_now(&Scope::All, id, lines.clone()).await.unwrap();
        let (due, leased) = self.model.try_now(id, &lines, now(self.world));
        assert_eq!((tried.due, tried.leased), (due, leased), "{}", self.story);
        let again = self.world.store().try_now(&Scope::All, id, lines).await.unwrap();
        assert_eq!((again.due, again.leased), (0, leased), "{}: a repeat", self.story);
    }

    async fn close(&mut self) {
        let waits = |state: State| matches!(state, State::Finalizing(_));
        let waiting: BTreeSet<_> = self
            .model
            .batches
            .iter()
            .filter(|(_, batch)| waits(batch.state))
            .map(|(id, _)| *id)
            .collect();
        let found = self.world.store().find_unclosed(1000).await.unwrap();
        assert_eq!(found.iter().copied().collect::<BTreeSet<_>>(), waiting, "{}", self.story);
        let Some(id) = self.dice.pick(&found) else { return };
        let worker = Worker::on(self.world.store());
        let closed = worker.close(id).await;
        assert!(self.model.steer(id, Event::Closed), "{}", self.story);
        assert_eq!(closed.state, self.model.batches[&id].state, "{}", self.story);
    }
}
