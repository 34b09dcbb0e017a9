//! Calls: asked for once under an id, answered once, and the answer kept.
//!
//! Holds throughout: `(owner, request id)` is asked for once; the same question gives the same answer,
//! also from the archive; another question under the same id is refused; an answer is never replaced.

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use windrow_domain::call::{call_hash, object_stream};
use windrow_domain::message::{KIND_BYTES_MAX, PAYLOAD_BYTES_MAX};
use windrow_domain::{CallState, CrashPolicy, InstanceId, Owner, RequestId, Stream};

use crate::inspect::Page;
use crate::message::{Headers, MessageRef, SEND_BYTES_MAX, SEND_MAX};
use crate::{Error, Result, Scope, error};

/// Longest name of a caller, in bytes.
pub const CALLER_BYTES_MAX: usize = 256;

/// How long an answer is kept that came when `expires_at` had passed, also that the call has expired: a
/// day. So whoever repeats the question gets the same.
pub const LATE_ANSWER_MS: u64 = 24 * 3_600_000;
/// Longest reason of a cancellation, in bytes.
pub const REASON_BYTES_MAX: usize = 500;

/// The key of a call: its owner and its request id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct CallKey {
    /// The owner that asked.
    pub owner: Owner,
    /// The id under which the owner asked; a repeat has the same one.
    pub request_id: RequestId,
}

/// A call to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCall {
    /// The owner that asks, and its request id.
    pub key: CallKey,
    /// The type of the object, without a slash.
    pub object_type: String,
    /// Which object of that type.
    pub object_id: String,
    /// The method that is called.
    pub method: String,
    /// The arguments, as the handler gets them.
    pub args: Bytes,
    /// What becomes of it after a crash.
    pub policy: CrashPolicy,
    /// The object that calls, if one does.
    pub caller_object: Option<String>,
    /// The client that calls.
    pub caller_client: Option<String>,
    /// When it has lived long enough; none for ever. One that still waits then fails, with
    /// [`windrow_domain::call::EXPIRED`]; an answer is kept until then, and one that comes later for
    /// [`LATE_ANSWER_MS`].
    pub expires_at: Option<Timestamp>,
    /// Which instance waits for the answer and is told.
    pub waiter: Option<InstanceId>,
}

impl NewCall {
    /// A call without arguments, tried again after a crash, whose answer is kept for ever.
    ///
    /// ```
    /// # use windrow_domain::{Owner, RequestId};
    /// # use windrow_store::call::{CallKey, NewCall};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let key = CallKey { owner: Owner::new("ann")?, request_id: RequestId::new("r1")? };
    /// let call = NewCall::new(key, "wallet", "7", "deposit")
    ///     .json(&serde_json::json!({ "cents": 5 }))?
    ///     .caller_client("web");
    /// assert_eq!(call.args, r#"{"cents":5}"#);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(
        key: CallKey,
        object_type: impl Into<String>,
        object_id: impl Into<String>,
        method: impl Into<String>,
    ) -> Self {
        Self {
            key,
            object_type: object_type.into(),
            object_id: object_id.into(),
            method: method.into(),
            args: Bytes::new(),
            policy: CrashPolicy::default(),
            caller_object: None,
            caller_client: None,
            expires_at: None,
            waiter: None,
        }
    }

    /// With these bytes as arguments.
    #[must_use]
    pub fn args(mut self, args: impl Into<Bytes>) -> Self {
        self.args = args.into();
        self
    }

    /// With this value as arguments, in JSON.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> serde_json::Result<Self> {
        Ok(self.args(serde_json::to_vec(value)?))
    }

    /// With what becomes of it after a crash.
    #[must_use]
    pub fn policy(mut self, policy: CrashPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// With the name of the client that calls.
    #[must_use]
    pub fn caller_client(mut self, client: impl Into<String>) -> Self {
        self.caller_client = Some(client.into());
        self
    }

    /// With a time until which it is to be answered, and its answer is kept.
    #[must_use]
    pub fn expires_at(mut self, at: Timestamp) -> Self {
        self.expires_at = Some(at);
        self
    }

    /// The object's stream. `Invalid` when its names are not good ones.
    pub fn stream(&self) -> Result<Stream> {
        object_stream(&self.object_type, &self.object_id)
            .map_err(|bad| Error::invalid("object", bad))
    }

    /// What tells it from another call under the same id.
    pub fn hash(&self, stream: &Stream) -> [u8; 32] {
        call_hash(stream, &self.method, &self.args)
    }

    /// `Invalid` when something is empty or too long.
    pub fn check(&self) -> Result<()> {
        self.stream()?;
        error::within("method", self.method.len() as u64, KIND_BYTES_MAX as u64)?;
        error::text("method", &self.method, KIND_BYTES_MAX)?;
        error::at_most("args", self.args.len(), PAYLOAD_BYTES_MAX)?;
        for caller in [&self.caller_object, &self.caller_client].into_iter().flatten() {
            error::text("caller", caller, CALLER_BYTES_MAX)?;
        }
        Ok(())
    }
}

