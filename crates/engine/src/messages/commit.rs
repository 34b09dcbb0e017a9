//! Committing: the effects of many messages in one transaction.
//!
//! Holds throughout: one message's conflict fails that message and no other; a commit that was refused
//! because something was locked did nothing, and counts as no attempt; when the result of a commit is
//! unknown, nothing is assumed: its streams are read again, and what is gone was committed.

use std::collections::BTreeSet;
use std::sync::Arc;

use windrow_domain::attempt::{Class, Failure};
use windrow_domain::{InstanceId, PartitionNo};
use windrow_store::error::chain;
use windrow_store::message::{Commit, Committed, SEND_BYTES_MAX, SEND_MAX};
use windrow_store::partition::Fence;
use windrow_store::{Error, Kind, MessageStore};

use super::gauges::{Counters, count};
use super::outcome::{MessageOutcome, NO_TARGET, OutcomePolicy, PendingCommit};

/// What became of a pending commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CommitResult {
    /// It is committed; there are new messages in these partitions.
    Committed(Vec<PartitionNo>),
    /// Its message is not there any more: it was committed before.
    Gone,
    /// Its partition, or another one of the same commit, is not ours any more. Nothing happened.
    Lost,
    /// Something was locked, or transactions collided: nothing happened, and the same may be committed
    /// again. Whether it was alone in its transaction, so that it is the cause.
    Busy { alone: bool },
    /// The reply was lost: it may have happened or not.
    Unknown,
}

/// Sends pending commits to the store: many in one transaction, in halves when they conflict.
pub(super) struct Committer {
    pub(super) store: Arc<dyn MessageStore>,
    pub(super) policy: OutcomePolicy,
    pub(super) counters: Arc<Counters>,
}

impl Committer {
    /// Commits what came of messages of different streams; gives what became of each.
    pub(super) async fn commit(
        &self,
        instance: InstanceId,
        pending: Vec<PendingCommit>,
    ) -> Vec<(PendingCommit, CommitResult)> {
        let mut settled = Vec::with_capacity(pending.len());
        let mut groups = vec![pending];
        while let Some(mut group) = groups.pop() {
            let error = match self.store.commit(merged(instance, &group)).await {
                Ok(committed) => {
                    count(&self.counters.commits);
                    accept(&mut settled, group, &committed);
                    continue;
                }
                Err(error) => error,
            };
            let is_last =
                group.iter().all(|one| one.is_failure || one.outcome == MessageOutcome::Started);
            match (error.kind, group.len()) {
                (Kind::LeaseLost | Kind::Missing, _) => {
                    let error = chain(&error);
                    tracing::warn!(error, "a commit came too late: the partition is lost");
                    settled.extend(group.into_iter().map(|one| (one, CommitResult::Lost)));
                }
                (kind, 2..) if is_one_messages_fault(kind) => {
                    count(&self.counters.conflicts);
                    // Halves, so that one culprit among many costs few commits.
                    let other = group.split_off(group.len() / 2);
                    groups.extend([other, group]);
                }
                (kind, _) if is_one_messages_fault(kind) && !is_last => {
                    let failed = group.into_iter().map(|one| self.conflicted(one, &error));
                    groups.push(failed.collect());
                }
                // When the record of a failure conflicts, too, its message is gone.
                (Kind::Conflict | Kind::Invalid, _) => {
                    settled.extend(group.into_iter().map(|one| (one, CommitResult::Gone)));
                }
                // The database answered, so it undid everything. Were it mistaken, the commit would be
                // refused the next time, since its messages are counted.
                (Kind::Busy, many) => {
                    count(&self.counters.conflicts);
                    tracing::debug!(error = %chain(&error), many, "a commit was refused");
                    let result = CommitResult::Busy { alone: many == 1 };
                    settled.extend(group.into_iter().map(|one| (one, result.clone())));
                }
                _ => {
                    count(&self.counters.commits_unknown);
                    tracing::warn!(error = %chain(&error), "the result of a commit is unknown");
                    let rest = group.into_iter().chain(groups.drain(..).flatten());
                    settled.extend(rest.map(|one| (one, CommitResult::Unknown)));
                }
            }
        }
        settled
    }

    /// A commit that conflicts alone becomes a failed attempt.
    pub(super) fn conflicted(&self, pending: PendingCommit, error: &Error) -> PendingCommit {
        let class = match error.kind {
            Kind::Invalid | Kind::Limited => Class::Permanent,
            _ => Class::Server,
        };
        let message = match error.version_conflict() {
            Some(versions) => format!("version conflict: {versions}"),
            None => format!("what it gave could not be committed: {}", chain(error)),
        };
        let failure = Failure::new(class, "conflict", message);
        self.policy.failed(pending.task, NO_TARGET, &failure)
    }
}

/// Whether one of the messages is the cause of the error, and nothing happened.
pub(super) fn is_one_messages_fault(kind: Kind) -> bool {
    match kind {
        Kind::Conflict | Kind::Invalid | Kind::Limited | Kind::Corrupt => true,
        Kind::Missing | Kind::LeaseLost | Kind::Refused => false,
        Kind::Contended | Kind::Busy | Kind::Unavailable => false,
    }
}

fn accept(
    settled: &mut Vec<(PendingCommit, CommitResult)>,
    group: Vec<PendingCommit>,
    committed: &Committed,
) {
    let mut sent = committed.sent.iter();
    // Whose calls these are does not matter: they are only looked for.
    let mut submitted: Vec<PartitionNo> =
        committed.submitted.iter().map(|at| at.partition).collect();
    for one in group {
        let own = sent.by_ref().take(one.effect.messages.len());
        let partitions = own.filter(|sent| !sent.is_duplicate).map(|sent| sent.at.partition);
        let partitions = partitions.chain(submitted.drain(..)).collect();
        settled.push((one, CommitResult::Committed(partitions)));
    }
}

/// The partitions in which a commit of one message left something new.
pub(super) fn new_partitions(committed: &Committed) -> Vec<PartitionNo> {
    let sent = committed.sent.iter().filter(|sent| !sent.is_duplicate).map(|sent| sent.at);
    sent.chain(committed.submitted.iter().copied()).map(|at| at.partition).collect()
}

/// One commit for all of them.
pub(super) fn merged(instance: InstanceId, group: &[PendingCommit]) -> Commit {
    let mut commit = Commit::new(instance);
    let fences: BTreeSet<Fence> =
        group.iter().flat_map(|one| &one.effect.fences).copied().collect();
    commit.fences.extend(fences);
    for one in group {
        let effect = one.effect.clone();
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

/// How much of a transaction a pending commit takes up.
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
    fn of(pending: &PendingCommit) -> Self {
        let effect = &pending.effect;
        let events = || effect.events.iter().flat_map(|append| &append.events);
        let states = effect.states.iter().filter_map(|put| put.state.as_ref());
        let reply = pending.answer().map_or(0, |result| match &result.answer {
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
pub(super) fn fitting<'a>(pending: impl Iterator<Item = &'a PendingCommit>, max: usize) -> usize {
    let mut weight = Weight::default();
    let fitting = pending.take(max).take_while(|one| {
        weight.add(Weight::of(one));
        weight.fits()
    });
    fitting.count().max(1)
}
