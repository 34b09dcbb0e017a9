//! Running finished lines again, trying waiting ones now, and writing shaped rows anew.
//!
//! Holds throughout: what is moved was seen without a lock, and the function that moves it fails as stale unless
//! it is still so; then the caller looks again.

use std::collections::BTreeMap;

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use windrow_domain::attempt::{Class, Status};
use windrow_domain::batch::{Event, apply};
use windrow_domain::lines::TEXT_BYTES_MAX;
use windrow_domain::text::without_nul;
use windrow_domain::{BatchId, LineSet, Phase};
use windrow_store::batch::{
    Candidate, Judged, LeftAlone, REPROCESS_HOUR_SECS, Reprocess, Reprocessed, Reshaped, Select,
    TriedNow, put_back_error,
};
use windrow_store::error::{Error, Kind, Result};
use windrow_store::{Inspect, Scope};

use crate::db::{Sql, sql};
use crate::{PostgresBackend, rows};

/// Finished lines that a step takes, and what it says of the others.
struct Picked {
    lines: Vec<i64>,
    waits: Vec<i32>,
    /// By lane, attempts and wait: lines that go back together.
    sets: BTreeMap<(i16, i32, i32), Vec<u64>>,
    more: bool,
    next: u64,
    left_alone: LeftAlone,
}

/// Sets that go back, as parallel arrays.
#[derive(Default)]
struct Sets {
    lanes: Vec<i16>,
    attempts: Vec<i32>,
    waits: Vec<i32>,
    texts: Vec<String>,
    sizes: Vec<i32>,
}

impl Sets {
    fn of(sets: BTreeMap<(i16, i32, i32), Vec<u64>>) -> Self {
        let mut arrays = Self::default();
        for ((lane, attempts, wait), seqs) in sets {
            for part in LineSet::from_iter(seqs).split_text(TEXT_BYTES_MAX) {
                arrays.lanes.push(lane);
                arrays.attempts.push(attempts);
                arrays.waits.push(wait);
                arrays.sizes.push(size(&part));
                arrays.texts.push(part.to_string());
            }
        }
        arrays
    }
}

fn size(lines: &LineSet) -> i32 {
    i32::try_from(lines.len()).expect("bounded by the text of a set")
}

fn signed(line: u64) -> i64 {
    i64::try_from(line).unwrap_or(i64::MAX)
}

/// The ranges of a set, as two arrays; no line has a number near the largest.
fn bounds(lines: &LineSet) -> (Vec<i64>, Vec<i64>) {
    lines.ranges().iter().map(|&(lo, hi)| (signed(lo), signed(hi).min(i64::MAX - 1))).unzip()
}

