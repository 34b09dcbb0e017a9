//! Recording: outcomes become results, or lines that come back later; then the next claim.
//!
//! Holds throughout: a stale lease changes nothing; an outcome counts only for a line that is
//! outstanding, so repeating a turn after a lost reply changes nothing; a result is written once: only
//! [`crate::Batches::reshape`] changes a part of one.

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use windrow_domain::attempt::{Class, Status};
use windrow_domain::lines::TEXT_BYTES_MAX;
use windrow_domain::{BatchId, InstanceId, LeaseId, LeaseProof, LineSet};

use crate::claim::{Request, Tranche};
use crate::error::{self, Error, Kind, Result};

/// Returned lines wait in buckets of this width, so that a retry storm makes few rows.
pub const BUCKET_MS: i64 = 250;
/// A line's history has an entry for each of so many attempts. Later ones that were throttled, which may go on for very
/// long, share the entry of the one before when that was throttled, too.
pub const ATTEMPT_ENTRIES_MAX: u32 = 16;
/// Most leases one turn may record.
pub const TURN_LEASES_MAX: usize = 64;

/// A line that is finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its number in the lane.
    pub seq: u64,
    /// Its number in the file, as the claim gave it.
    pub line: u64,
    /// The outcome of the line.
    pub status: Status,
    /// Attempts that the line took.
    pub attempts: u32,
    /// The request's own id.
    pub custom_id: Option<String>,
    /// The HTTP status of the last answer.
    pub http_status: Option<u16>,
    /// The raw response body.
    pub response: Option<Bytes>,
    /// The row that a grid shows (JSON).
    pub shaped: Option<String>,
    /// The input in canonical form, where wanted (JSON).
    pub normalised: Option<String>,
    /// What kind of trouble ended it; none for a line that is well, was skipped, or whose worker was lost.
    pub class: Option<Class>,
    /// A stable word for what went wrong.
    pub error_code: Option<String>,
    /// A sentence about what went wrong.
    pub error: Option<String>,
}

impl Finished {
    /// A finished line with nothing but its status.
    pub fn bare(seq: u64, line: u64, status: Status, attempts: u32) -> Self {
        Self {
            seq,
            line,
            status,
            attempts,
            custom_id: None,
            http_status: None,
            response: None,
            shaped: None,
            normalised: None,
            class: None,
            error_code: None,
            error: None,
        }
    }
}

/// A line that was tried and must be tried again. Kept in its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Again {
    /// Its number in the lane.
    pub seq: u64,
    /// Its number in the file, as the claim gave it.
    pub line: u64,
    /// When it may be claimed again.
    pub not_before: Timestamp,
    /// What kind of trouble it was.
    pub class: Class,
    /// A stable word for what went wrong.
    pub error_code: String,
    /// A sentence about what went wrong.
    pub error: String,
}

/// What became of lines of one lease. Lines not named stay leased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcomes {
    /// The proof, as the last reply gave it.
    pub held: LeaseProof,
    /// Lines with a result.
    pub finished: Vec<Finished>,
    /// Lines to be attempted again.
    pub again: Vec<Again>,
    /// Lines (by `seq`) given back untried; no attempt is counted.
    pub released: LineSet,
}

impl Outcomes {
    /// No outcomes yet for that lease.
    pub fn of(held: LeaseProof) -> Self {
        Self { held, finished: Vec::new(), again: Vec::new(), released: LineSet::new() }
    }
}

/// One transaction: record what finished, return what must be retried, claim the next tranche.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The instance that asks, and holds the leases.
    pub instance: InstanceId,
    /// At most [`TURN_LEASES_MAX`], each lease once.
    pub outcomes: Vec<Outcomes>,
    /// What to claim next in the same transaction, if anything.
    pub claim: Option<Request>,
}

impl Turn {
    /// `Invalid` when it records too many leases, or one of them twice, or claims what no claim may have.
    pub fn check(&self) -> Result<()> {
        error::at_most("outcomes", self.outcomes.len(), TURN_LEASES_MAX)?;
        let ids = || self.outcomes.iter().map(|outcomes| outcomes.held.id);
        let is_earlier =
            |(at, id): &(usize, LeaseId)| ids().take(*at).any(|earlier| earlier == *id);
        if let Some((_, twice)) = ids().enumerate().find(is_earlier) {
            return Err(Error::invalid("outcomes", format!("lease {twice} is named twice")));
        }
        self.claim.as_ref().map_or(Ok(()), Request::check)
    }
}

/// What recording did to one lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fold {
    /// The outcomes are recorded.
    Kept {
        /// The lease.
        lease: LeaseId,
        /// What is left of it; none when nothing is outstanding and the lease is gone.
        held: Option<LeaseProof>,
        /// Outcomes for these lines were dropped: they were not outstanding any more.
        ignored: LineSet,
    },
    /// The lease was taken back, or ended already: nothing was recorded.
    Lost {
        /// The lease.
        lease: LeaseId,
    },
}

