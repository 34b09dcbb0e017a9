//! The event loop of a runner: reads messages, starts handlers, gathers their results into commits.
//!
//! Holds throughout: everything in memory is changed by this loop alone, and it never waits for the
//! database or a handler: those run in tasks that it joins. The result of a task is used only while
//! its partition is ours in the same epoch.

mod commands;
mod commits;
mod idle;
mod results;
mod settle;
mod start;
mod timing;
mod unrouted;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use windrow_domain::PartitionNo;
use windrow_domain::millis;
use windrow_store::partition::Fence;

use crate::signal::Stop;

use super::availability::Availability;
use super::commit::Committer;
use super::gauges::set;
use super::handler::registry::Plan;
use super::long_calls::LongCalls;
use super::outcome::{OutcomePolicy, PendingCommit, Task};
use super::queue::StreamQueues;
use super::read_planner::ReadPlanner;
use super::runner::RunnerDeps;
use super::state_cache::StateCache;
use super::stream_backoff::StreamBackoff;

pub(super) use self::commands::Command;
use self::idle::IdleState;
use self::results::TaskResult;
use self::timing::Cooldown;
use self::unrouted::UnroutedTasks;

/// The event loop of a runner.
pub(super) struct EventLoop {
    deps: Arc<RunnerDeps>,
    committer: Arc<Committer>,
    policy: OutcomePolicy,
    queues: StreamQueues,
    read_planner: ReadPlanner,
    states: StateCache,
    /// Calls that run, to be reported when they run for long.
    long_calls: LongCalls,
    /// What is to be committed, oldest first.
    pending: VecDeque<PendingCommit>,
    /// When the oldest of it came.
    pending_since: u64,
    commits: usize,
    /// What is committed alone, since it may be refused.
    alone: VecDeque<PendingCommit>,
    alone_commits: usize,
    /// Streams that transactions of others hold.
    stream_backoff: StreamBackoff,
    /// Slots of handlers in transactions of their own.
    transactions: Arc<Semaphore>,
    is_reading: bool,
    /// Calls whose object's state is not known yet.
    unloaded: Vec<(Task, Plan)>,
    /// Messages that nothing here takes.
    unrouted: UnroutedTasks,
    tasks: JoinSet<TaskResult>,
    commands: mpsc::Receiver<Command>,
    drained: mpsc::Sender<Fence>,
    /// When something of a partition may be due.
    dues: BTreeMap<PartitionNo, Timestamp>,
    /// After errors of the database.
    store_pause: Cooldown,
    /// After commits that were refused because of locks, and not because of one message.
    busy_pause: Cooldown,
    /// While the database's clock is behind ours.
    due_pause: Cooldown,
    polled_at: u64,
    idle: IdleState,
    is_stopping: bool,
}

impl EventLoop {
    pub(super) fn new(
        deps: Arc<RunnerDeps>,
        commands: mpsc::Receiver<Command>,
        drained: mpsc::Sender<Fence>,
    ) -> Self {
        let policy = OutcomePolicy {
            retry: deps.options.retry.clone(),
            give_up_policy: deps.options.give_up.clone(),
            clock: deps.clock.clone(),
            jitter: deps.jitter.clone(),
            availability: Arc::new(Availability::new(deps.clock.clone(), deps.jitter.clone())),
        };
        let counters = deps.counters.clone();
        let committer = Committer { store: deps.store.clone(), policy: policy.clone(), counters };
        let states = StateCache::new(deps.options.states_max, deps.options.states_bytes_max);
        let now = deps.clock.millis();
        Self {
            committer: Arc::new(committer),
            policy,
            queues: StreamQueues::default(),
            read_planner: ReadPlanner::default(),
            states,
            long_calls: LongCalls::new(millis(deps.options.processing_after)),
            pending: VecDeque::new(),
            pending_since: 0,
            commits: 0,
            alone: VecDeque::new(),
            alone_commits: 0,
            stream_backoff: StreamBackoff::new(deps.jitter.clone()),
            transactions: Arc::new(Semaphore::new(deps.options.transactions_in_flight_max)),
            is_reading: false,
            unloaded: Vec::new(),
            unrouted: UnroutedTasks::default(),
            tasks: JoinSet::new(),
            commands,
            drained,
            dues: BTreeMap::new(),
            store_pause: Cooldown::new(2_000),
            busy_pause: Cooldown::new(1_000),
            due_pause: Cooldown::new(1_000),
            polled_at: now,
            idle: IdleState::new(now, millis(deps.options.idle_after)),
            is_stopping: false,
            deps,
        }
    }

    /// Works until it is stopped and everything is given back, or the grace has passed.
    pub(super) async fn run(mut self, stop: &Stop) {
        let deps = self.deps.clone();
        let mut give_up_at = u64::MAX;
        loop {
            self.start_ready();
            if self.is_stopping {
                let now = deps.clock.millis();
                if self.queues.partitions.is_empty() || now >= give_up_at {
                    break;
                }
            }
            let wake_at = self.wake_at().min(give_up_at);
            tokio::select! {
                biased;
                Some(result) = self.tasks.join_next() => self.joined(result),
                Some(command) = self.commands.recv() => self.on_command(command),
                () = deps.notifier.work_ready.given() => {}
                () = stop.given(), if !self.is_stopping => {
                    self.is_stopping = true;
                    give_up_at = deps.clock.millis().saturating_add(millis(deps.options.grace));
                    self.drain_all();
                }
                () = deps.clock.sleep_until(wake_at) => {}
            }
            // What ended at the same moment is taken in before anything is started.
            while let Some(result) = self.tasks.try_join_next() {
                self.joined(result);
            }
        }
        set(&deps.counters.partitions_owned, 0);
        self.refuse_commands();
        if self.queues.busy > 0 {
            let streams = self.queues.busy;
            tracing::warn!(streams, "handlers did not end in time and are cut off");
        }
    }

    /// What was taken at the last moment goes back as it came.
    fn refuse_commands(&mut self) {
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            let Command::Own(taken) = command else { continue };
            let unused = taken.iter().map(|taken| taken.fence);
            for fence in unused.filter(|fence| !self.queues.is_ours(*fence)).collect::<Vec<_>>() {
                let _ = self.drained.try_send(fence);
            }
        }
    }

    fn joined(&mut self, result: std::result::Result<TaskResult, tokio::task::JoinError>) {
        match result {
            Ok(result) => self.on_result(result),
            // Handlers are caught where they run, so this is a bug of ours. Nothing in memory is trusted.
            Err(error) => {
                tracing::error!(%error, "a task of the runner broke off");
                self.start_anew();
            }
        }
    }

    /// Starts whatever is ready.
    fn start_ready(&mut self) {
        self.take_dirty();
        self.take_dues();
        let now = self.deps.clock.millis();
        if !self.is_stopping && self.store_pause.is_over(now) {
            self.start_streams();
            self.start_read();
        }
        self.load_states();
        self.ask_members();
        self.start_commits(now);
        self.report_processing(now);
        for fence in self.queues.take_drained() {
            self.dues.remove(&fence.partition);
            self.states.forget_partition(fence.partition);
            // There is room for every partition, and one is drained once before it is taken again.
            let _ = self.drained.try_send(fence);
        }
        self.clear_suspects();
        self.set_idle(now);
        let counters = &self.deps.counters;
        set(&counters.partitions_owned, self.queues.partitions.len());
        set(&counters.messages_held, self.queues.messages);
        set(&counters.streams_in_flight, self.queues.busy);
    }
}
