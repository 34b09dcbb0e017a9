//! Messages to be sent, as parallel arrays, and where they went.

use std::collections::BTreeMap;

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use windrow_domain::message::digest;
use windrow_domain::partition::stream_hash;
use windrow_store::error::{Error, Kind, Result};
use windrow_store::message::{MessageRef, NewMessage, Sent};

use super::json;
use super::stream_cache::{StreamCache, StreamKey};
use crate::db::Param;

/// A send as `sql/message/put_messages.sql` takes it: streams and ids sorted by bytes, each once.
#[derive(Default)]
pub(crate) struct MessageArrays<'a> {
    owners: Vec<&'a str>,
    queues: Vec<i16>,
    names: Vec<&'a str>,
    counts: Vec<i32>,
    hashes: Vec<i64>,
    /// The numbers of the streams, when all are known.
    numbers: Option<Vec<i64>>,
    streams: Vec<i32>,
    backs: Vec<i32>,
    ids: Vec<&'a str>,
    kinds: Vec<&'a str>,
    payloads: Vec<&'a [u8]>,
    /// What hardly any message has is not there at all when none has it.
    headers: Option<Vec<Option<String>>>,
    not_befores: Option<Vec<Option<Timestamp>>>,
    waitings: Option<Vec<Option<String>>>,
    once: Vec<i32>,
    once_owners: Vec<&'a str>,
    once_queues: Vec<i16>,
    once_ids: Vec<&'a str>,
    once_digests: Vec<[u8; 32]>,
    /// For every message of the send, the place of the one in the arrays that it is, or repeats.
    places: Vec<(usize, bool)>,
}

impl<'a> MessageArrays<'a> {
    /// `Conflict` when two messages have the same id and say different things.
    pub(crate) fn of(messages: &'a [NewMessage]) -> Result<Self> {
        let mut puts = Self::default();
        let mut kept: Vec<&NewMessage> = Vec::with_capacity(messages.len());
        let mut seen = BTreeMap::new();
        for message in messages {
            if message.is_deduped() {
                let NewMessage { queue, stream, kind, payload, .. } = message;
                let digest = digest(*queue, stream, kind, payload);
                let key = (message.owner.as_str(), queue.code(), message.id.as_str());
                let (first, said) = *seen.entry(key).or_insert((kept.len(), digest));
                if said != digest {
                    let because = format!("message id {} is used for two messages", message.id);
                    return Err(Error::of(Kind::Conflict).because(because));
                }
                if first < kept.len() {
                    puts.places.push((first, true));
                    continue;
                }
            }
            puts.places.push((kept.len(), false));
            kept.push(message);
        }
        for ((owner, queue, id), (first, digest)) in seen {
            puts.once.push(i32::try_from(first + 1).expect("bounded by SEND_MAX"));
            puts.once_owners.push(owner);
            puts.once_queues.push(queue);
            puts.once_ids.push(id);
            puts.once_digests.push(digest);
        }
        puts.add(&kept);
        Ok(puts)
    }

    fn add(&mut self, kept: &[&'a NewMessage]) {
        let key = |one: &'a NewMessage| (one.owner.as_str(), one.queue.code(), one.stream.as_str());
        let mut numbers: BTreeMap<_, usize> = kept.iter().map(|one| (key(one), 0)).collect();
        for (at, ((owner, queue, name), number)) in numbers.iter_mut().enumerate() {
            *number = at;
            self.owners.push(owner);
            self.queues.push(*queue);
            self.names.push(name);
            self.hashes.push(stream_hash(owner, name).into());
        }
        self.counts = vec![0; numbers.len()];
        self.backs = vec![0; kept.len()];
        for (message, back) in kept.iter().zip(&mut self.backs).rev() {
            let count = &mut self.counts[numbers[&key(message)]];
            *back = *count;
            *count += 1;
        }
        for message in kept {
            let stream = numbers[&key(message)] + 1;
            self.streams.push(i32::try_from(stream).expect("bounded by SEND_MAX"));
            self.ids.push(&message.id);
            self.kinds.push(&message.kind);
            self.payloads.push(&message.payload);
        }
        self.headers = if_any(kept, |one| json(&one.headers));
        self.not_befores = if_any(kept, |one| one.not_before);
        self.waitings = if_any(kept, |one| consumers(&one.consumers));
    }

    /// The streams, sorted by bytes.
    fn keys(&self) -> impl Iterator<Item = StreamKey<'a>> {
        let of = self.owners.iter().zip(&self.queues).zip(&self.names);
        of.map(|((owner, queue), name)| (*owner, *queue, *name))
    }