/// What a turn did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// One for each of the turn's outcomes, in their order.
    pub folds: Vec<Fold>,
    /// The claimed tranche; none when nothing can be claimed now.
    pub claimed: Option<Tranche>,
    /// Batches whose last lane this turn made done: they wait to be finalised.
    pub finalizing: Vec<BatchId>,
    /// Leases of the turn that must not go on, ascending; see [`crate::claim::Polled::stopped`].
    pub stopped: Vec<LeaseId>,
}

/// The stage that writes outcomes.
#[async_trait]
pub trait Record {
    /// Records and claims in one commit. After a lost reply, repeat the same turn.
    async fn turn(&self, turn: Turn) -> Result<Reply>;

    /// A turn without a claim.
    async fn record(&self, instance: InstanceId, outcomes: Vec<Outcomes>) -> Result<Reply> {
        self.turn(Turn { instance, outcomes, claim: None }).await
    }
}

/// Lines that go back together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Back {
    /// They were attempted: their attempts rise by one and their crash count goes back to 0.
    pub tried: bool,
    /// When they may be claimed again; none for at once.
    pub not_before: Option<Timestamp>,
    /// The lines; their text has at most [`TEXT_BYTES_MAX`] bytes.
    pub lines: LineSet,
}

/// What outcomes mean for a lease with a given outstanding set: pure, the same for every backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan<'a> {
    /// Results to insert.
    pub finished: Vec<&'a Finished>,
    /// History to append.
    pub again: Vec<&'a Again>,
    /// Returned sets to add.
    pub backs: Vec<Back>,
    /// The lines that stay leased.
    pub remaining: LineSet,
    /// Named lines that were not outstanding.
    pub ignored: LineSet,
    /// Results by [`Status::code`].
    pub statuses: [u64; 4],
}

impl Plan<'_> {
    /// Lines that go back.
    pub fn returned(&self) -> u64 {
        self.backs.iter().map(|back| back.lines.len()).sum()
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.finished.is_empty() && self.backs.is_empty()
    }
}

/// Plans the outcomes against what is outstanding. `Invalid` when a line is named twice.
pub fn plan<'a>(outcomes: &'a Outcomes, outstanding: &LineSet) -> Result<Plan<'a>> {
    let named = named_lines(outcomes)?;
    let known = |seq: &u64| outstanding.contains(*seq);
    let finished: Vec<_> = outcomes.finished.iter().filter(|line| known(&line.seq)).collect();
    let again: Vec<_> = outcomes.again.iter().filter(|line| known(&line.seq)).collect();
    let mut statuses = [0; 4];
    for line in &finished {
        statuses[usize::try_from(line.status.code()).expect("codes are small")] += 1;
    }
    Ok(Plan {
        backs: backs(&again, &outcomes.released.intersection(outstanding)),
        finished,
        again,
        remaining: outstanding.difference(&named),
        ignored: named.difference(outstanding),
        statuses,
    })
}

fn named_lines(outcomes: &Outcomes) -> Result<LineSet> {
    let finished = outcomes.finished.iter().map(|line| line.seq);
    let again = outcomes.again.iter().map(|line| line.seq);
    let tried: LineSet = finished.chain(again).collect();
    let twice = tried.len() != (outcomes.finished.len() + outcomes.again.len()) as u64;
    if twice || !tried.is_disjoint(&outcomes.released) {
        let lease = outcomes.held.id;
        let because = "a line has two outcomes in one turn";
        return Err(Error::of(Kind::Invalid).about(lease).because(because));
    }
    Ok(tried.union(&outcomes.released))
}

/// Groups lines that go back into buckets, each small enough to be stored as one row.
fn backs(again: &[&Again], released: &LineSet) -> Vec<Back> {
    let mut buckets = std::collections::BTreeMap::<Timestamp, Vec<u64>>::new();
    for line in again {
        buckets.entry(bucket(line.not_before)).or_default().push(line.seq);
    }
    let tried = buckets.into_iter().map(|(at, seqs)| (true, Some(at), seqs.into_iter().collect()));
    let untried = (!released.is_empty()).then(|| (false, None, released.clone()));
    tried
        .chain(untried)
        .flat_map(|(tried, not_before, lines): (bool, Option<Timestamp>, LineSet)| {
            let parts = lines.split_text(TEXT_BYTES_MAX);
            parts.into_iter().map(move |lines| Back { tried, not_before, lines })
        })
        .collect()
}

/// The end of the bucket that a time falls in: never earlier than asked.
pub fn bucket(at: Timestamp) -> Timestamp {
    let (ms, part) = (at.as_millisecond(), at.subsec_nanosecond() % 1_000_000);
    let ms = if part > 0 { ms + 1 } else { ms };
    let over = ms.rem_euclid(BUCKET_MS);
    let up = if over == 0 { ms } else { ms + BUCKET_MS - over };
    // The last instant there is has no bucket after it.
    Timestamp::from_millisecond(up).unwrap_or(at)
}
