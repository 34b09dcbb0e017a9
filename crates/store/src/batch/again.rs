//! Running finished lines again, trying waiting ones now, and writing shaped rows anew.
//!
//! Holds throughout: a step looks at a bounded number of lines; what a guard leaves alone is counted, never
//! silently passed over; the guards are judged here, once for every backend.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windrow_domain::attempt::{Class, Status};
use windrow_domain::{BatchId, LineSet};

use super::check_window;
use crate::{Error, Result, error};

/// Most finished lines that one call of [`crate::Batches::reprocess`] looks at.
pub const REPROCESS_LINES_MAX: u32 = 10_000;
/// Within this time a line that is put back again waits longer each time.
pub const REPROCESS_HOUR_SECS: u64 = 3600;
/// Longest such wait.
pub const REPROCESS_WAIT_MINUTES_MAX: u64 = 64;
/// Most ranges of lines of one call of [`crate::Batches::try_now`].
pub const TRY_NOW_RANGES_MAX: usize = 1000;
/// Most rows of one call of [`crate::Batches::reshape`].
pub const RESHAPE_LINES_MAX: usize = 1000;
/// Most bytes of the shaped rows of one such call.
pub const RESHAPE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Which finished lines to run again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Select {
    /// All with one of these outcomes.
    Statuses(Vec<Status>),
    /// These, by line number. A line without a result is left where it is; one that an instance holds is
    /// counted as running.
    Lines(LineSet),
}

/// The sentence that a line's history keeps of a result without an error that was put back.
pub fn put_back_error(status: Status) -> String {
    format!("It was {}, and was put back to run again.", status.as_str().replace('_', " "))
}

/// The class that a line's history keeps of a result that was put back: its own, so that a miss stays a
/// miss.
pub fn put_back_class(status: Status, class: Option<Class>) -> Class {
    match (class, status) {
        (Some(class), _) => class,
        (None, Status::NotFound) => Class::NotFound,
        (None, Status::Completed | Status::Failed | Status::Skipped) => Class::Reprocessed,
    }
}

/// A step of a reprocess.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reprocess {
    /// The batch.
    pub batch: BatchId,
    /// The finished lines that are put back.
    pub select: Select,
    /// None for the first step; then the generation that the first step gave, so that a line which
    /// finished again in the meantime is not taken twice.
    pub generation: Option<u32>,
    /// The step begins with this line number: 0, then as the step before said.
    pub from: u64,
    /// Most lines that this step looks at, up to [`REPROCESS_LINES_MAX`].
    pub lines_max: u32,
    /// The window that a closed batch gets with its first step, in seconds; none for one as long as its
    /// last.
    pub window_secs: Option<u64>,
    /// Guard: a line that was tried so often, over all generations, is left alone.
    pub attempts_max: Option<u32>,
    /// Takes permanent failures, too. A guard leaves them alone otherwise: trying again cannot help.
    pub permanent: bool,
    /// No guard holds, and no line waits: it is due at once however often it was put back.
    pub force: bool,
    /// Each line begins with no attempts behind it; otherwise it keeps those of its last generation.
    pub reset_attempts: bool,
}

/// A finished line as the guards see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its outcome.
    pub status: Status,
    /// What kind of trouble ended it.
    pub class: Option<Class>,
    /// What its history has that used up an attempt, over all generations; its result is one more.
    pub tried: u32,
    /// How often it was put back within [`REPROCESS_HOUR_SECS`].
    pub put_back: u32,
}

/// What the guards say of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// It is put back, and due after so long.
    Takes(Duration),
    /// It is left alone: a permanent failure.
    Permanent,
    /// It is left alone: it was tried too often.
    TooOften,
}

impl Reprocess {
    /// The first step over these lines, as large as a step may be: no guard holds, and attempts begin anew.
    pub fn first(batch: BatchId, select: Select) -> Self {
        Self {
            batch,
            select,
            generation: None,
            from: 0,
            lines_max: REPROCESS_LINES_MAX,
            window_secs: None,
            attempts_max: None,
            permanent: true,
            force: true,
            reset_attempts: true,
        }
    }

