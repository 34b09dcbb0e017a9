//! Messages that nothing here takes: no object, consumer or publisher of this runner.
//!
//! Holds throughout: before such a message fails, the live members are read, after it was; when one of them
//! takes it, it waits uncounted and is tried again each second, so that processes which serve different
//! things may run side by side while one after another is upgraded; when none does, it fails, waits or is
//! dropped, as the options say. Messages about batches without a publisher are dropped: nobody has a use for
//! them.
//! Absent on purpose: giving the partition to the member that has the handler. A partition holds streams of
//! every type.

use std::collections::BTreeMap;
use std::time::Duration;

use windrow_domain::Queue;
use windrow_store::Result;
use windrow_store::error::chain;
use windrow_store::event::BATCH_KINDS;
use windrow_store::member::Member;
use windrow_store::message::Message;
use windrow_store::partition::Serving;

use crate::messages::handler::{Effects, HandlerError};
use crate::messages::options::Unrouted;
use crate::messages::outcome::{NO_TARGET, PendingCommit, Task};

use super::EventLoop;
use super::results::TaskResult;

/// How long a message waits that another member has the handler of.
const ELSEWHERE_WAIT: Duration = Duration::from_secs(1);
/// How often it is logged of the same type that others have its handler.
const LOGGED_EVERY_MS: u64 = 60_000;
/// Most types that are remembered as logged; when there are more, all are forgotten.
const LOGGED_MAX: usize = 1_000;
/// Most members that a log line names.
const NAMED_MAX: usize = 5;

/// A message that nothing here takes, and why.
pub(super) type UnroutedTask = (Task, String);

/// Messages that wait for an answer to who else may take them.
#[derive(Default)]
pub(super) struct UnroutedTasks {
    waiting: Vec<UnroutedTask>,
    is_asking: bool,
    /// What was logged, and when.
    logged: BTreeMap<String, u64>,
}

impl UnroutedTasks {
    pub(super) fn add(&mut self, task: Task, error: String) {
        self.waiting.push((task, error));
    }

    /// Nothing in memory is trusted any more.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.is_asking = false;
    }

    /// Whether something is to be logged of this subject now.
    fn is_due(&mut self, subject: &str, now: u64) -> bool {
        let last = self.logged.get(subject);
        if last.is_some_and(|last| now.saturating_sub(*last) < LOGGED_EVERY_MS) {
            return false;
        }
        if self.logged.len() >= LOGGED_MAX {
            self.logged.clear();
        }
        self.logged.insert(subject.to_owned(), now);
        true
    }
}

impl EventLoop {
    /// Reads who lives, once for all messages that wait for it.
    pub(super) fn ask_members(&mut self) {
        if self.unrouted.is_asking || self.unrouted.waiting.is_empty() {
            return;
        }
        self.unrouted.is_asking = true;
        let waiting = std::mem::take(&mut self.unrouted.waiting);
        let store = self.deps.store.clone();
        self.tasks.spawn(async move {
            let members = store.members().await;
            TaskResult::MembersRead(waiting, members)
        });
    }

    pub(super) fn on_members(&mut self, waiting: Vec<UnroutedTask>, members: Result<Vec<Member>>) {
        self.unrouted.is_asking = false;
        let members = match members {
            Ok(members) => members,
            Err(error) => {
                tracing::warn!(error = %chain(&error), "members could not be read");
                self.store_failed(error.kind);
                for (task, _) in waiting {
                    if self.queues.is_ours(task.fence) {
                        self.queues.forget(task.stream_no());
                    }
                }
                return;
            }
        };
        let me = self.deps.notifier.instance();
        let lives = |member: &&Member| {
            member.tombstoned_at.is_none()
                && member.service == self.deps.service
                && member.instance != me
        };
        let live: Vec<(&Member, Serving)> = members
            .iter()
            .filter(lives)
            .filter_map(|member| Some((member, Serving::of(&member.metadata)?)))
            .collect();
        for (task, error) in waiting {
            if self.queues.is_ours(task.fence) {
                let pending = self.judge_unrouted(task, &error, &live);
                self.push(pending);
            }
        }
    }

    fn judge_unrouted(
        &mut self,
        task: Task,
        error: &str,
        live: &[(&Member, Serving)],
    ) -> PendingCommit {
        let takers: Vec<&Member> = live
            .iter()
            .filter(|(_, serving)| takes(serving, &task.message))
            .map(|(member, _)| *member)
            .collect();
        if !takers.is_empty() {
            let named = named(&takers);
            if self.unrouted.is_due(error, self.deps.clock.millis()) {
                tracing::warn!(
                    error,
                    members = named,
                    "messages wait: other members take them, and this one owns their partition"
                );
            }
            let error = format!("{error} in this process; it waits, since {named} has one");
            return self.policy.put_off(task, &error, ELSEWHERE_WAIT);
        }
        match self.deps.options.unrouted {
            _ if task.message.queue == Queue::Calls => self.fail(task, error),
            _ if is_of_batch(&task.message) => self.drop_unrouted(task, error),
            Unrouted::DeadLetter => self.fail(task, error),
            Unrouted::Keep => self.policy.keep_waiting(task, error),
            Unrouted::Drop => self.drop_unrouted(task, error),
        }
    }

    fn drop_unrouted(&self, task: Task, error: &str) -> PendingCommit {
        tracing::debug!(id = task.message.id, error, "a message is dropped");
        self.policy.succeeded(task, Effects::none(), None)
    }

    fn fail(&self, task: Task, error: &str) -> PendingCommit {
        let failure = HandlerError::retry(error).0;
        self.policy.failed(task, NO_TARGET, &failure)
    }
}

/// Whether a member has a handler or publisher of a message.
fn takes(serving: &Serving, message: &Message) -> bool {
    if message.queue == Queue::Calls {
        let name = message.stream.as_str().split('/').next().unwrap_or_default();
        return serving.object_types.iter().any(|one| one == name);
    }
    let names = |name: &String| {
        serving.consumers.iter().chain(&serving.publishers).any(|route| route.name == *name)
    };
    if !message.waiting.is_empty() {
        return message.waiting.iter().any(names);
    }
    let routes = match message.queue {
        Queue::Inbox => &serving.consumers,
        Queue::Outbox | Queue::Calls => &serving.publishers,
    };
    let (owner, stream) = (message.owner.as_str(), message.stream.as_str());
    routes.iter().any(|route| route.takes(owner, stream, &message.kind))
}

/// Whether a message says what happened to a batch, and was made by the engine.
fn is_of_batch(message: &Message) -> bool {
    message.queue == Queue::Outbox
        && message.waiting.is_empty()
        && message.stream.as_str().starts_with("batch/")
        && BATCH_KINDS.contains(&message.kind.as_str())
}

fn named(members: &[&Member]) -> String {
    let shown = members.iter().take(NAMED_MAX);
    let shown: Vec<String> =
        shown.map(|member| format!("{} (pid {})", member.host, member.pid)).collect();
    let more = members.len().saturating_sub(NAMED_MAX);
    let and = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{and}", shown.join(", "))
}