    /// Looks whether the streams are known.
    pub(super) fn recall(&mut self, known: &StreamCache) {
        self.numbers = known.numbers(self.keys());
    }

    /// They were not what they were known for. False when they were not known.
    pub(super) fn mistook(&mut self, known: &StreamCache) -> bool {
        known.forget(self.keys());
        self.numbers.take().is_some()
    }

    /// In the order of `sql/message/put_messages.sql`.
    pub(crate) fn params<'b>(&'b self, now: &'b Option<Timestamp>) -> [Param<'b>; 20] {
        [
            (now, Type::TIMESTAMPTZ),
            (&self.owners, Type::TEXT_ARRAY),
            (&self.queues, Type::INT2_ARRAY),
            (&self.names, Type::TEXT_ARRAY),
            (&self.counts, Type::INT4_ARRAY),
            (&self.hashes, Type::INT8_ARRAY),
            (&self.numbers, Type::INT8_ARRAY),
            (&self.streams, Type::INT4_ARRAY),
            (&self.backs, Type::INT4_ARRAY),
            (&self.ids, Type::TEXT_ARRAY),
            (&self.kinds, Type::TEXT_ARRAY),
            (&self.payloads, Type::BYTEA_ARRAY),
            (&self.headers, Type::TEXT_ARRAY),
            (&self.not_befores, Type::TIMESTAMPTZ_ARRAY),
            (&self.waitings, Type::TEXT_ARRAY),
            (&self.once, Type::INT4_ARRAY),
            (&self.once_owners, Type::TEXT_ARRAY),
            (&self.once_queues, Type::INT2_ARRAY),
            (&self.once_ids, Type::TEXT_ARRAY),
            (&self.once_digests, Type::BYTEA_ARRAY),
        ]
    }

    /// What the answer says of each message of the send, which has been committed.
    pub(super) fn sent(&self, answer: &[Row], known: &StreamCache) -> Vec<Sent> {
        let Some(row) = answer.first() else { return Vec::new() };
        let ends = PlaceArrays::read(row, "o_stream", "o_partition", "o_position");
        if self.numbers.is_none() {
            known.learn(self.keys().zip(ends.streams.iter().copied()));
        }
        let index = |number: i32| usize::try_from(number - 1).expect("from one");
        let place = |(stream, back): (&i32, &i32)| {
            let end = ends.at(index(*stream));
            let position = end.position - u64::from(back.cast_unsigned());
            Sent { at: MessageRef { position, ..end }, is_duplicate: false }
        };
        let mut kept: Vec<Sent> = self.streams.iter().zip(&self.backs).map(place).collect();
        let repeats: Vec<i32> = row.get("r_m");
        if !repeats.is_empty() {
            let firsts = PlaceArrays::read(row, "r_stream", "r_partition", "r_position");
            for (at, repeat) in repeats.into_iter().enumerate() {
                kept[index(repeat)] = Sent { at: firsts.at(at), is_duplicate: true };
            }
        }
        let sent = |&(at, repeats): &(usize, bool)| {
            let one = kept[at];
            Sent { is_duplicate: one.is_duplicate || repeats, ..one }
        };
        self.places.iter().map(sent).collect()
    }
}

/// PlaceSets as parallel arrays.
struct PlaceArrays {
    streams: Vec<i64>,
    partitions: Vec<i32>,
    positions: Vec<i64>,
}

impl PlaceArrays {
    fn read(row: &Row, streams: &str, partitions: &str, positions: &str) -> Self {
        Self {
            streams: row.get(streams),
            partitions: row.get(partitions),
            positions: row.get(positions),
        }
    }

    fn at(&self, index: usize) -> MessageRef {
        super::place(self.partitions[index], self.streams[index], self.positions[index])
    }
}

/// One of each message, or nothing when none has it.
fn if_any<T>(
    kept: &[&NewMessage],
    of: impl Fn(&NewMessage) -> Option<T>,
) -> Option<Vec<Option<T>>> {
    let all: Vec<Option<T>> = kept.iter().map(|one| of(one)).collect();
    all.iter().any(Option::is_some).then_some(all)
}

/// Names as a JSON array; none when there are none.
pub(super) fn consumers(names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| serde_json::to_string(names).expect("names are text"))
}
