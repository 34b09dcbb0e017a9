//! The history of one line: every attempt, the last one included, and what the next one waits for.
//!
//! Holds throughout: reading it costs O(attempts of the line + leased lines of its batch), however many
//! lines wait. Where a line waits follows from its history, so that the waiting ones are not searched.

use jiff::Timestamp;
use windrow_domain::attempt::Class;
use windrow_domain::{InstanceId, State};
use windrow_store::batch::Batch;
use windrow_store::inspect::{
    FinishedLine, FinishedQuery, PAGE_MAX, PastAttempt, PendingQuery, Place,
};
use windrow_store::{Result, Scope, Store};

/// Most pages of leased lines that are searched for the holder of a line.
const LEASED_PAGES_MAX: usize = 50;

/// Every attempt of a line, and what comes next.
#[derive(Clone, Debug)]
pub struct LineHistory {
    /// Attempts that gave no result, the oldest first.
    pub attempts: Vec<PastAttempt>,
    /// The result, with the last attempt, if the line has one.
    pub result: Option<Box<FinishedLine>>,
    /// What the next attempt waits for; none when there is no next one.
    pub next: Option<NextAttempt>,
}

/// What the next attempt of a line waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextAttempt {
    /// The batch was stopped before the line's turn.
    Stopped(State),
    /// The batch is paused; with the reason.
    Paused(Option<String>),
    /// An instance has it.
    Held(InstanceId),
    /// That time, after an attempt of that class; then, a worker that serves its target.
    NotBefore(Timestamp, Class),
    /// Its turn: it was not attempted.
    Turn,
}

impl LineHistory {
    /// The history of a line of a batch that was just read. `Missing` when there is no such line.
    pub async fn read(
        store: &dyn Store,
        scope: &Scope,
        batch: &Batch,
        line: u64,
    ) -> Result<LineHistory> {
        let attempts = store.attempts(scope, batch.id, line).await?;
        let query = FinishedQuery {
            batch: Some(batch.id),
            line: Some(line),
            limit: 1,
            ..FinishedQuery::default()
        };
        let result = store.finished(scope, query).await?.rows.pop().map(Box::new);
        let next = match result {
            Some(_) => None,
            None => Some(next(store, scope, batch, line, attempts.last()).await?),
        };
        Ok(Self { attempts, result, next })
    }

    /// How many of the attempts the line did not use up; an entry may stand for several.
    pub fn uncounted(&self) -> u64 {
        let uncounted = self.attempts.iter().filter(|attempt| !attempt.class.is_counted());
        uncounted.map(|attempt| u64::from(attempt.times)).sum()
    }
}

async fn next(
    store: &dyn Store,
    scope: &Scope,
    batch: &Batch,
    line: u64,
    last: Option<&PastAttempt>,
) -> Result<NextAttempt> {
    if let Some(holder) = holder(store, scope, batch, line).await? {
        return Ok(NextAttempt::Held(holder));
    }
    Ok(match (batch.state, last) {
        (State::Paused, _) => NextAttempt::Paused(batch.last_error.clone()),
        (State::InProgress, None) => NextAttempt::Turn,
        (State::InProgress, Some(last)) => {
            let class = if last.put_back { Class::Reprocessed } else { last.class };
            NextAttempt::NotBefore(last.not_before, class)
        }
        (stopped, _) => NextAttempt::Stopped(stopped),
    })
}

/// The instance that has the line.
async fn holder(
    store: &dyn Store,
    scope: &Scope,
    batch: &Batch,
    line: u64,
) -> Result<Option<InstanceId>> {
    let mut after = None;
    for _ in 0..LEASED_PAGES_MAX {
        let query = PendingQuery {
            batch: Some(batch.id),
            places: vec![Place::Leased],
            after,
            limit: PAGE_MAX,
            ..PendingQuery::default()
        };
        let page = store.pending(scope, query).await?;
        if let Some(found) = page.rows.iter().find(|found| found.line == line) {
            return Ok(found.held_by);
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(None)
}

impl NextAttempt {
    /// The same as a sentence, as it is at that time.
    pub fn sentence(&self, now: Timestamp) -> String {
        match self {
            NextAttempt::Stopped(state) => format!("The batch is {state}: the line does not run."),
            NextAttempt::Paused(why) => {
                let why = why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
                format!("The batch is paused{why}. It goes on when it is resumed.")
            }
            NextAttempt::Held(by) => {
                format!("It is being run by instance {by}, or waits there for a slot.")
            }
            NextAttempt::NotBefore(at, class) if *at > now => {
                let why = match class {
                    Class::Throttled => "the upstream answered 429",
                    Class::Reprocessed => "it was put back to run again",
                    _ => "the last attempt failed",
                };
                let secs = at.duration_since(now).as_secs_f64();
                let at = at.strftime("%Y-%m-%d %H:%M:%SZ");
                format!("The next attempt is not before {at} (in {secs:.1} s): {why}.")
            }
            NextAttempt::NotBefore(..) => {
                "It waits for a worker that serves its target.".to_owned()
            }
            NextAttempt::Turn => "It waits for its turn.".to_owned(),
        }
    }

    /// The time before which there is no next attempt, if that is what it waits for.
    pub fn not_before(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            NextAttempt::NotBefore(at, _) => Some(*at).filter(|at| *at > now),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_says_until_when_and_why() {
        let now: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
        let later: Timestamp = "2026-01-31T12:00:30Z".parse().unwrap();
        let throttled = NextAttempt::NotBefore(later, Class::Throttled);
        let sentence = "The next attempt is not before 2026-01-31 12:00:30Z (in 30.0 s): the upstream \
                        answered 429.";
        assert_eq!(throttled.sentence(now), sentence);
        assert_eq!(throttled.not_before(now), Some(later));
        assert_eq!(throttled.not_before(later), None, "the time has come");
        let due = NextAttempt::NotBefore(now, Class::Server);
        assert_eq!(due.sentence(now), "It waits for a worker that serves its target.");
        let paused = NextAttempt::Paused(Some("no budget".to_owned()));
        assert!(paused.sentence(now).contains("paused: no budget."));
        assert_eq!(NextAttempt::Turn.not_before(now), None);
    }
}
