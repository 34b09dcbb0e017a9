//! The loop of a runner: reads what comes next, starts handlers, gathers what they gave into commits.
//!
//! Holds throughout: everything in memory is changed by this loop alone, and it never waits for the
//! database or a handler: those run in tasks that it joins. What a task gives is believed only while
//! its partition is ours in the same epoch.

mod events;
mod start;
mod timing;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use windrow_domain::PartitionNo;
use windrow_store::message::Work;
use windrow_store::partition::{Fence, Taken};
use windrow_store::{MessageStore, Result};

use crate::clock::Clock;
use crate::signal::Stop;

use self::timing::{Doze, Pause};

use super::away::Away;
use super::board::{Board, Phase};
use super::commit::{Committer, Verdict, fitting};
use super::contended::{Contended, HELD, Look};
use super::entry::{Entry, Judge, Task};
use super::gauges::{count, set};
use super::options::Options;
use super::reading::{Reader, Request};
use super::registry::{Plan, Registry};
use super::running::{Run, Runs};
use super::shared::Shared;
use super::states::States;
use super::transactional::Ran;

/// What every part of a runner needs.
pub(super) struct Core {
    pub(super) store: Arc<dyn MessageStore>,
    pub(super) registry: Registry,
    pub(super) options: Options,
    pub(super) clock: Clock,
    pub(super) shared: Arc<Shared>,
    pub(super) service: String,
}

/// What the membership tells the loop.
#[derive(Debug)]
pub(super) enum Command {
    /// These are ours, anew or still.
    Own(Vec<Taken>),
    /// These are to be given back when nothing runs in them.
    Drain(Vec<PartitionNo>),
    /// These are not ours any more.
    Lose(Vec<PartitionNo>),
    /// Nothing is ours any more.
    Reset,
}

/// What a task gave.
enum Event {
    Read(Request, Result<Work>),
    Loaded(Vec<(Task, Plan)>, Result<Vec<Option<Bytes>>>),
    Tried(Box<Entry>),
    Ran(Ran),
    Settled { apart: bool, settled: Vec<(Entry, Verdict)> },
    Told(Vec<Run>, Result<()>),
    Dozed(bool, Result<()>),
    Cleared(Vec<Fence>, Result<()>),
}

/// The loop.
pub(super) struct Actor {
    core: Arc<Core>,
    committer: Arc<Committer>,
    judge: Judge,
    board: Board,
    reader: Reader,
    states: States,
    /// Calls that run.
    runs: Runs,
    /// What is to be committed, oldest first.
    pending: VecDeque<Entry>,
    /// When the oldest of it came.
    pending_since: u64,
    commits: usize,
    /// What is to be committed with nothing else, since it may be refused.
    apart: VecDeque<Entry>,
    apart_commits: usize,
    /// Streams that others hold.
    contended: Contended,
    /// Places of handlers in their own transactions.
    inside: Arc<Semaphore>,
    is_reading: bool,
    /// Calls whose object's state is not known yet.
    unloaded: Vec<(Task, Plan)>,
    tasks: JoinSet<Event>,
    commands: mpsc::Receiver<Command>,
    drained: mpsc::Sender<Fence>,
    /// When something of a partition may be due.
    dues: BTreeMap<PartitionNo, Timestamp>,
    /// Waits after trouble with the database.
    pause: Pause,
    /// Waits after commits that were refused through nobody's doing.
    busy_pause: Pause,
    /// Waits when the database's clock is behind ours.
    due_pause: Pause,
    polled_at: u64,
    doze: Doze,
    is_stopping: bool,
}

impl Actor {
    pub(super) fn new(
        core: Arc<Core>,
        commands: mpsc::Receiver<Command>,
        drained: mpsc::Sender<Fence>,
    ) -> Self {
        let judge = Judge {
            policy: core.options.retry.clone(),
            patience: core.options.away.clone(),
            clock: core.clock.clone(),
            away: Arc::new(Away::new(core.clock.clone())),
        };
        let counters = core.shared.counters.clone();
        let committer = Committer { store: core.store.clone(), judge: judge.clone(), counters };
        let states = States::new(core.options.states_max, core.options.states_bytes_max);
        let now = core.clock.millis();
        Self {
            committer: Arc::new(committer),
            judge,
            board: Board::default(),
            reader: Reader::default(),
            states,
            runs: Runs::new(core.options.processing_after_ms),
            pending: VecDeque::new(),
            pending_since: 0,
            commits: 0,
            apart: VecDeque::new(),
            apart_commits: 0,
            contended: Contended::default(),
            inside: Arc::new(Semaphore::new(core.options.transactions_in_flight_max)),
            is_reading: false,
            unloaded: Vec::new(),
            tasks: JoinSet::new(),
            commands,
            drained,
            dues: BTreeMap::new(),
            pause: Pause::new(20, 2_000),
            busy_pause: Pause::new(20, 1_000),
            due_pause: Pause::new(20, 1_000),
            polled_at: now,
            doze: Doze::new(now, core.options.awake_ms),
            is_stopping: false,
            core,
        }
    }