/// Names in the headers of a call's message.
pub mod headers {
    /// What becomes of it after a crash: `retry` or `fail`.
    pub const POLICY: &str = "windrow-crash-policy";
    /// The object that calls.
    pub const CALLER_OBJECT: &str = "windrow-caller-object";
    /// The client that calls.
    pub const CALLER_CLIENT: &str = "windrow-caller-client";
    /// When it has lived long enough, as a timestamp of RFC 3339.
    pub const EXPIRES_AT: &str = "windrow-expires-at";
}

impl NewCall {
    /// What its message carries besides the arguments.
    pub fn headers(&self) -> Headers {
        let mut headers = Headers::new();
        headers.insert(headers::POLICY.to_owned(), self.policy.as_str().to_owned());
        let callers = [
            (headers::CALLER_OBJECT, &self.caller_object),
            (headers::CALLER_CLIENT, &self.caller_client),
        ];
        for (name, caller) in callers {
            headers.extend(caller.clone().map(|caller| (name.to_owned(), caller)));
        }
        let life = self.expires_at.map(|at| (headers::EXPIRES_AT.to_owned(), at.to_string()));
        headers.extend(life);
        headers
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The handler replied with these bytes.
    Reply(Bytes),
    /// The call failed, with this error.
    Error(String),
}

/// A call's answer, to be committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallResult {
    /// The call that has its answer.
    pub key: CallKey,
    /// Its message, which ends with it.
    pub at: MessageRef,
    /// The answer.
    pub answer: Answer,
}

impl CallResult {
    /// `Invalid` when the answer is too long.
    pub fn check(&self) -> Result<()> {
        let bytes = match &self.answer {
            Answer::Reply(reply) => reply.len(),
            Answer::Error(error) => error.len(),
        };
        error::at_most("answer", bytes, PAYLOAD_BYTES_MAX)
    }
}

/// A call as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Call {
    /// The owner that asked, and its request id.
    pub key: CallKey,
    /// The type of the object.
    pub object_type: String,
    /// The id of the object.
    pub object_id: String,
    /// The method that is called.
    pub method: String,
    /// The arguments. Empty once it has expired.
    #[serde(skip)]
    pub args: Bytes,
    /// The state of the call.
    pub state: CallState,
    /// What becomes of it after a crash.
    pub policy: CrashPolicy,
    /// The reply, when it is completed.
    #[serde(skip)]
    pub reply: Option<Bytes>,
    /// The error, when it has failed.
    pub error: Option<String>,
    /// How often the question was repeated.
    pub retry_count: u32,
    /// The instance that was last seen with it: it began, ran for long, or answered.
    pub instance: Option<InstanceId>,
    /// The object that called.
    pub caller_object: Option<String>,
    /// The client that called.
    pub caller_client: Option<String>,
    /// When it was asked for first.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it had its answer.
    pub processed_at: Option<Timestamp>,
    /// Until when it may wait, and its answer is kept.
    pub expires_at: Option<Timestamp>,
    /// It is in the archive.
    pub is_archived: bool,
}

/// The stream of a call's object. `Invalid` when its names are not good ones.
pub fn object_stream_of(call: &Call) -> Result<Stream> {
    object_stream(&call.object_type, &call.object_id).map_err(|bad| Error::invalid("object", bad))
}

/// A call that was submitted, or found under its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// The call as it is now.
    pub call: Call,
    /// Its message, when it was not there before.
    pub at: Option<MessageRef>,
}

/// `Invalid` when there are none or too many, or one of them is.
pub fn check_calls(calls: &[NewCall]) -> Result<()> {
    error::within("calls", calls.len() as u64, SEND_MAX as u64)?;
    error::at_most("args", calls.iter().map(|call| call.args.len()).sum(), SEND_BYTES_MAX)?;
    calls.iter().try_for_each(NewCall::check)
}

/// `Invalid` when the reason of a cancellation is too long.
pub fn check_reason(reason: Option<&str>) -> Result<()> {
    reason.map_or(Ok(()), |reason| error::text("reason", reason, REASON_BYTES_MAX))
}

/// Which calls to list, newest first. Those in the archive are not listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallsQuery {
    /// Only of this object: type and id.
    pub object: Option<(String, String)>,
    /// Only in one of these states; empty for all.
    pub states: Vec<CallState>,
    /// Only those that this instance was last seen with.
    pub instance: Option<InstanceId>,
    /// Only those that are `processing` for this long and have no answer yet.
    pub stuck_ms: Option<u64>,
    /// Where the last page ended.
    pub after: Option<String>,
    /// Most rows, up to [`crate::inspect::PAGE_MAX`].
    pub limit: u32,
}

