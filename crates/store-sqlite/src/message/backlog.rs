//! The backlog: how much waits, counted within bounds.

use rusqlite::params;
use windrow_domain::Queue;
use windrow_store::Result;
use windrow_store::message::{BACKLOG_MAX, Backlog};

use super::read_queue;
use crate::rows;
use crate::tx::{Tx, sql};

pub(super) fn count(tx: &Tx<'_>) -> Result<Vec<Backlog>> {
    // One walk for all queues, long enough that one of them rarely hides another.
    let most = rows::int(BACKLOG_MAX * Queue::ALL.len() as u64);
    let waiting = tx.all(sql!("message/backlog"), [most], |row| {
        Ok((read_queue(row, 0)?, rows::count(row, 1)?, rows::time_opt(row, 2)?))
    })?;
    let of_queue = |queue: Queue| {
        let found = waiting.iter().find(|(of, ..)| *of == queue);
        let (messages, oldest_sent_at) = found.map_or((0, None), |&(_, n, oldest)| (n, oldest));
        let bound = params![queue.code(), rows::int(BACKLOG_MAX)];
        let dead = tx.sure(sql!("message/count_dead"), bound, |row| rows::count(row, 0))?;
        Ok(Backlog { queue, messages: messages.min(BACKLOG_MAX), oldest_sent_at, dead })
    };
    Queue::ALL.into_iter().map(of_queue).collect()
}
