//! Every state and every event, as one table.

use windrow_domain::batch::{Ending, Event, State, apply};
use windrow_domain::{Phase, lane};

/// The whole machine. A row is a state, a column an event; `-` is a refusal.
const TABLE: &str = "
state                 paused  resumed      cancelled             expired             finalised             closed     reprocessed  continued
in_progress           paused  in_progress  cancelling            expiring            finalizing_completed  -          in_progress  -
paused                paused  in_progress  cancelling            expiring            finalizing_completed  -          paused       -
cancelling            -       -            cancelling            -                   finalizing_cancelled  -          -            -
expiring              -       -            -                     expiring            finalizing_expired    -          -            -
finalizing_completed  -       -            -                     -                   -                     completed  in_progress  -
finalizing_cancelled  -       -            finalizing_cancelled  -                   -                     cancelled  -            -
finalizing_expired    -       -            -                     finalizing_expired  -                     expired    -            -
completed             -       -            -                     -                   -                     -          in_progress  -
failed                -       -            -                     -                   -                     -          -            -
cancelled             -       -            cancelled             -                   -                     -          -            in_progress
expired               -       -            -                     expired             -                     -          -            in_progress
";

#[test]
fn every_state_meets_every_event() {
    let mut rows = TABLE.trim().lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    let head = rows.next().unwrap();
    let words: Vec<_> = Event::ALL.iter().map(|event| event.as_str()).collect();
    assert_eq!(head[1..], words, "the table names every event");
    let mut seen = Vec::new();
    for row in rows {
        let from: State = row[0].parse().unwrap();
        seen.push(from);
        for (event, expected) in Event::ALL.into_iter().zip(&row[1..]) {
            match apply(from, event) {
                Ok(to) => assert_eq!(to.as_str(), *expected, "{from} {event:?}"),
                Err(refused) => {
                    assert_eq!("-", *expected, "{from} {event:?}");
                    assert_eq!((refused.from, refused.event), (from, event));
                    assert!(refused.to_string().contains(from.as_str()), "{refused}");
                }
            }
        }
    }
    assert_eq!(seen, State::ALL, "the table names every state");
}

/// A caller whose reply was lost asks again, and nothing changes.
#[test]
fn repeating_a_command_changes_nothing() {
    let commands = [Event::Paused, Event::Resumed, Event::Cancelled, Event::DeadlinePassed];
    for from in State::ALL {
        for command in commands {
            if let Ok(to) = apply(from, command) {
                assert_eq!(apply(to, command), Ok(to), "{from} {command:?}");
            }
        }
    }
}

#[test]
fn a_closed_batch_moves_only_when_it_runs_again() {
    for from in State::ALL.into_iter().filter(|state| state.is_closed()) {
        for event in Event::ALL {
            if let Ok(to) = apply(from, event) {
                let runs = matches!(event, Event::Reprocessed | Event::Continued);
                assert!(to == from || runs, "{from} {event:?}");
            }
        }
    }
}

#[test]
fn a_batch_is_running_finalising_or_closed() {
    for state in State::ALL {
        let finalising = matches!(state, State::Finalizing(_));
        let places = [state.is_running(), finalising, state.is_closed()];
        assert_eq!(places.iter().filter(|is| **is).count(), 1, "{state}");
        assert_eq!(Phase::of(state) == lane::Phase::Done, !state.is_running(), "{state}");
    }
}

#[test]
fn closing_a_batch_keeps_how_it_ends() {
    for state in State::ALL {
        let runs_or_failed = state.is_running() || state == State::Failed;
        assert_eq!(state.ending().is_none(), runs_or_failed, "{state}");
        if let Ok(closed) = apply(state, Event::Closed) {
            assert_eq!(closed.ending(), state.ending(), "{state}");
        }
    }
}

#[test]
fn words_read_back_and_others_are_refused() {
    for state in State::ALL {
        assert_eq!(state.to_string().parse(), Ok(state));
        let json = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<State>(&json).unwrap(), state);
    }
    for word in ["", "Completed", "finalizing", "in progress"] {
        assert!(word.parse::<State>().unwrap_err().to_string().contains("not a batch state"));
    }
    let words: std::collections::HashSet<_> = State::ALL.iter().map(|s| s.as_str()).collect();
    assert_eq!(words.len(), State::ALL.len());
    assert!(State::ALL.contains(&State::Finalizing(Ending::Expired)));
}