impl PostgresBackend {
    pub(super) async fn reprocess_once(
        &self,
        scope: &Scope,
        step: &Reprocess,
    ) -> Result<Reprocessed> {
        let batch = self.batch(scope, step.batch).await?;
        let to = apply(batch.state, Event::Reprocessed).map_err(Error::refusal)?;
        if step.generation.is_some_and(|generation| generation != batch.generation) {
            let because = format!("the batch is in generation {}", batch.generation);
            return Err(Error::of(Kind::Conflict).because(because));
        }
        let generation = step.generation.unwrap_or(batch.generation + 1);
        let mut picked = self.find_finished(step, generation).await?;
        if let (Select::Lines(chosen), 0) = (&step.select, step.from) {
            picked.left_alone.running = self.count_running(step.batch, chosen).await?;
        }
        let (moved, more, next) = (picked.lines.len() as u64, picked.more, picked.next);
        let left_alone = picked.left_alone;
        if moved == 0 {
            let generation = batch.generation;
            return Ok(Reprocessed { generation, moved, more, next, left_alone });
        }
        let sets = Sets::of(picked.sets);
        let words = Status::ALL.map(Status::as_str);
        let errors = Status::ALL.map(put_back_error);
        let params = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&scope.owner() as _, Type::TEXT),
            (&batch.id.0 as _, Type::UUID),
            (&batch.state.as_str() as _, Type::TEXT),
            (&to.as_str() as _, Type::TEXT),
            (&Phase::of(to).as_str() as _, Type::TEXT),
            (&batch.generation.cast_signed() as _, Type::INT4),
            (&generation.cast_signed() as _, Type::INT4),
            (&picked.lines as _, Type::INT8_ARRAY),
            (&picked.waits as _, Type::INT4_ARRAY),
            (&sets.lanes as _, Type::INT2_ARRAY),
            (&sets.attempts as _, Type::INT4_ARRAY),
            (&sets.waits as _, Type::INT4_ARRAY),
            (&sets.texts as _, Type::TEXT_ARRAY),
            (&sets.sizes as _, Type::INT4_ARRAY),
            (&Class::Reprocessed.as_str() as _, Type::TEXT),
            (&Class::NotFound.as_str() as _, Type::TEXT),
            (&&words[..] as _, Type::TEXT_ARRAY),
            (&&errors[..] as _, Type::TEXT_ARRAY),
            (&step.reset_attempts as _, Type::BOOL),
            (&step.window_secs.map(u64::cast_signed) as _, Type::INT8),
        ];
        self.db.rows(Sql::value("batch/reprocess"), &params).await?;
        Ok(Reprocessed { generation, moved, more, next, left_alone })
    }

    /// Looks at up to `lines_max` finished lines of before `generation` that the step selects.
    async fn find_finished(&self, step: &Reprocess, generation: u32) -> Result<Picked> {
        let (batch, generation) = (step.batch.0, generation.cast_signed());
        let limit = i64::from(step.lines_max) + 1;
        let since = if step.force { None } else { Some(self.an_hour_ago().await?) };
        let found = match &step.select {
            Select::Statuses(statuses) => {
                let sql = if statuses.contains(&Status::Completed) {
                    sql!("batch/find_finished")
                } else {
                    sql!("batch/find_unsuccessful")
                };
                let codes: Vec<i16> = statuses.iter().map(|status| status.code()).collect();
                let params = [
                    (&batch as _, Type::UUID),
                    (&generation as _, Type::INT4),
                    (&codes as _, Type::INT2_ARRAY),
                    (&limit as _, Type::INT8),
                    (&signed(step.from) as _, Type::INT8),
                    (&since as _, Type::TIMESTAMPTZ),
                ];
                self.db.rows(sql, &params).await?
            }
            Select::Lines(lines) => {
                let (los, his) = bounds(&lines.intersection(&LineSet::range(step.from, u64::MAX)));
                let params = [
                    (&batch as _, Type::UUID),
                    (&generation as _, Type::INT4),
                    (&los as _, Type::INT8_ARRAY),
                    (&his as _, Type::INT8_ARRAY),
                    (&limit as _, Type::INT8),
                    (&since as _, Type::TIMESTAMPTZ),
                ];
                self.db.rows(sql!("batch/find_lines"), &params).await?
            }
        };
        pick(step, found)
    }

    /// By the database's clock, like the times that it is compared with.
    async fn an_hour_ago(&self) -> Result<Timestamp> {
        let now = match self.db.now() {
            Some(now) => now,
            None => self.db.rows(sql!("batch/now"), &[]).await?[0].get("now"),
        };
        let hour = jiff::SignedDuration::from_secs(REPROCESS_HOUR_SECS.cast_signed());
        Ok(now.checked_sub(hour).unwrap_or(Timestamp::MIN))
    }

    /// How many of the chosen lines an instance holds.
    async fn count_running(&self, batch: BatchId, chosen: &LineSet) -> Result<u64> {
        let params = [(&batch.0 as _, Type::UUID)];
        let held = self.db.rows(sql!("batch/leased_lines"), &params).await?;
        let held: LineSet = held.iter().map(|row| rows::count(row, "line")).collect();
        Ok(held.intersection(chosen).len())
    }

    pub(super) async fn try_now_once(
        &self,
        scope: &Scope,
        batch: BatchId,
        lines: &LineSet,
    ) -> Result<TriedNow> {
        self.batch(scope, batch).await?;
        let (los, his) = bounds(lines);
        let params = [
            (&batch.0 as _, Type::UUID),
            (&los as _, Type::INT8_ARRAY),
            (&his as _, Type::INT8_ARRAY),
        ];
        let mut wanted = BTreeMap::<i16, LineSet>::new();
        for row in self.db.rows(Sql::rows("batch/find_seqs"), &params).await? {
            let (first, behind) = (rows::count(&row, "first"), rows::count(&row, "behind"));
            let seqs = wanted.entry(row.get("lane")).or_default();
            *seqs = seqs.union(&LineSet::span(first, behind - first));
        }
        let params = [(&batch.0 as _, Type::UUID), (&self.db.now() as _, Type::TIMESTAMPTZ)];
        let found = self.db.rows(sql!("batch/find_waiting"), &params).await?;
        let (split, tried) = Split::of(&found, &wanted)?;
        if tried.due > 0 {
            let params = [
                (&self.db.now() as _, Type::TIMESTAMPTZ),
                (&batch.0 as _, Type::UUID),
                (&split.lanes as _, Type::INT2_ARRAY),
                (&split.ids as _, Type::INT8_ARRAY),
                (&split.seen as _, Type::TEXT_ARRAY),
                (&split.due as _, Type::TEXT_ARRAY),
                (&split.due_sizes as _, Type::INT4_ARRAY),
                (&split.rests as _, Type::TEXT_ARRAY),
                (&split.rest_sizes as _, Type::INT4_ARRAY),
            ];
            self.db.rows(Sql::value("batch/try_now"), &params).await?;
        }
        Ok(tried)
    }

    pub(super) async fn write_shaped(
        &self,
        scope: &Scope,
        batch: BatchId,
        shaped: Vec<Reshaped>,
    ) -> Result<u64> {
        let lines: Vec<i64> = shaped.iter().map(|row| signed(row.line)).collect();
        let generations: Vec<i32> = shaped.iter().map(|row| row.generation.cast_signed()).collect();
        let texts: Vec<_> = shaped.iter().map(|row| without_nul(&row.shaped)).collect();
        let params = [
            (&scope.owner() as _, Type::TEXT),
            (&batch.0 as _, Type::UUID),
            (&lines as _, Type::INT8_ARRAY),
            (&generations as _, Type::INT4_ARRAY),
            (&texts as _, Type::TEXT_ARRAY),
        ];
        let answer = self.db.rows(Sql::value("batch/reshape"), &params).await?;
        let written: Option<i64> = answer[0].get("answer");
        written.map(i64::cast_unsigned).ok_or_else(|| Error::of(Kind::Missing))
    }
}

