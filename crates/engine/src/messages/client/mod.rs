//! The client: sends messages, appends events, submits calls and waits for their answers.
//!
//! Holds throughout: what a client wrote is in the database when it returns; the runner of the same
//! process learns of it at once, without a poll. A waiting client is notified where the database can
//! notify, and polls as well.

mod call;
mod call_wait;
mod inbox;
mod outcome;
pub(crate) mod waiters;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use windrow_domain::backoff::Backoff;
use windrow_domain::{DeadLetterId, InstanceId, Owner};
use windrow_store::call::{Call, CallKey, NewCall, Submitted};
use windrow_store::event::{Append, Appended};
use windrow_store::message::{NewMessage, Sent};
use windrow_store::partition::Setup;
use windrow_store::{Error, IntoStore, Kind, MessageStore, Scope};

use crate::clock::Clock;

use super::handler::{Typed, TypedTransactional};
use super::listener::AnswerListener;
use super::notifier::Notifier;

use self::waiters::{AnswerSignal, Waiter};

pub use self::call::{Ask, AskError, CallRequest, ObjectRef};
pub use self::call_wait::{CallWait, call_wait};
pub use self::inbox::OwnerInbox;
pub use self::outcome::CallOutcome;

/// How long the cached set-up is used.
const SETUP_MS: u64 = 5_000;
/// How long it is used for an object type that is not in it: the type may be new.
const SETUP_FRESH_MS: u64 = 250;
/// The first wait between two polls of a call.
const POLL_MIN: Duration = Duration::from_millis(250);
/// The first wait while the database has not notified this client yet: perhaps it cannot.
const POLL_UNHEARD_MIN: Duration = Duration::from_millis(10);
/// The longest wait between two polls.
const POLL_MAX: Duration = Duration::from_secs(1);
/// Most calls that a client without a runner waits for in memory.
const WAITERS_MAX: usize = 10_000;

/// Why a client's request was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No handler has objects of that type.
    #[error("there are no objects of type {object_type:?}")]
    UnknownObjectType {
        /// The type that was asked for.
        object_type: String,
        /// The types there are.
        known: Vec<String>,
    },
    /// The database refused it.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Sends messages, submits calls and waits for answers. Cheap to clone.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use windrow_domain::Owner;
/// # use windrow_engine::messages::Client;
/// # async fn run(store: Arc<dyn windrow_store::MessageStore>) -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::new(store).owned_by(Owner::new("ann")?);
/// let args = serde_json::json!({ "cents": 5 });
/// // The same id and arguments give the same answer, always.
/// let outcome = client.object("wallet", "7").call("deposit", &args).id("r1").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    /// The owner of calls that name none.
    owner: Option<Owner>,
}

struct Inner {
    store: Arc<dyn MessageStore>,
    clock: Clock,
    /// Of the runner in this process, or of this client alone.
    notifier: Arc<Notifier>,
    /// None with a runner, which listens itself.
    listener: Option<AnswerListener>,
    setup: Mutex<Option<(u64, Setup)>>,
}

impl Client {
    /// A client in a process without a runner. From its first wait on it has a connection of its own for
    /// notifications of answers; where the database cannot notify, it polls.
    pub fn new(store: impl IntoStore<dyn MessageStore>) -> Self {
        Self::with_clock(store, Clock::machine())
    }

    /// The same, with another clock.
    pub fn with_clock(store: impl IntoStore<dyn MessageStore>, clock: Clock) -> Self {
        Self::with(
            store.into_store(),
            clock,
            Arc::new(Notifier::new(WAITERS_MAX)),
            Some(AnswerListener::default()),
        )
    }

    pub(super) fn with(
        store: Arc<dyn MessageStore>,
        clock: Clock,
        notifier: Arc<Notifier>,
        listener: Option<AnswerListener>,
    ) -> Self {
        let inner = Inner { store, clock, notifier, listener, setup: Mutex::default() };
        Self { inner: Arc::new(inner), owner: None }
    }

    /// The same client, whose calls are this owner's unless they name another.
    #[must_use]
    pub fn owned_by(mut self, owner: Owner) -> Self {
        self.owner = Some(owner);
        self
    }

