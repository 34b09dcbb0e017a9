//! Random walks: hundreds of seeded operations of two instances, each compared with a small model of
//! the streams.
//!
//! Holds throughout: order in every stream, no loss, one effect for each message, epochs that only rise,
//! and nothing for whoever comes with an old one.

use std::collections::BTreeMap;

use jiff::Timestamp;
use windrow_domain::{DeadLetterId, Expected, PartitionNo, Queue};
use windrow_store::error::Kind;
use windrow_store::message::{Commit, Message, MessageRef, NewMessage, Read};
use windrow_store::partition::Fence;
use windrow_store::{Events, Members, Messages, Partitions, Scope};

use super::MessageWorld;
use super::fixture::*;

const STEPS: u32 = 250;
const STREAMS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// A walk agrees with the model at every step: seed one.
pub async fn a_walk_of_streams_agrees_with_the_model_seed_one(world: &impl MessageWorld) {
    walk(world, 1).await;
}

/// A walk agrees with the model at every step: seed two.
pub async fn a_walk_of_streams_agrees_with_the_model_seed_two(world: &impl MessageWorld) {
    walk(world, 2).await;
}

/// A walk agrees with the model at every step: seed three.
pub async fn a_walk_of_streams_agrees_with_the_model_seed_three(world: &impl MessageWorld) {
    walk(world, 3).await;
}

async fn walk<W: MessageWorld>(world: &W, seed: u64) {
    world.store().set_up(setup()).await.unwrap();
    let runners = [Runner::join(world.store()).await, Runner::join(&world.another().await).await];
    let mut walker = Walker {
        world,
        dice: Dice::seeded(seed),
        runners,
        ghosts: Vec::new(),
        model: Model::default(),
        letters: Vec::new(),
        sent: 0,
        story: String::new(),
    };
    for step in 0..STEPS {
        walker.story = format!("seed {seed}, step {step}");
        walker.step().await;
        walker.compare().await;
    }
}

/// A message as the model knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    id: String,
    attempts: u32,
    not_before: Option<Timestamp>,
}

/// What must be true: streams by queue and name, epochs and owners by partition, effects by stream.
#[derive(Debug, Default)]
struct Model {
    streams: BTreeMap<(Queue, String), Vec<Known>>,
    /// Epoch, and which of the two instances, if it is one of them.
    partitions: BTreeMap<PartitionNo, (u64, Option<usize>)>,
    effects: BTreeMap<String, Vec<String>>,
}

impl Model {
    fn of(&mut self, message: &Message) -> &mut Vec<Known> {
        let key = (message.queue, message.stream.to_string());
        self.streams.get_mut(&key).expect("the stream is known")
    }

    fn end(&mut self, message: &Message) {
        self.of(message).retain(|known| known.id != message.id);
    }

    /// The ids that a reader of these partitions may have, by stream.
    fn due(
        &self,
        now: Timestamp,
        is_own: impl Fn(&str) -> bool,
    ) -> BTreeMap<(Queue, String), Vec<String>> {
        let is_due = |known: &Known| known.not_before.is_none_or(|at| at <= now);
        let due = self
            .streams
            .iter()
            .filter(|((_, name), messages)| is_own(name) && messages.first().is_some_and(is_due));
        due.map(|(key, messages)| {
            (key.clone(), messages.iter().map(|known| known.id.clone()).collect())
        })
        .collect()
    }
}

struct Walker<'a, W: MessageWorld> {
    world: &'a W,
    dice: Dice,
    runners: [Runner<W::Store>; 2],
    /// Instances that were tombstoned, or lost partitions, as they were then.
    ghosts: Vec<Runner<W::Store>>,
    model: Model,
    letters: Vec<(DeadLetterId, Message)>,
    sent: u64,
    story: String,
}

