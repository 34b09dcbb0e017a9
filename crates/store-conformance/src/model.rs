//! A model of the four places in plain collections, for the random walks to compare a store with.
//!
//! Holds throughout: the model never predicts which lane a claim takes; it judges whether what the
//! store did is one of the things it may do, and then follows.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use windrow_domain::attempt::Status;
use windrow_domain::batch::{Event, apply};
use windrow_domain::lease::{Loss, on_loss};
use windrow_domain::{
    BatchId, Counts, InstanceId, LaneNo, LeaseId, LineSet, Phase, State, Target, UpstreamId,
};
use windrow_store::batch::Reprocess;
use windrow_store::claim::{Request, Tranche};
use windrow_store::inspect::BatchRows;
use windrow_store::record::{Outcomes, bucket};

/// A line that came back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Returned {
    attempts: u32,
    crashes: u32,
    not_before: Timestamp,
    tranche_max: u32,
}

/// One lane of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    pub(crate) upstream: UpstreamId,
    pub(crate) target: Target,
    pub(crate) total: u64,
    pub(crate) phase: Phase,
    cursor: u64,
    returned: BTreeMap<u64, Returned>,
    /// Each with the attempts that it took.
    finished: BTreeMap<u64, (Status, u32)>,
}

/// One batch.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) state: State,
    pub(crate) generation: u32,
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) lanes: Vec<Lane>,
}

/// One lease.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) batch: BatchId,
    lane: usize,
    attempts: u32,
    crashes: u32,
    granted: u64,
    instance: InstanceId,
    /// Its one line runs alone in its instance.
    alone: bool,
    pub(crate) expires_at: Timestamp,
    pub(crate) outstanding: LineSet,
}

/// Everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) batches: BTreeMap<BatchId, Batch>,
    pub(crate) leases: BTreeMap<LeaseId, Lease>,
}

impl Model {
    pub(crate) fn create(
        &mut self,
        id: BatchId,
        targets: &[Target],
        total: u64,
        deadline: Option<Timestamp>,
        upstream: &UpstreamId,
    ) {
        let lane = |target: &Target| Lane {
            upstream: upstream.clone(),
            target: target.clone(),
            total,
            phase: Phase::Open,
            cursor: 0,
            returned: BTreeMap::new(),
            finished: BTreeMap::new(),
        };
        let lanes = targets.iter().map(lane).collect();
        let batch = Batch { state: State::InProgress, generation: 0, deadline, lanes };
        self.batches.insert(id, batch);
    }

    fn leased(&self, id: BatchId, lane: usize) -> Vec<LineSet> {
        let of_lane = |lease: &&Lease| lease.batch == id && lease.lane == lane;
        self.leases.values().filter(of_lane).map(|lease| lease.outstanding.clone()).collect()
    }

    fn counts(&self, id: BatchId, lane_no: usize) -> Counts {
        let lane = &self.batches[&id].lanes[lane_no];
        let of = |status| lane.finished.values().filter(|(is, _)| *is == status).count() as u64;
        Counts {
            total: lane.total,
            untouched: lane.total - lane.cursor,
            returned: lane.returned.len() as u64,
            leased: self.leased(id, lane_no).iter().map(LineSet::len).sum(),
            completed: of(Status::Completed),
            failed: of(Status::Failed),
            not_found: of(Status::NotFound),
            skipped: of(Status::Skipped),
        }
    }

    /// Closes lanes that are done, and settles the batch when all are. Says whether it did.
    pub(crate) fn settle(&mut self, id: BatchId) -> bool {
        for lane_no in 0..self.batches[&id].lanes.len() {
            let counts = self.counts(id, lane_no);
            let lane = &mut self.batches.get_mut(&id).expect("known").lanes[lane_no];
            if counts.is_done(lane.phase) {
                lane.phase = Phase::Done;
            }
        }
        let batch = self.batches.get_mut(&id).expect("known");
        let settles =
            batch.state.is_running() && batch.lanes.iter().all(|lane| lane.phase == Phase::Done);
        if settles {
            batch.state = apply(batch.state, Event::LanesDone).expect("a running batch settles");
        }
        settles
    }

    /// Steers a batch as the domain says; false when that is refused.
    pub(crate) fn steer(&mut self, id: BatchId, event: Event) -> bool {
        let batch = self.batches.get_mut(&id).expect("known");
        let Ok(state) = apply(batch.state, event) else { return false };
        batch.state = state;
        if state.is_running() {
            let open = batch.lanes.iter_mut().filter(|lane| lane.phase != Phase::Done);
            open.for_each(|lane| lane.phase = Phase::of(state));
        }
        self.settle(id);
        true
    }

