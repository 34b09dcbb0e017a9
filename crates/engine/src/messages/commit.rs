//! Committing: the effects of many messages in one transaction.
//!
//! Holds throughout: one message's conflict fails that message and no other; a commit that was refused
//! because something was locked did nothing, and is no try of anybody; when nobody knows what a commit
//! did, nothing is assumed: its streams are read again, and what is gone was committed.

use std::collections::BTreeSet;
use std::sync::Arc;

use windrow_domain::attempt::{Class, Failure};
use windrow_domain::{InstanceId, PartitionNo};
use windrow_store::message::{Commit, Committed, SEND_BYTES_MAX, SEND_MAX};
use windrow_store::partition::Fence;
use windrow_store::{Error, Kind, MessageStore};

use windrow_store::error::chain;

use super::entry::{End, Entry, Judge, OURSELVES};
use super::gauges::{Counters, count};

/// What became of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is committed; there are new messages in these partitions.
    Committed(Vec<PartitionNo>),
    /// Its message is not there any more: somebody committed it before.
    Gone,
    /// Its partition, or another one of the same commit, is not ours any more. Nothing happened.
    Lost,
    /// Something was locked, or transactions collided: nothing happened, and the same may be committed
    /// again. Whether it was alone, so that it is its own doing.
    Busy { alone: bool },
    /// Nobody knows.
    Unknown,
}

/// Entries that are committed together.
pub(super) struct Committer {
    pub(super) store: Arc<dyn MessageStore>,
    pub(super) judge: Judge,
    pub(super) counters: Arc<Counters>,
}

impl Committer {
    /// Commits entries of different streams; gives what became of each.
    pub(super) async fn settle(
        &self,
        instance: InstanceId,
        entries: Vec<Entry>,
    ) -> Vec<(Entry, Verdict)> {
        let mut settled = Vec::with_capacity(entries.len());
        let mut groups = vec![entries];
        while let Some(mut group) = groups.pop() {
            let error = match self.store.commit(merged(instance, &group)).await {
                Ok(committed) => {
                    count(&self.counters.commits);
                    accept(&mut settled, group, &committed);
                    continue;
                }
                Err(error) => error,
            };
            let is_last = group.iter().all(|entry| entry.is_failure || entry.end == End::Marked);
            match (error.kind, group.len()) {
                (Kind::LeaseLost | Kind::Missing, _) => {
                    let told = chain(&error);
                    tracing::warn!(error = %told, "a commit came too late: the partition is lost");
                    settled.extend(group.into_iter().map(|entry| (entry, Verdict::Lost)));
                }
                (kind, 2..) if is_somebodys(kind) => {
                    count(&self.counters.conflicts);
                    // Halves, so that one culprit among many costs few commits.
                    let other = group.split_off(group.len() / 2);
                    groups.extend([other, group]);
                }
                (kind, _) if is_somebodys(kind) && !is_last => {
                    let failed = group.into_iter().map(|entry| self.conflicted(entry, &error));
                    groups.push(failed.collect());
                }
                // When the record of a failure conflicts, too, its message is gone.
                (Kind::Conflict | Kind::Invalid, _) => {
                    settled.extend(group.into_iter().map(|entry| (entry, Verdict::Gone)));
                }
                // The database answered, so it undid everything. Were it mistaken, the commit would be
                // refused the next time, since its messages are counted.
                (Kind::Busy, many) => {
                    count(&self.counters.conflicts);
                    tracing::debug!(error = %chain(&error), many, "a commit was refused");
                    let verdict = Verdict::Busy { alone: many == 1 };
                    settled.extend(group.into_iter().map(|entry| (entry, verdict.clone())));
                }
                _ => {
                    count(&self.counters.commits_unknown);
                    tracing::warn!(error = %chain(&error), "nobody knows what a commit did");
                    let rest = group.into_iter().chain(groups.drain(..).flatten());
                    settled.extend(rest.map(|entry| (entry, Verdict::Unknown)));
                }
            }
        }
        settled
    }

    /// An entry that conflicts alone becomes a failed try.
    pub(super) fn conflicted(&self, entry: Entry, error: &Error) -> Entry {
        let class = match error.kind {
            Kind::Invalid | Kind::Limited => Class::Permanent,
            _ => Class::Server,
        };
        let message = match error.version_conflict() {
            Some(versions) => format!("version conflict: {versions}"),
            None => format!("what it gave could not be committed: {}", chain(error)),
        };
        let failure = Failure::new(class, "conflict", message);
        self.judge.failed(entry.task, OURSELVES, &failure)
    }
}