    /// Works until it is stopped and everything is given back, or the grace has passed.
    pub(super) async fn run(mut self, stop: &Stop) {
        let core = self.core.clone();
        let mut give_up_at = u64::MAX;
        loop {
            self.pump();
            if self.is_stopping {
                let now = core.clock.millis();
                if self.board.partitions.is_empty() || now >= give_up_at {
                    break;
                }
            }
            let wake_at = self.wake_at().min(give_up_at);
            tokio::select! {
                biased;
                Some(event) = self.tasks.join_next() => self.joined(event),
                Some(command) = self.commands.recv() => self.obey(command),
                () = core.shared.poked.given() => {}
                () = stop.given(), if !self.is_stopping => {
                    self.is_stopping = true;
                    give_up_at = core.clock.millis().saturating_add(core.options.grace_ms);
                    self.drain_all();
                }
                () = core.clock.sleep_until(wake_at) => {}
            }
            // What came at the same moment is taken in before anything is begun.
            while let Some(event) = self.tasks.try_join_next() {
                self.joined(event);
            }
        }
        set(&core.shared.counters.partitions_owned, 0);
        self.refuse_commands();
        if self.board.busy > 0 {
            let streams = self.board.busy;
            tracing::warn!(streams, "handlers did not end in time and are cut off");
        }
    }

    /// What was taken at the last moment goes back as it came.
    fn refuse_commands(&mut self) {
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            let Command::Own(taken) = command else { continue };
            let unused = taken.iter().map(|taken| taken.fence);
            for fence in unused.filter(|fence| !self.board.is_ours(*fence)).collect::<Vec<_>>() {
                let _ = self.drained.try_send(fence);
            }
        }
    }

    fn joined(&mut self, event: std::result::Result<Event, tokio::task::JoinError>) {
        match event {
            Ok(event) => self.take(event),
            // Handlers are caught where they run, so this is a mistake of ours. Nothing is believed.
            Err(error) => {
                tracing::error!(%error, "a task of the runner broke off");
                self.start_anew();
            }
        }
    }

    /// Begins whatever can begin now.
    fn pump(&mut self) {
        self.take_pokes();
        self.take_dues();
        let now = self.core.clock.millis();
        if !self.is_stopping && self.pause.is_over(now) {
            self.start_streams();
            self.start_read();
        }
        self.load_states();
        self.start_commits(now);
        self.tell_what_runs(now);
        for fence in self.board.take_drained() {
            self.dues.remove(&fence.partition);
            self.states.forget_partition(fence.partition);
            // There is room for every partition, and one is drained once before it is taken again.
            let _ = self.drained.try_send(fence);
        }
        self.clear_suspects();
        self.doze_or_wake(now);
        let counters = &self.core.shared.counters;
        set(&counters.partitions_owned, self.board.partitions.len());
        set(&counters.messages_held, self.board.messages);
        set(&counters.streams_in_flight, self.board.busy);
    }

    fn start_read(&mut self) {
        if self.is_reading {
            return;
        }
        let instance = self.core.shared.instance();
        let planned = self.reader.plan(&mut self.board, instance, &self.core.options);
        let Some(request) = planned else { return };
        self.is_reading = true;
        count(&self.core.shared.counters.reads);
        let store = self.core.store.clone();
        self.tasks.spawn(async move {
            let work = store.read_owned(request.read.clone()).await;
            Event::Read(request, work)
        });
    }

    /// Commits what is there: at once when no other commit is under way, else in company.
    fn start_commits(&mut self, now: u64) {
        let core = self.core.clone();
        let options = &core.options;
        // One place is left to those that nobody holds up.
        let apart_max = options.commits_in_flight_max.saturating_sub(1).max(1);
        while self.apart_commits < apart_max && self.commits < options.commits_in_flight_max {
            let Some(entry) = self.apart.pop_front() else { break };
            self.apart_commits += 1;
            self.start_commit(true, vec![entry]);
        }
        if !self.busy_pause.is_over(now) {
            return;
        }
        while !self.pending.is_empty() && self.commits < options.commits_in_flight_max {
            let waited = now.saturating_sub(self.pending_since) >= options.commit_linger_ms;
            let is_full = self.pending.len() >= options.commit_messages_max;
            if self.commits > 0 && !waited && !is_full {
                return;
            }
            let fits = fitting(self.pending.iter(), options.commit_messages_max);
            let entries: Vec<Entry> = self.pending.drain(..fits).collect();
            self.start_commit(false, entries);
        }
    }

    fn start_commit(&mut self, apart: bool, entries: Vec<Entry>) {
        self.commits += 1;
        let (committer, instance) = (self.committer.clone(), self.core.shared.instance());
        self.tasks.spawn(async move {
            let settled = committer.settle(instance, entries).await;
            Event::Settled { apart, settled }
        });
    }

    fn clear_suspects(&mut self) {
        let fences = self.board.take_cleared();
        if fences.is_empty() {
            return;
        }
        let (store, instance) = (self.core.store.clone(), self.core.shared.instance());
        self.tasks.spawn(async move {
            let cleared = store.clear_suspects(instance, &fences).await;
            Event::Cleared(fences, cleared)
        });
    }

    fn drain_all(&mut self) {
        let all: Vec<PartitionNo> = self.board.partitions.keys().copied().collect();
        all.into_iter().for_each(|no| self.board.close(no, Phase::Draining));
    }

    /// Adds what is to be committed. What writes to a stream that somebody holds is put off.
    fn push(&mut self, entry: Entry) {
        let now = self.core.clock.millis();
        let entry = match self.contended.look(now, || entry.touched()) {
            Look::Free => entry,
            Look::Probe => return self.apart.push_back(entry),
            Look::Held(wait) => self.judge.put_off(entry.task, HELD, wait),
        };
        if self.pending.is_empty() {
            self.pending_since = now;
        }
        self.pending.push_back(entry);
    }

    /// Something of a partition is due then.
    fn note_due(&mut self, no: PartitionNo, at: Timestamp) {
        let due = self.dues.entry(no).or_insert(at);
        *due = at.min(*due);
    }

    /// Waits a little, since the database is in trouble.
    fn pause(&mut self) {
        self.pause.longer(self.core.clock.millis());
    }
}

/// How long until that time; nothing when it has passed.
fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default()
}