    /// Judges a claim that got a tranche, and follows it.
    pub(crate) fn granted(&mut self, tranche: &Tranche, request: &Request, now: Timestamp) {
        let (lease, lines_max) = (&tranche.lease, request.lines_max);
        let batch = self.batches.get_mut(&lease.batch).expect("a batch of the walk");
        assert_eq!(lease.generation, batch.generation, "{tranche:?}");
        let lane = &mut batch.lanes[usize::from(lease.lane)];
        assert_eq!((lane.phase, &lane.target), (Phase::Open, &lease.target), "{tranche:?}");
        assert!(may_take(lane, request), "{tranche:?} of {lane:?}");
        assert!(request.routes.contains(&lease.route()), "{tranche:?} was claimed for {request:?}");
        lane.upstream = lease.upstream.clone();
        let lines: LineSet = tranche.lines.iter().map(|line| line.seq).collect();
        assert_eq!(lines, lease.held.outstanding);
        assert!(!lines.is_empty() && lines.len() <= u64::from(lines_max), "{tranche:?}");
        let is_due = |line: &Returned| line.not_before <= now;
        if lane.returned.values().any(is_due) {
            let alike = |line: &&Returned| {
                is_due(line) && (line.attempts, line.crashes) == (lease.attempts, lease.crashes)
            };
            let mut tranche_max = lines_max;
            for seq in lines.iter() {
                let line =
                    lane.returned.get(&seq).expect("a due line goes before an untouched one");
                assert!(alike(&line), "line {seq} is {line:?}, in {tranche:?}");
                tranche_max = tranche_max.min(line.tranche_max);
            }
            assert!(lines.len() <= u64::from(tranche_max), "{tranche:?}");
            if lease.crashes == 0 {
                let due = lane.returned.values().filter(alike).count() as u64;
                assert_eq!(lines.len(), due.min(u64::from(lines_max)), "due lines are merged");
            }
            lane.returned.retain(|seq, _| !lines.contains(*seq));
        } else {
            let size = u64::from(lines_max).min(lane.total - lane.cursor);
            assert_eq!(lines, LineSet::span(lane.cursor, size), "the next untouched lines");
            assert_eq!((lease.attempts, lease.crashes), (0, 0));
            lane.cursor += size;
        }
        let model = Lease {
            batch: lease.batch,
            lane: usize::from(lease.lane),
            attempts: lease.attempts,
            crashes: lease.crashes,
            granted: lines.len(),
            instance: lease.instance,
            alone: false,
            expires_at: lease.expires_at,
            outstanding: lines,
        };
        assert!(self.leases.insert(lease.held.id, model).is_none());
    }

    /// Judges a claim that got nothing.
    pub(crate) fn nothing_to_claim(&self, request: &Request, now: Timestamp) {
        // Nothing is claimed of a batch whose window has ended, swept or not.
        let lasts = |batch: &Batch| batch.deadline.is_none_or(|deadline| deadline > now);
        for (id, batch) in self.batches.iter().filter(|(_, batch)| lasts(batch)) {
            for lane in &batch.lanes {
                let wanted = lane.phase == Phase::Open && may_take(lane, request);
                let due = lane.returned.values().any(|line| line.not_before <= now);
                let some = lane.cursor < lane.total || due;
                assert!(!(wanted && some), "{id} has lines to claim: {lane:?}");
            }
        }
    }

    /// Follows a batch that was sent to another upstream.
    pub(crate) fn moved(&mut self, id: BatchId, upstream: &UpstreamId) {
        let lanes = &mut self.batches.get_mut(&id).expect("known").lanes;
        lanes.iter_mut().for_each(|lane| lane.upstream = upstream.clone());
    }

