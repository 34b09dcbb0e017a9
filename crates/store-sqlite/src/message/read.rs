//! Reading: what an instance owns, stream by stream, without a write.

use std::collections::{HashMap, HashSet};

use rusqlite::params;
use windrow_domain::PartitionNo;
use windrow_store::Result;
use windrow_store::message::{Mark, Message, Read, ReadFrom, Work};

use super::read_message;
use crate::tx::{Tx, sql};
use crate::{partition, rows};

/// Behind every place of a stream.
const END: i64 = i64::MAX;

pub(super) fn owned(tx: &Tx<'_>, read: &Read) -> Result<Work> {
    let fences = read.from.iter().map(|from| &from.fence);
    let lost = partition::lost(tx, read.instance, fences)?;
    let mine: Vec<&ReadFrom> =
        read.from.iter().filter(|from| !lost.contains(&from.fence.partition)).collect();
    let partitions: Vec<PartitionNo> = mine.iter().map(|from| from.fence.partition).collect();
    let partitions = serde_json::to_string(&partitions).expect("numbers are JSON");
    // Most partitions of a quiet instance are empty, and one statement says which.
    let busy: HashSet<PartitionNo> = tx
        .all(sql!("message/busy_partitions"), [&partitions], |row| row.get(0))?
        .into_iter()
        .collect();
    let held = read.held.iter().copied().collect();
    let mut walk = Walk { tx, read, held, found: Vec::new() };
    let mut marks = Vec::with_capacity(mine.len());
    for from in &mine {
        if walk.is_full() {
            break;
        }
        let partition = from.fence.partition;
        let after_stream = if busy.contains(&partition) {
            walk.partition(partition, from.after_stream)?
        } else {
            0
        };
        marks.push(Mark { partition, after_stream });
    }
    let messages = walk.found;
    let due = params![partitions, tx.now];
    let next_due = tx.sure(sql!("message/next_due"), due, |row| rows::time_opt(row, 0))?;
    Ok(Work { messages, marks, lost, next_due })
}

/// A walk through partitions that collects what is due.
struct Walk<'w, 'c> {
    tx: &'w Tx<'c>,
    read: &'w Read,
    /// The last position that the reader has of a stream.
    held: HashMap<u64, u64>,
    found: Vec<Message>,
}

/// Where a walk is in a partition.
struct Step {
    stream: u64,
    /// Messages of this stream that were found.
    taken: u32,
    /// Where to begin anew: behind this place.
    seek: (i64, i64),
}

/// What a row says about the walk.
enum Turn {
    /// The row is work.
    Take,
    /// Nothing of what comes next is wanted: begin anew behind this place.
    Seek(i64, i64),
    /// There is no room for it.
    Full,
}

impl Walk<'_, '_> {
    fn is_full(&self) -> bool {
        self.found.len() >= self.read.messages_max as usize
    }

    /// Walks a partition's streams behind one. Gives the last stream that was looked at, or 0 at the
    /// partition's end.
    fn partition(&mut self, no: PartitionNo, after: u64) -> Result<u64> {
        let mut step = Step { stream: after, taken: 0, seek: (rows::int(after), END) };
        while !self.run(no, &mut step)? {
            if self.is_full() {
                return Ok(step.stream);
            }
        }
        Ok(0)
    }

    /// Reads on from where the step is; true at the partition's end.
    fn run(&mut self, no: PartitionNo, step: &mut Step) -> Result<bool> {
        let tx = self.tx;
        let mut statement = tx.prepare(sql!("message/read_owned"))?;
        let behind = params![no, step.seek.0, step.seek.1];
        let mut rows = statement.query(behind).map_err(|cause| tx.failed(cause))?;
        while let Some(row) = rows.next().map_err(|cause| tx.failed(cause))? {
            match self.judge(row, step).map_err(|cause| tx.failed(cause))? {
                Turn::Take => {
                    let message = read_message(row).map_err(|cause| tx.failed(cause))?;
                    self.found.push(message);
                    step.taken += 1;
                }
                Turn::Seek(stream, position) => {
                    step.seek = (stream, position);
                    return Ok(false);
                }
                Turn::Full => return Ok(false),
            }
        }
        Ok(true)
    }

    fn judge(&self, row: &rusqlite::Row<'_>, step: &mut Step) -> rusqlite::Result<Turn> {
        if self.is_full() {
            return Ok(Turn::Full);
        }
        let (stream, position) = (rows::count(row, 1)?, rows::count(row, 2)?);
        if stream != step.stream {
            (step.stream, step.taken) = (stream, 0);
            match self.held.get(&stream) {
                Some(&held) if position <= held => {
                    return Ok(Turn::Seek(rows::int(stream), rows::int(held)));
                }
                Some(_) => {}
                None => {
                    let not_before: Option<i64> = row.get(11)?;
                    if not_before.is_some_and(|at| at > self.tx.now) {
                        return Ok(Turn::Seek(rows::int(stream), END));
                    }
                }
            }
        }
        if step.taken >= self.read.stream_messages_max {
            Ok(Turn::Seek(rows::int(stream), END))
        } else {
            Ok(Turn::Take)
        }
    }
}