impl<W: MessageWorld> Walker<'_, W> {
    async fn step(&mut self) {
        let who = usize::from(self.dice.percent(50));
        match self.dice.below(100) {
            0..25 => self.send().await,
            25..55 => self.work(who).await,
            55..70 => self.take(who).await,
            70..78 => self.release(who).await,
            78..82 => self.kill(who).await,
            82..90 => self.haunt().await,
            90..94 => self.replay().await,
            _ => pass(self.world, self.dice.below(2000)),
        }
    }

    /// Sends new messages, and now and then one again.
    async fn send(&mut self) {
        let mut messages = Vec::new();
        for _ in 0..=self.dice.below(4) {
            let name = self.dice.pick(&STREAMS).expect("there are streams");
            self.sent += 1;
            let id = format!("{:05}-{name}", 99_999 - self.sent);
            let not_before =
                self.dice.percent(15).then(|| later(self.world, self.dice.below(1500)));
            let new = if self.dice.percent(50) { inbox(name, &id) } else { outbox(name, &id) };
            messages.push(NewMessage { not_before, dedupe: true, ..new });
        }
        let sent = send_all(&self.runners[0].store, messages.clone()).await;
        assert!(sent.iter().all(|sent| !sent.is_duplicate), "{}", self.story);
        for new in &messages {
            let known = Known { id: new.id.clone(), attempts: 0, not_before: new.not_before };
            self.model.streams.entry((new.queue, new.stream.to_string())).or_default().push(known);
        }
        if self.dice.percent(30) {
            let again = send_all(&self.runners[1].store, messages).await;
            assert!(again.iter().all(|sent| sent.is_duplicate), "{}", self.story);
            assert!(again.iter().zip(&sent).all(|(again, first)| again.at == first.at));
        }
    }

    /// Reads, checks what came, and ends some heads in one way or another.
    async fn work(&mut self, who: usize) {
        let runner = self.runners[who].clone();
        let work = runner.work_of(Read { stream_messages_max: 1000, ..runner.read() }).await;
        let lost: Vec<_> =
            runner.partitions().into_iter().filter(|no| self.owner_of(*no) != Some(who)).collect();
        assert_eq!(work.lost, lost, "{}", self.story);
        let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for message in &work.messages {
            let key = (message.queue, message.stream.to_string());
            found.entry(key).or_default().push(message.id.clone());
        }
        let is_own = |name: &str| self.owner_of(partition(name)) == Some(who);
        assert_eq!(found, self.model.due(now(self.world), is_own), "{}", self.story);
        if !lost.is_empty() {
            self.ghosts.push(runner);
            self.runners[who].fences.retain(|fence| !lost.contains(&fence.partition));
            return;
        }
        let mut heads: BTreeMap<(Queue, String), Message> = BTreeMap::new();
        for message in work.messages {
            heads.entry((message.queue, message.stream.to_string())).or_insert(message);
        }
        let mut commit = self.runners[who].effects();
        for head in heads.into_values() {
            self.decide(head, &mut commit);
        }
        self.runners[who].store.commit(commit).await.expect("its own work counts");
    }

    fn decide(&mut self, head: Message, commit: &mut Commit) {
        match self.dice.below(10) {
            0..5 => {
                commit.done.push(done(head.at));
                let name = head.stream.to_string();
                commit.events.push(append(&name, Expected::Any, &[&head.id]));
                self.model.effects.entry(name).or_default().push(head.id.clone());
                self.model.end(&head);
            }
            5..7 => {
                let not_before = later(self.world, self.dice.below(1000));
                commit.failed.push(failed(head.at, "no", not_before));
                let known = &mut self.model.of(&head)[0];
                assert_eq!(known.id, head.id);
                known.attempts += 1;
                known.not_before = Some(not_before);
            }
            7 => {
                let letter = dead(head.at, "gave up");
                self.letters.push((letter.id, head.clone()));
                commit.dead.push(letter);
                self.model.end(&head);
            }
            _ => {}
        }
    }

    fn owner_of(&self, no: PartitionNo) -> Option<usize> {
        self.model.partitions.get(&no).and_then(|(_, who)| *who)
    }

    async fn take(&mut self, who: usize) {
        let mut wanted = all();
        self.dice.shuffle(&mut wanted);
        wanted.truncate(4);
        let expected: Vec<_> = sorted(wanted.iter().copied())
            .into_iter()
            .filter(|no| self.owner_of(*no).is_none_or(|owner| owner == who))
            .collect();
        let taken = self.runners[who].take(&wanted).await;
        let got: Vec<_> = taken.iter().map(|taken| taken.fence.partition).collect();
        assert_eq!(got, expected, "{}", self.story);
        for Fence { partition, epoch } in taken.iter().map(|taken| taken.fence) {
            let known = self.model.partitions.entry(partition).or_default();
            let is_own = known.1 == Some(who);
            assert_eq!(epoch, known.0 + u64::from(!is_own), "{}", self.story);
            *known = (epoch, Some(who));
        }
    }

    /// Gives some back, and goes on believing that it has them, until it reads.
    async fn release(&mut self, who: usize) {
        let runner = &self.runners[who];
        let some: Vec<_> =
            runner.fences.iter().copied().filter(|_| self.dice.percent(40)).collect();
        let own = some.iter().filter(|fence| {
            self.model.partitions.get(&fence.partition) == Some(&(fence.epoch, Some(who)))
        });
        let expected = own.count() as u64;
        let freed = runner.store.release_partitions(runner.instance, &some).await.unwrap();
        assert_eq!(freed, expected, "{}", self.story);
        for fence in some {
            let known = self.model.partitions.entry(fence.partition).or_default();
            if *known == (fence.epoch, Some(who)) {
                known.1 = None;
            }
        }
    }

    async fn kill(&mut self, who: usize) {
        let store = self.runners[who].store.clone();
        store.tombstone(self.runners[who].instance).await.unwrap();
        let fresh = Runner::join(&store).await;
        self.ghosts.push(std::mem::replace(&mut self.runners[who], fresh));
        for known in self.model.partitions.values_mut().filter(|known| known.1 == Some(who)) {
            known.1 = None;
        }
    }

    /// Somebody of old tries to end everything.
    async fn haunt(&mut self) {
        let Some(ghost) = self.dice.pick(&self.ghosts) else { return };
        let places: Vec<MessageRef> =
            waiting(self.world.store()).await.iter().map(|message| message.at).collect();
        let fenced = ghost.partitions();
        let own: Vec<_> = places.into_iter().filter(|at| fenced.contains(&at.partition)).collect();
        if own.is_empty() {
            return;
        }
        assert_eq!(kind(ghost.store.commit(ghost.ending(&own)).await), Kind::LeaseLost);
    }

    async fn replay(&mut self) {
        let Some((id, message)) = self.letters.pop() else { return };
        let sent = self.world.store().replay_dead(&scope(ADA), &[id]).await.unwrap();
        assert_eq!(sent[0].at.partition, message.at.partition);
        let known = Known { id: message.id.clone(), attempts: 0, not_before: None };
        self.model.of(&message).push(known);
    }

    async fn compare(&self) {
        let store = self.world.store();
        let mut found: BTreeMap<(Queue, String), Vec<Known>> = BTreeMap::new();
        for message in waiting(store).await {
            let Message { id, attempts, not_before, .. } = message;
            let key = (message.queue, message.stream.to_string());
            found.entry(key).or_default().push(Known { id, attempts, not_before });
        }
        let mut expected = self.model.streams.clone();
        expected.retain(|_, messages| !messages.is_empty());
        assert_eq!(found, expected, "{}", self.story);
        for partition in store.partitions().await.unwrap() {
            let (epoch, owner) =
                self.model.partitions.get(&partition.no).copied().unwrap_or_default();
            assert_eq!(partition.epoch, epoch, "{}", self.story);
            let live = partition.instance.filter(|_| partition.is_owner_live);
            assert_eq!(live, owner.map(|who| self.runners[who].instance), "{}", self.story);
        }
        for (name, ids) in &self.model.effects {
            let last = version(store, name).await;
            assert_eq!(last, ids.len() as u64, "{}", self.story);
            let from = last.saturating_sub(20).max(1);
            let events = store.read_stream(&ada(), &stream(name), from, 50).await.unwrap();
            let tail: Vec<_> = events.into_iter().map(|event| event.id).collect();
            assert!(ids.ends_with(&tail), "{}: {tail:?}", self.story);
        }
        let letters = store.dead_letters(&Scope::All, query(1000)).await.unwrap().rows;
        let listed = sorted(letters.iter().map(|letter| letter.id));
        assert_eq!(listed, sorted(self.letters.iter().map(|(id, _)| *id)), "{}", self.story);
    }
}

fn partition(name: &str) -> PartitionNo {
    windrow_domain::partition::partition_of(&ada(), &stream(name), PARTITIONS)
}