    /// Follows outcomes; gives what was ignored and what remains, or none when the lease is lost.
    pub(crate) fn record(
        &mut self,
        outcomes: &Outcomes,
        now: Timestamp,
    ) -> Option<(LineSet, LineSet)> {
        let id = outcomes.held.id;
        let lease = self.leases.get_mut(&id)?;
        let batch = self.batches.get_mut(&lease.batch).expect("known");
        let lane = &mut batch.lanes[lease.lane];
        let mut named = outcomes.released.clone();
        for line in outcomes.finished.iter().filter(|line| lease.outstanding.contains(line.seq)) {
            lane.finished.insert(line.seq, (line.status, line.attempts));
        }
        for line in outcomes.again.iter().filter(|line| lease.outstanding.contains(line.seq)) {
            let (attempts, not_before) = (lease.attempts + 1, bucket(line.not_before));
            let back = Returned { attempts, crashes: 0, not_before, tranche_max: u32::MAX };
            lane.returned.insert(line.seq, back);
        }
        let released = outcomes.released.intersection(&lease.outstanding);
        lease.return_lines(&released, lane, now);
        let finished = outcomes.finished.iter().map(|line| line.seq);
        for seq in finished.chain(outcomes.again.iter().map(|line| line.seq)) {
            named.insert(seq);
        }
        let ignored = named.difference(&lease.outstanding);
        lease.outstanding = lease.outstanding.difference(&named);
        let remaining = lease.outstanding.clone();
        if remaining.is_empty() {
            self.leases.remove(&id);
        }
        Some((ignored, remaining))
    }

    /// Gives a whole lease back untried; says how many lines and which batch.
    pub(crate) fn release(&mut self, id: LeaseId, now: Timestamp) -> Option<(u64, BatchId)> {
        let lease = self.leases.remove(&id)?;
        let batch = self.batches.get_mut(&lease.batch).expect("known");
        lease.return_lines(&lease.outstanding, &mut batch.lanes[lease.lane], now);
        Some((lease.outstanding.len(), lease.batch))
    }

    /// Marks a lease of one line; says whether that is allowed.
    pub(crate) fn mark(&mut self, id: LeaseId) -> bool {
        let Some(lease) = self.leases.get(&id) else { return false };
        let is_other = |(other, one): (&LeaseId, &Lease)| {
            *other != id && one.alone && one.instance == lease.instance
        };
        let allowed = lease.outstanding.len() == 1 && !self.leases.iter().any(is_other);
        if let Some(lease) = self.leases.get_mut(&id).filter(|_| allowed) {
            lease.alone = true;
        }
        allowed
    }

    /// Takes back every lease past its time: how many, returned, failed, and the batches touched.
    pub(crate) fn lose(
        &mut self,
        now: Timestamp,
        crashes_max: u32,
    ) -> (u64, u64, u64, BTreeSet<BatchId>) {
        let late = |lease: &Lease| lease.expires_at <= now;
        let ids: Vec<_> =
            self.leases.iter().filter(|(_, lease)| late(lease)).map(|(id, _)| *id).collect();
        let (leases, mut returned, mut failed) = (ids.len() as u64, 0, 0);
        let mut touched = BTreeSet::new();
        for id in ids {
            let lease = self.leases.remove(&id).expect("just found");
            let batch = self.batches.get_mut(&lease.batch).expect("known");
            let lane = &mut batch.lanes[lease.lane];
            let loss = on_loss(lease.outstanding.len(), lease.crashes, lease.alone, crashes_max);
            for seq in lease.outstanding.iter() {
                if let Loss::Return { tranche_max, crashes } = loss {
                    let attempts = lease.attempts;
                    let back = Returned { attempts, crashes, not_before: now, tranche_max };
                    lane.returned.insert(seq, back);
                    returned += 1;
                } else {
                    lane.finished.insert(seq, (Status::Failed, lease.attempts));
                    failed += 1;
                }
            }
            touched.insert(lease.batch);
        }
        (leases, returned, failed, touched)
    }

    /// Lines of a batch by number in the file that wait are due; how many, and how many are held.
    pub(crate) fn try_now(&mut self, id: BatchId, lines: &LineSet, now: Timestamp) -> (u64, u64) {
        let lanes = self.batches[&id].lanes.len() as u64;
        // Files of the walk go round over their targets.
        let is_named = |lane: usize, seq: u64| lines.contains(seq * lanes + lane as u64 + 1);
        let (mut due, mut leased) = (0, 0);
        for lane_no in 0..self.batches[&id].lanes.len() {
            let held = self.leased(id, lane_no);
            let lane = &mut self.batches.get_mut(&id).expect("known").lanes[lane_no];
            if !matches!(lane.phase, Phase::Open | Phase::Paused) {
                continue;
            }
            for (seq, line) in &mut lane.returned {
                if is_named(lane_no, *seq) && line.not_before > now {
                    line.not_before = now;
                    due += 1;
                }
            }
            let held = held.iter().flat_map(LineSet::iter).filter(|seq| is_named(lane_no, *seq));
            leased += held.count() as u64;
        }
        (due, leased)
    }