/// Whether what went wrong is one message's doing, and nothing happened.
pub(super) fn is_somebodys(kind: Kind) -> bool {
    match kind {
        Kind::Conflict | Kind::Invalid | Kind::Limited | Kind::Corrupt => true,
        Kind::Missing | Kind::LeaseLost | Kind::Refused => false,
        Kind::Contended | Kind::Busy | Kind::Unavailable => false,
    }
}

fn accept(settled: &mut Vec<(Entry, Verdict)>, group: Vec<Entry>, committed: &Committed) {
    let mut sent = committed.sent.iter();
    // Whose calls these are does not matter: they are only looked for.
    let mut submitted: Vec<PartitionNo> =
        committed.submitted.iter().map(|at| at.partition).collect();
    for entry in group {
        let own = sent.by_ref().take(entry.effect.messages.len());
        let partitions = own.filter(|sent| !sent.is_duplicate).map(|sent| sent.at.partition);
        let partitions = partitions.chain(submitted.drain(..)).collect();
        settled.push((entry, Verdict::Committed(partitions)));
    }
}

/// The partitions in which a commit of one entry left something new.
pub(super) fn new_partitions(committed: &Committed) -> Vec<PartitionNo> {
    let sent = committed.sent.iter().filter(|sent| !sent.is_duplicate).map(|sent| sent.at);
    sent.chain(committed.submitted.iter().copied()).map(|at| at.partition).collect()
}

/// One commit for all of them.
pub(super) fn merged(instance: InstanceId, group: &[Entry]) -> Commit {
    let mut commit = Commit::new(instance);
    let fences: BTreeSet<Fence> =
        group.iter().flat_map(|entry| &entry.effect.fences).copied().collect();
    commit.fences.extend(fences);
    for entry in group {
        let effect = entry.effect.clone();
        commit.started.extend(effect.started);
        commit.done.extend(effect.done);
        commit.failed.extend(effect.failed);
        commit.dead.extend(effect.dead);
        commit.calls.extend(effect.calls);
        commit.states.extend(effect.states);
        commit.events.extend(effect.events);
        commit.messages.extend(effect.messages);
        commit.submits.extend(effect.submits);
    }
    commit
}

/// How much of a commit an entry takes up.
#[derive(Clone, Copy, Default)]
struct Weight {
    messages: usize,
    events: usize,
    submits: usize,
    message_bytes: usize,
    event_bytes: usize,
    answer_bytes: usize,
}

impl Weight {
    fn of(entry: &Entry) -> Self {
        let effect = &entry.effect;
        let events = || effect.events.iter().flat_map(|append| &append.events);
        let states = effect.states.iter().filter_map(|put| put.state.as_ref());
        let reply = entry.answer().map_or(0, |result| match &result.answer {
            windrow_store::call::Answer::Reply(reply) => reply.len(),
            windrow_store::call::Answer::Error(error) => error.len(),
        });
        Self {
            messages: effect.messages.len(),
            events: events().count(),
            submits: effect.submits.len(),
            message_bytes: effect.messages.iter().map(|message| message.payload.len()).sum(),
            event_bytes: events().map(|event| event.payload.len()).sum(),
            answer_bytes: reply
                + states.map(bytes::Bytes::len).sum::<usize>()
                + effect.submits.iter().map(|call| call.args.len()).sum::<usize>(),
        }
    }

    fn add(&mut self, more: Self) {
        self.messages += more.messages;
        self.events += more.events;
        self.submits += more.submits;
        self.message_bytes += more.message_bytes;
        self.event_bytes += more.event_bytes;
        self.answer_bytes += more.answer_bytes;
    }

    fn fits(&self) -> bool {
        let bytes = [self.message_bytes, self.event_bytes, self.answer_bytes];
        self.messages <= SEND_MAX
            && self.events <= SEND_MAX
            && self.submits <= SEND_MAX
            && bytes.into_iter().all(|bytes| bytes <= SEND_BYTES_MAX)
    }
}

/// How many of these, from the first on, fit in one commit; at least one.
pub(super) fn fitting<'a>(entries: impl Iterator<Item = &'a Entry>, max: usize) -> usize {
    let mut weight = Weight::default();
    let fitting = entries.take(max).take_while(|entry| {
        weight.add(Weight::of(entry));
        weight.fits()
    });
    fitting.count().max(1)
}