    /// An object, to be called.
    pub fn object(
        &self,
        object_type: impl Into<String>,
        object_id: impl Into<String>,
    ) -> ObjectRef<'_> {
        ObjectRef::new(self, object_type.into(), object_id.into())
    }

    /// Calls a typed object; the variant is the method, and its fields are the arguments.
    pub fn ask<T: Typed>(&self, object_id: impl Into<String>, call: &T::Call) -> Ask<T::Reply>
    where
        T::Call: Serialize,
        T::Reply: DeserializeOwned,
    {
        Ask::new(self.object(T::TYPE, object_id), call)
    }

    /// As [`Client::ask`], for an object whose calls have transactions of their own.
    pub fn ask_tx<T: TypedTransactional>(
        &self,
        object_id: impl Into<String>,
        call: &T::Call,
    ) -> Ask<T::Reply>
    where
        T::Call: Serialize,
        T::Reply: DeserializeOwned,
    {
        Ask::new(self.object(T::TYPE, object_id), call)
    }

    /// The store that the client writes to.
    pub fn store(&self) -> &Arc<dyn MessageStore> {
        &self.inner.store
    }

    fn mark_dirty(&self, partitions: impl IntoIterator<Item = u16>) {
        if self.inner.listener.is_none() {
            self.inner.notifier.mark_dirty(partitions);
        }
    }

    /// Sends messages, all or none.
    pub async fn send(&self, messages: Vec<NewMessage>) -> Result<Vec<Sent>, Error> {
        let sent = self.inner.store.send(messages).await?;
        self.mark_dirty(
            sent.iter().filter(|sent| !sent.is_duplicate).map(|sent| sent.at.partition),
        );
        Ok(sent)
    }

    /// Sends dead letters again, all or none: `Missing` when one is not there.
    pub async fn replay_dead(
        &self,
        scope: &Scope,
        letters: &[DeadLetterId],
    ) -> Result<Vec<Sent>, Error> {
        let sent = self.inner.store.replay_dead(scope, letters).await?;
        self.mark_dirty(sent.iter().map(|sent| sent.at.partition));
        Ok(sent)
    }

    /// Appends events, all or none.
    pub async fn append(&self, appends: Vec<Append>) -> Result<Vec<Appended>, Error> {
        self.inner.store.append(appends).await
    }

    /// The way in for messages that come from outside and are this owner's.
    pub fn inbox(&self, owner: Owner) -> OwnerInbox {
        OwnerInbox { client: self.clone(), owner }
    }

    /// The instance that is notified of the answers this client waits for.
    pub fn waiter(&self) -> InstanceId {
        self.inner.notifier.instance()
    }

    /// Submits a call, and does not wait. A repeat gives the call as it is. Without a runner, a client that
    /// has not waited yet is notified of the answer only when the call names it as its [`Client::waiter`].
    pub async fn submit(&self, mut call: NewCall) -> Result<Submitted, ClientError> {
        self.check_type(&call.object_type).await?;
        // A notification costs every commit, so clients that never wait are not notified.
        if self.inner.listener.as_ref().is_none_or(AnswerListener::is_started) {
            call.waiter.get_or_insert(self.waiter());
        }
        let submitted = self.inner.store.submit_call(call).await?;
        self.mark_dirty(submitted.at.map(|at| at.partition));
        Ok(submitted)
    }

    /// Submits a call and waits for its answer.
    pub async fn call(&self, call: NewCall, timeout: Duration) -> Result<CallOutcome, ClientError> {
        let key = call.key.clone();
        // Before it is submitted: the answer may be there before the submission returns.
        let waiter = self.listen(&key);
        let submitted = self.submit(call).await?;
        match CallOutcome::of(&submitted.call) {
            CallOutcome::Pending => Ok(self.wait_with(&key, waiter, timeout).await?),
            ended => Ok(ended),
        }
    }

    /// Submits several calls in one transaction, all or none, each as [`Client::submit`] would.
    pub async fn submit_many(
        &self,
        mut calls: Vec<NewCall>,
    ) -> Result<Vec<Submitted>, ClientError> {
        let types: BTreeSet<&str> = calls.iter().map(|call| call.object_type.as_str()).collect();
        for object_type in types {
            self.check_type(object_type).await?;
        }
        if self.inner.listener.as_ref().is_none_or(AnswerListener::is_started) {
            let waiter = self.waiter();
            calls.iter_mut().for_each(|call| call.waiter = call.waiter.or(Some(waiter)));
        }
        let submitted = self.inner.store.submit_calls(calls).await?;
        self.mark_dirty(submitted.iter().filter_map(|one| one.at).map(|at| at.partition));
        Ok(submitted)
    }

    /// Ends a call that has no answer: it fails, and what its handler returns later is refused. `Conflict`
    /// when it has another answer.
    pub async fn cancel(&self, key: &CallKey, reason: Option<String>) -> Result<Call, Error> {
        let call = self.inner.store.cancel_call(key, reason).await?;
        tracing::info!(id = %key.request_id, owner = %key.owner, error = call.error, "a call was cancelled");
        self.inner.notifier.waiters.notify(key, &AnswerSignal::Recheck);
        Ok(call)
    }

    /// Waits for the answer of a submitted call. [`CallOutcome::Pending`] when it has none in that time.
    pub async fn wait(&self, key: &CallKey, timeout: Duration) -> Result<CallOutcome, Error> {
        let waiter = self.listen(key);
        match CallOutcome::of(&self.inner.store.call(key).await?) {
            CallOutcome::Pending => self.wait_with(key, waiter, timeout).await,
            ended => Ok(ended),
        }
    }

    fn listen(&self, key: &CallKey) -> Waiter {
        let Inner { store, clock, notifier, listener, .. } = &*self.inner;
        let waiter = Waiter::new(notifier, key);
        if let Some(listener) = listener {
            listener.start(store, clock, notifier);
        }
        waiter
    }

    async fn wait_with(
        &self,
        key: &CallKey,
        mut waiter: Waiter,
        timeout: Duration,
    ) -> Result<CallOutcome, Error> {
        let Inner { clock, notifier, listener, .. } = &*self.inner;
        let until = clock.elapsed().saturating_add(timeout);
        let is_heard = listener.is_none() || notifier.has_heard();
        let first = if is_heard { POLL_MIN } else { POLL_UNHEARD_MIN };
        let mut backoff = Backoff::new(first, POLL_MAX);
        let mut poll_in = backoff.next(1.0);
        loop {
            let left = until.saturating_sub(clock.elapsed());
            if left.is_zero() {
                return Ok(CallOutcome::Pending);
            }
            tokio::select! {
                biased;
                signal = waiter.signalled() => match signal {
                    AnswerSignal::Answer(answer) => return Ok(CallOutcome::answered(answer)),
                    // Waits again before the call is read, so that nothing is missed between.
                    AnswerSignal::Recheck => waiter = self.listen(key),
                },
                () = clock.sleep(left.min(poll_in)) => poll_in = backoff.next(1.0),
            }
            match self.inner.store.call(key).await {
                Ok(call) => match CallOutcome::of(&call) {
                    CallOutcome::Pending => {}
                    ended => return Ok(ended),
                },
                // Asked again as long as there is time.
                Err(error) if matches!(error.kind, Kind::Busy | Kind::Unavailable) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The set-up, at most a few seconds old. None before the first runner.
    pub async fn setup(&self) -> Result<Option<Setup>, Error> {
        self.setup_within(SETUP_MS).await
    }

    async fn setup_within(&self, age_ms: u64) -> Result<Option<Setup>, Error> {
        let now = self.inner.clock.millis();
        let known = self.inner.setup.lock().clone();
        if let Some((_, setup)) = known.filter(|(at, _)| now.saturating_sub(*at) < age_ms) {
            return Ok(Some(setup));
        }
        let setup = self.inner.store.setup().await?;
        *self.inner.setup.lock() = setup.clone().map(|setup| (now, setup));
        Ok(setup)
    }

    async fn check_type(&self, object_type: &str) -> Result<(), ClientError> {
        let has = |setup: &Setup| setup.object_types.iter().any(|one| one == object_type);
        match self.setup_within(SETUP_MS).await? {
            // The submission fails with the reason.
            None => return Ok(()),
            Some(setup) if has(&setup) => return Ok(()),
            Some(_) => {}
        }
        match self.setup_within(SETUP_FRESH_MS).await? {
            Some(setup) if !has(&setup) => {
                let (object_type, known) = (object_type.to_owned(), setup.object_types);
                Err(ClientError::UnknownObjectType { object_type, known })
            }
            _ => Ok(()),
        }
    }
}