    /// Puts finished lines of these outcomes back, in line order, when the state allows it.
    pub(crate) fn reprocess(
        &mut self,
        step: &Reprocess,
        statuses: &[Status],
        now: Timestamp,
    ) -> Option<u64> {
        let (id, lines_max) = (step.batch, step.lines_max);
        let batch = self.batches.get_mut(&id).expect("known");
        let state = apply(batch.state, Event::Reprocessed).ok()?;
        let mut lines = Vec::new();
        for (lane_no, lane) in batch.lanes.iter().enumerate() {
            let matches = lane.finished.iter().filter(|(_, (is, _))| statuses.contains(is));
            // Files of the walk go round over their targets, so line order is (seq, lane) order.
            lines.extend(matches.map(|(seq, _)| (*seq, lane_no)));
        }
        lines.sort_unstable();
        lines.truncate(lines_max as usize);
        for (seq, lane_no) in &lines {
            let lane = &mut batch.lanes[*lane_no];
            let (_, tried) = lane.finished.remove(seq).expect("just found");
            let attempts = if step.reset_attempts { 0 } else { tried };
            let back = Returned { attempts, crashes: 0, not_before: now, tranche_max: u32::MAX };
            lane.returned.insert(*seq, back);
            lane.phase = Phase::of(state);
        }
        if !lines.is_empty() {
            batch.generation += 1;
            batch.state = state;
        }
        Some(lines.len() as u64)
    }

    /// The rows of a batch must say what the model says.
    pub(crate) fn compare(&self, id: BatchId, rows: &BatchRows, story: &str) {
        let batch = &self.batches[&id];
        if let Err(sentence) = rows.check() {
            panic!("{story}: {sentence}");
        }
        assert_eq!(rows.state, batch.state, "{story}: state of {id}");
        assert_eq!(rows.lanes.len(), batch.lanes.len());
        for (lane_no, (rows, lane)) in rows.lanes.iter().zip(&batch.lanes).enumerate() {
            let union =
                |sets: &[LineSet]| sets.iter().fold(LineSet::new(), |all, set| all.union(set));
            let at = format!("{story}: lane {lane_no} of {id}");
            assert_eq!(rows.lane, LaneNo::try_from(lane_no).expect("few lanes"));
            assert_eq!((rows.phase, &rows.upstream), (lane.phase, &lane.upstream), "{at}");
            assert_eq!(rows.cursor, lane.cursor, "{at}: cursor");
            assert_eq!(rows.counts, self.counts(id, lane_no), "{at}: counts");
            let returned: LineSet = lane.returned.keys().copied().collect();
            assert_eq!(union(&rows.returned), returned, "{at}: returned");
            let (mut theirs, mut ours) = (rows.leased.clone(), self.leased(id, lane_no));
            theirs.sort_by_key(LineSet::first);
            ours.sort_by_key(LineSet::first);
            assert_eq!(theirs, ours, "{at}: leased");
            let mut theirs = rows.alone.clone();
            let mut ours: Vec<_> = self
                .leases
                .values()
                .filter(|lease| lease.batch == id && lease.lane == lane_no && lease.alone)
                .map(|lease| (lease.instance, lease.outstanding.clone()))
                .collect();
            theirs.sort_by_key(|(_, lines)| lines.first());
            ours.sort_by_key(|(_, lines)| lines.first());
            assert_eq!(theirs, ours, "{at}: alone");
            for (status, set) in Status::ALL.into_iter().zip(&rows.finished) {
                let of = lane.finished.iter().filter(|(_, (is, _))| *is == status);
                let ours: LineSet = of.map(|(seq, _)| *seq).collect();
                assert_eq!(*set, ours, "{at}: {status:?}");
            }
        }
    }
}

/// Whether a claim may take lines of a lane: of its upstream, or of none yet.
fn may_take(lane: &Lane, request: &Request) -> bool {
    let binds = request.binds && lane.upstream.is_unknown();
    let mut wanted = request.routes.iter().filter(|route| route.target == lane.target);
    wanted.any(|route| binds || route.upstream == lane.upstream)
}

impl Lease {
    fn return_lines(&self, lines: &LineSet, lane: &mut Lane, now: Timestamp) {
        let suspect = self.crashes > 0;
        let tranche_max =
            if suspect { u32::try_from(self.granted).expect("small") } else { u32::MAX };
        let (attempts, crashes) = (self.attempts, self.crashes);
        for seq in lines.iter() {
            lane.returned.insert(seq, Returned { attempts, crashes, not_before: now, tranche_max });
        }
    }
}