    /// The same with the guards of a request of a person: permanent failures and lines that were tried so often
    /// are left alone, and what was put back within the hour waits.
    #[must_use]
    pub fn guarded(self, attempts_max: u32) -> Self {
        Self { attempts_max: Some(attempts_max), permanent: false, force: false, ..self }
    }

    /// The step after this one, if there is one.
    pub fn next(&self, done: &Reprocessed) -> Option<Self> {
        // Before the first line has moved there is no generation to go on with.
        let generation = (done.moved > 0).then_some(done.generation).or(self.generation);
        done.more.then(|| Self { generation, from: done.next, ..self.clone() })
    }

    /// `Invalid` when a step would look at no line or too many, or its window is out of bounds.
    pub fn check(&self) -> Result<()> {
        error::within("lines_max", self.lines_max.into(), REPROCESS_LINES_MAX.into())?;
        check_window(self.window_secs)
    }

    /// Whether a line is put back, and when it is due.
    pub fn judge(&self, line: &Candidate) -> Judged {
        if self.force {
            return Judged::Takes(Duration::ZERO);
        }
        if !self.permanent && line.class == Some(Class::Permanent) && line.status == Status::Failed
        {
            return Judged::Permanent;
        }
        if self.attempts_max.is_some_and(|max| line.tried.saturating_add(1) >= max) {
            return Judged::TooOften;
        }
        let minutes = match line.put_back {
            0 => 0,
            times => 1_u64.checked_shl(times).unwrap_or(u64::MAX).min(REPROCESS_WAIT_MINUTES_MAX),
        };
        Judged::Takes(Duration::from_secs(minutes * 60))
    }
}

/// How many lines each guard left alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftAlone {
    /// Permanent failures.
    pub permanent: u64,
    /// Lines that were tried too often.
    pub too_often: u64,
    /// Lines that were named and that an instance holds.
    pub running: u64,
}

impl std::ops::AddAssign for LeftAlone {
    fn add_assign(&mut self, more: Self) {
        self.permanent += more.permanent;
        self.too_often += more.too_often;
        self.running += more.running;
    }
}

/// What a step of a reprocess did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reprocessed {
    /// The generation that the lines run in; the batch's when none moved.
    pub generation: u32,
    /// Lines moved from finished to returned.
    pub moved: u64,
    /// Whether another step is needed.
    pub more: bool,
    /// The line that the next step begins with.
    pub next: u64,
    /// Lines of this step that a guard left alone.
    pub left_alone: LeftAlone,
}

/// What [`crate::Batches::try_now`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TriedNow {
    /// Lines that waited and are due now.
    pub due: u64,
    /// Lines that an instance holds already.
    pub leased: u64,
}

/// `Invalid` when too many ranges are named.
pub fn check_tried_now(lines: &LineSet) -> Result<()> {
    error::at_most("lines", lines.ranges().len(), TRY_NOW_RANGES_MAX)
}

/// A finished line that is shown anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reshaped {
    /// Its number in the file.
    pub line: u64,
    /// The generation of the result that was read.
    pub generation: u32,
    /// The row that a grid shows (JSON).
    pub shaped: String,
}

/// `Invalid` when there are too many rows, or a line is named twice, or they are too large together.
pub fn check_reshaped(rows: &[Reshaped]) -> Result<()> {
    error::at_most("rows", rows.len(), RESHAPE_LINES_MAX)?;
    let bytes: usize = rows.iter().map(|row| row.shaped.len()).sum();
    error::at_most("shaped", bytes, RESHAPE_BYTES_MAX)?;
    let lines: LineSet = rows.iter().map(|row| row.line).collect();
    if lines.len() < rows.len() as u64 {
        return Err(Error::invalid("rows", "a line is named twice"));
    }
    Ok(())
}
