//! What an upstream does with each request.
//!
//! Holds throughout: a script is a pure choice by request; what it did before is in its number and
//! in how many are in flight, so the same requests in the same order meet the same fate.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::{HeaderMap, Method};
use tokio::sync::watch;

/// A request, as the upstream saw it.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    /// Which one it is since the upstream was made, from 1.
    pub number: u64,
    /// When it had come in whole.
    pub at: Instant,
    /// How many are in flight with it, itself included.
    pub in_flight: u64,
    /// How it was asked.
    pub method: Method,
    /// The path, and the query if there is one.
    pub path: String,
    /// All headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

impl ReceivedRequest {
    /// A header as text; empty when it is not there or is no text.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The `Idempotency-Key`.
    pub fn key(&self) -> &str {
        self.header("idempotency-key")
    }
}

/// What the upstream does with one request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Answers.
    Answer {
        /// The HTTP status.
        status: u16,
        /// Headers besides the length; names and values must be valid.
        headers: Vec<(&'static str, String)>,
        /// The whole body.
        body: Bytes,
    },
    /// Answers 200 with the request's own body.
    Echo,
    /// Answers nothing, and keeps the connection.
    Hang,
    /// Promises a body, sends half of it and closes.
    CloseMidBody,
    /// Sends the head and half of the body, then nothing, and keeps the connection.
    HangMidBody,
    /// Resets the connection without an answer.
    Reset,
    /// Answers 200 with a JSON string that long, made while it is sent.
    BigBody {
        /// The length of the body.
        bytes: u64,
        /// Whether the length is told beforehand.
        told: bool,
    },
    /// Answers 200 and says that it is JSON, which it is not.
    InvalidJson,
    /// Answers 200 with a JSON body in pieces.
    Drip {
        /// The size of a piece.
        bytes: usize,
        /// How many there are.
        pieces: usize,
        /// The pause before each.
        every: Duration,
    },
    /// Does something later.
    Delay(Duration, Box<Reply>),
    /// Does something once the gate is open.
    Held(Gate, Box<Reply>),
}

/// Holds answers back until somebody opens it; then it stays open.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    /// Lets all answers go at the same moment.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    pub(super) async fn opened(&self) {
        // The sender is `self`, which outlives the wait.
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

impl Reply {
    /// Answers with a JSON body.
    pub fn json(status: u16, body: impl Into<Bytes>) -> Self {
        let headers = vec![("content-type", "application/json".to_owned())];
        Reply::Answer { status, headers, body: body.into() }
    }

    /// Answers with an error as OpenAI's servers word it.
    pub fn error(status: u16, message: &str) -> Self {
        let message = message.replace('\\', "\\\\").replace('"', "\\\"");
        Reply::json(status, format!(r#"{{"error":{{"message":"{message}","code":null}}}}"#))
    }

    /// Answers 429 with a `Retry-After` of that text.
    pub fn throttle(retry_after: impl Into<String>) -> Self {
        Reply::error(429, "slow down").with_header("retry-after", retry_after)
    }

    /// The same with one more header, if it answers at all.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        if let Reply::Answer { headers, .. } = &mut self {
            headers.push((name, value.into()));
        }
        self
    }

    /// The same, once the gate is open.
    #[must_use]
    pub fn held(self, gate: &Gate) -> Self {
        Reply::Held(gate.clone(), Box::new(self))
    }

    /// The same, later.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Reply::Delay(delay, Box::new(self))
    }
}

type Choose = dyn Fn(&ReceivedRequest) -> Reply + Send + Sync;

/// Chooses what to do with each request.
#[derive(Clone)]
pub struct Script(Arc<Choose>);

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Script")
    }
}

impl Script {
    /// Whatever the function says.
    pub fn new(choose: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static) -> Self {
        Self(Arc::new(choose))
    }

    /// The same for every request.
    pub fn always(act: Reply) -> Self {
        Self::new(move |_| act.clone())
    }

    /// Answers every request with its own body.
    pub fn echo() -> Self {
        Self::always(Reply::Echo)
    }

    /// One after the other, the last one for ever.
    ///
    /// # Panics
    /// When there is none.
    pub fn sequence(acts: impl IntoIterator<Item = Reply>) -> Self {
        let acts: Vec<Reply> = acts.into_iter().collect();
        assert!(!acts.is_empty(), "a sequence has at least one act");
        Self::new(move |seen| {
            let at = usize::try_from(seen.number - 1).unwrap_or(usize::MAX);
            acts[at.min(acts.len() - 1)].clone()
        })
    }

    /// Every `n`-th request meets `act`; the others are as before.
    #[must_use]
    pub fn every(self, n: u64, act: Reply) -> Self {
        Self::new(move |seen| {
            if seen.number.is_multiple_of(n.max(1)) { act.clone() } else { self.choose(seen) }
        })
    }

    /// Requests number `from` to `to` (included) meet `act`; the others are as before.
    #[must_use]
    pub fn burst(self, from: u64, to: u64, act: Reply) -> Self {
        Self::new(
            move |seen| {
                if (from..=to).contains(&seen.number) { act.clone() } else { self.choose(seen) }
            },
        )
    }

    /// Requests beyond that many in flight meet `act`; the others are as before.
    #[must_use]
    pub fn above(self, in_flight: u64, act: Reply) -> Self {
        Self::new(
            move |seen| {
                if seen.in_flight > in_flight { act.clone() } else { self.choose(seen) }
            },
        )
    }

    /// What to do with that request.
    pub fn choose(&self, seen: &ReceivedRequest) -> Reply {
        (self.0)(seen)
    }
}