/// What the guards of a step say of the lines that were found, one more than it may look at.
fn pick(step: &Reprocess, mut found: Vec<Row>) -> Result<Picked> {
    let more = found.len() > step.lines_max as usize;
    found.truncate(step.lines_max as usize);
    let next = found.last().map_or(step.from, |row| rows::count(row, "line") + 1);
    let (lines, waits) = (Vec::new(), Vec::new());
    let (sets, left_alone) = (BTreeMap::new(), LeftAlone::default());
    let mut picked = Picked { lines, waits, sets, more, next, left_alone };
    for row in found {
        let status = Status::from_code(row.get("status"))
            .ok_or_else(|| rows::corrupt("status", "no such status"))?;
        let seen = Candidate {
            status,
            class: rows::read_opt(&row, "class")?,
            tried: rows::small(&row, "tried"),
            put_back: rows::small(&row, "put_back"),
        };
        let wait = match step.judge(&seen) {
            Judged::Takes(wait) => i32::try_from(wait.as_secs()).expect("bounded by its maximum"),
            Judged::Permanent => {
                picked.left_alone.permanent += 1;
                continue;
            }
            Judged::TooOften => {
                picked.left_alone.too_often += 1;
                continue;
            }
        };
        picked.lines.push(row.get("line"));
        picked.waits.push(wait);
        let attempts = if step.reset_attempts { 0 } else { row.get("attempts") };
        let seqs = picked.sets.entry((row.get("lane"), attempts, wait)).or_default();
        seqs.push(rows::count(&row, "seq"));
    }
    Ok(picked)
}

/// How returned sets are split, as parallel arrays.
#[derive(Default)]
struct Split {
    lanes: Vec<i16>,
    ids: Vec<i64>,
    seen: Vec<String>,
    due: Vec<String>,
    due_sizes: Vec<i32>,
    rests: Vec<String>,
    rest_sizes: Vec<i32>,
}

impl Split {
    fn of(found: &[Row], wanted: &BTreeMap<i16, LineSet>) -> Result<(Self, TriedNow)> {
        let (mut split, mut tried) = (Self::default(), TriedNow::default());
        for row in found {
            let lane: i16 = row.get("lane");
            let Some(seqs) = wanted.get(&lane) else { continue };
            let lines: LineSet = rows::read(row, "lines")?;
            let (now, rest) = (lines.intersection(seqs), lines.difference(seqs));
            if row.get("leased") {
                tried.leased += now.len();
            } else if !now.is_empty() {
                tried.due += now.len();
                split.lanes.push(lane);
                split.ids.push(row.get("id"));
                split.seen.push(row.get("lines"));
                split.due_sizes.push(size(&now));
                split.due.push(now.to_string());
                split.rest_sizes.push(size(&rest));
                split.rests.push(rest.to_string());
            }
        }
        Ok((split, tried))
    }
}
