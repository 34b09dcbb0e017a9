//! Reading what an instance owns.

use std::collections::BTreeMap;

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;
use windrow_store::error::{Error, Kind, Result};
use windrow_store::message::{Mark, Read, Work};

use crate::db::Param;
use crate::partition::number;
use crate::rows;

/// A read as `sql/message/read_owned.sql` takes it.
pub(super) struct Reads {
    instance: Uuid,
    partitions: Vec<i32>,
    epochs: Vec<i64>,
    afters: Vec<i64>,
    held: Vec<i64>,
    held_positions: Vec<i64>,
    messages_max: i32,
    stream_messages_max: i32,
}

impl Reads {
    pub(super) fn of(read: &Read) -> Self {
        let from = &read.from;
        let mut held = BTreeMap::new();
        for &(stream, position) in &read.held {
            let last = held.entry(stream.cast_signed()).or_insert(0);
            *last = position.cast_signed().max(*last);
        }
        Self {
            instance: read.instance.0,
            partitions: from.iter().map(|from| i32::from(from.fence.partition)).collect(),
            epochs: from.iter().map(|from| from.fence.epoch.cast_signed()).collect(),
            afters: from.iter().map(|from| from.after_stream.cast_signed()).collect(),
            held: held.keys().copied().collect(),
            held_positions: held.into_values().collect(),
            messages_max: read.messages_max.cast_signed(),
            stream_messages_max: read.stream_messages_max.cast_signed(),
        }
    }

    pub(super) fn params<'a>(&'a self, now: &'a Option<Timestamp>) -> [Param<'a>; 9] {
        [
            (now, Type::TIMESTAMPTZ),
            (&self.instance, Type::UUID),
            (&self.partitions, Type::INT4_ARRAY),
            (&self.epochs, Type::INT8_ARRAY),
            (&self.afters, Type::INT8_ARRAY),
            (&self.held, Type::INT8_ARRAY),
            (&self.held_positions, Type::INT8_ARRAY),
            (&self.messages_max, Type::INT4),
            (&self.stream_messages_max, Type::INT4),
        ]
    }
}

/// What a read found.
pub(super) fn work(found: &[Row]) -> Result<Work> {
    let mut work = Work::default();
    for row in found {
        match row.get::<_, i16>("what") {
            0 => work.messages.push(super::message(row)?),
            1 => work.marks.push(Mark {
                partition: number(row, "partition"),
                after_stream: rows::count(row, "stream_no"),
            }),
            2 => work.lost.push(number(row, "partition")),
            3 => work.next_due = row.get("not_before"),
            _ => return Err(Error::of(Kind::Corrupt)),
        }
    }
    Ok(work)
}