/// How often a method's question was repeated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MethodRetries {
    /// The type of the object.
    pub object_type: String,
    /// The method.
    pub method: String,
    /// The calls of this method.
    pub calls: u64,
    /// Repeats for each call, on average.
    pub retries_mean: f64,
}

/// How calls are doing, those in the archive included. Of very many that were answered within the
/// window, the newest are looked at.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CallStats {
    /// Calls by state, of those created within the window; pending and processing ones of any time.
    pub by_state: Vec<(CallState, u64)>,
    /// Age of the oldest that is pending, in milliseconds.
    pub pending_age_ms: Option<u64>,
    /// Pending ones that are older than `old_ms`.
    pub pending_old: u64,
    /// Processing ones that began more than `old_ms` ago.
    pub stuck: u64,
    /// Milliseconds from question to answer of those answered within the window: half of them took no
    /// longer.
    pub p50_ms: Option<f64>,
    /// 95 of 100 took no longer.
    pub p95_ms: Option<f64>,
    /// 99 of 100 took no longer.
    pub p99_ms: Option<f64>,
    /// Share of those answered within the window that failed, as far as their answer is known: not of
    /// expired ones.
    pub failure_rate: Option<f64>,
    /// By method, the most repeated first; at most [`METHODS_MAX`].
    pub retries: Vec<MethodRetries>,
    /// Rows of calls. When there are very many: about, or for an owner as far as they were counted.
    pub rows: u64,
    /// Rows in the archive.
    pub archived_rows: u64,
    /// What both take on disk, in bytes, as far as the database says; nothing for one owner, since it is
    /// known of all of them together.
    pub bytes: Option<u64>,
}

/// Most methods that statistics list.
pub const METHODS_MAX: usize = 100;

/// What statistics look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatsQuery {
    /// How far back statistics look, in milliseconds.
    pub window_ms: u64,
    /// The age, in milliseconds, from which on a call is old, or stuck.
    pub old_ms: u64,
}

/// Repeats above which a call counts as repeated again and again, unless it is said.
pub const RETRIES_ABOVE: u32 = 3;

/// Which repeated calls to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetriesQuery {
    /// How far back calls were asked for, in milliseconds.
    pub window_ms: u64,
    /// Only calls that were repeated more often than this.
    pub above: u32,
}

impl RetriesQuery {
    /// Those of a window that were repeated more often than [`RETRIES_ABOVE`].
    pub fn new(window_ms: u64) -> Self {
        Self { window_ms, above: RETRIES_ABOVE }
    }
}

/// How often calls of one method of one object were repeated, of those above the threshold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectRetries {
    /// The type of the object.
    pub object_type: String,
    /// The id of the object.
    pub object_id: String,
    /// The method.
    pub method: String,
    /// The calls that were repeated so often.
    pub calls: u64,
    /// Repeats for each of them, on average.
    pub retries_mean: f64,
    /// Repeats of the one that was repeated most.
    pub retries_max: u32,
}

/// Calls of objects: submitted under an id, and read with their answers.
#[async_trait]
pub trait Calls {
    /// Asks. A repeat gives the call as it is and counts as a retry; the same id with another object,
    /// method or arguments is a `Conflict`. Both also when the call is archived or expired. `Refused`
    /// before the set-up.
    async fn submit_call(&self, call: NewCall) -> Result<Submitted>;

    /// Asks several at once, all or none, each as [`Calls::submit_call`] would: `Conflict` when the id of one
    /// was used for another question. Answers in their order.
    async fn submit_calls(&self, calls: Vec<NewCall>) -> Result<Vec<Submitted>>;

    /// Ends a call without an answer of its handler: it fails with
    /// [`windrow_domain::call::cancelled_error`], its message goes, and what a handler that runs it returns
    /// later is refused. Whoever waits is told. A repeat gives the call as it is. `Missing` when it is not
    /// there, `Conflict` when it has another answer.
    async fn cancel_call(&self, key: &CallKey, reason: Option<String>) -> Result<Call>;

    /// Ends up to `limit` calls that still wait though their time is over, the oldest first: each fails with
    /// [`windrow_domain::call::expired_error`], and its message goes. Those that run are left alone.
    /// Whoever waits is told. Gives which.
    async fn expire_calls(&self, limit: u32) -> Result<Vec<CallKey>>;

    /// A call, also from the archive.
    async fn call(&self, key: &CallKey) -> Result<Call>;

    /// Lists calls, newest first.
    async fn calls(&self, scope: &Scope, query: CallsQuery) -> Result<Page<Call>>;

    /// How calls are doing.
    async fn call_stats(&self, scope: &Scope, query: StatsQuery) -> Result<CallStats>;

    /// Which objects' calls are repeated again and again, those in the archive included: the most repeated
    /// first, at most [`METHODS_MAX`]. Of very many calls the newest are looked at.
    async fn call_retries(&self, scope: &Scope, query: RetriesQuery) -> Result<Vec<ObjectRetries>>;
}
