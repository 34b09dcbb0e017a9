//! The client's side: sends, appends, asks and waits for answers.
//!
//! Holds throughout: what a client wrote is in the database when it returns; the runner of the same
//! process is told at once, so nothing waits for its next look. Who waits for an answer is told of it
//! where the database can tell, and looks by itself as well.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use windrow_domain::{CallState, DeadLetterId, InstanceId, Owner, Queue, Stream};
use windrow_store::call::{Answer, Call, CallKey, NewCall, Submitted};
use windrow_store::event::{Append, Appended};
use windrow_store::message::{Headers, NewMessage, Sent};
use windrow_store::partition::Setup;
use windrow_store::{Error, Kind, MessageStore, Scope};

use crate::clock::Clock;
use crate::deliver::{Inbox, IncomingMessage};

use super::ear::Ear;
use super::shared::{Shared, Told};

/// How long the set-up is believed.
const SETUP_MS: u64 = 5_000;
/// The first wait between two looks at a call, and the longest; each is twice the one before.
const LOOK_MS_MIN: u64 = 250;
const LOOK_MS_MAX: u64 = 1_000;
/// The first one where nobody has told this client anything yet: perhaps nobody can.
const LOOK_UNTOLD_MS_MIN: u64 = 10;
/// Most calls that a client without a runner waits for without looking all the time.
const WAITERS_MAX: usize = 10_000;

/// What a client can be refused.
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

/// What waiting for a call gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its reply.
    Reply(Bytes),
    /// Its error.
    Failed(String),
    /// It had an answer, which is not kept any more.
    Expired,
    /// It has none yet: wait again.
    Pending,
}

impl Outcome {
    /// What a call says now.
    pub fn of(call: &Call) -> Self {
        match call.state {
            CallState::Pending | CallState::Processing => Outcome::Pending,
            CallState::Completed => Outcome::Reply(call.reply.clone().unwrap_or_default()),
            CallState::Failed => Outcome::Failed(call.error.clone().unwrap_or_default()),
            CallState::Expired => Outcome::Expired,
        }
    }

    fn answered(answer: Answer) -> Self {
        match answer {
            Answer::Reply(reply) => Outcome::Reply(reply),
            Answer::Error(error) => Outcome::Failed(error),
        }
    }
}

/// A message of the owner's, to be sent: fill in the rest.
pub fn message(queue: Queue, owner: Owner, stream: Stream, id: impl Into<String>) -> NewMessage {
    NewMessage {
        queue,
        owner,
        stream,
        id: id.into(),
        kind: "message".to_owned(),
        payload: Bytes::new(),
        headers: Headers::new(),
        not_before: None,
        consumers: Vec::new(),
        dedupe: false,
    }
}

/// Sends and asks. Cheap to clone.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    store: Arc<dyn MessageStore>,
    clock: Clock,
    /// Of the runner in this process, or of this client alone.
    shared: Arc<Shared>,
    /// None with a runner, which listens itself.
    ear: Option<Ear>,
    setup: Mutex<Option<(u64, Setup)>>,
}

impl Client {
    /// A client in a process without a runner. From its first wait on it has a connection of its own by
    /// which it hears of answers; where the database cannot tell, it looks from time to time.
    pub fn new(store: Arc<dyn MessageStore>) -> Self {
        Self::with_clock(store, Clock::machine())
    }

    /// The same, with another clock.
    pub fn with_clock(store: Arc<dyn MessageStore>, clock: Clock) -> Self {
        Self::with(store, clock, Arc::new(Shared::new(WAITERS_MAX)), Some(Ear::default()))
    }

    pub(super) fn with(
        store: Arc<dyn MessageStore>,
        clock: Clock,
        shared: Arc<Shared>,
        ear: Option<Ear>,
    ) -> Self {
        Self(Arc::new(Inner { store, clock, shared, ear, setup: Mutex::default() }))
    }

    /// The database.
    pub fn store(&self) -> &Arc<dyn MessageStore> {
        &self.0.store
    }

    fn poke(&self, partitions: impl IntoIterator<Item = u16>) {
        if self.0.ear.is_none() {
            self.0.shared.poke(partitions);
        }
    }

    /// Sends messages, all or none.
    pub async fn send(&self, messages: Vec<NewMessage>) -> Result<Vec<Sent>, Error> {
        let sent = self.0.store.send(messages).await?;
        self.poke(sent.iter().filter(|sent| !sent.is_duplicate).map(|sent| sent.at.partition));
        Ok(sent)
    }

    /// Sends dead letters again, all or none: `Missing` when one is not there.
    pub async fn replay_dead(
        &self,
        scope: &Scope,
        letters: &[DeadLetterId],
    ) -> Result<Vec<Sent>, Error> {
        let sent = self.0.store.replay_dead(scope, letters).await?;
        self.poke(sent.iter().map(|sent| sent.at.partition));
        Ok(sent)
    }

    /// Appends events, all or none.
    pub async fn append(&self, appends: Vec<Append>) -> Result<Vec<Appended>, Error> {
        self.0.store.append(appends).await
    }

    /// The way in for messages that come from outside and are this owner's.
    pub fn inbox(&self, owner: Owner) -> OwnerInbox {
        OwnerInbox { client: self.clone(), owner }
    }

    /// Who is told of the answers that this client waits for.
    pub fn waiter(&self) -> InstanceId {
        self.0.shared.instance()
    }

    /// Asks, and does not wait. A repeat gives the call as it is. Without a runner, a client that has
    /// not waited yet is told of the answer only when the call names it as its [`Client::waiter`].
    pub async fn submit(&self, mut call: NewCall) -> Result<Submitted, ClientError> {
        self.check_type(&call.object_type).await?;
        // Telling costs all who commit, so nobody is told who never waits.
        if self.0.ear.as_ref().is_none_or(Ear::is_open) {
            call.waiter.get_or_insert(self.waiter());
        }
        let submitted = self.0.store.submit_call(call).await?;
        self.poke(submitted.at.map(|at| at.partition));
        Ok(submitted)
    }

    /// Asks and waits.
    pub async fn call(&self, call: NewCall, timeout: Duration) -> Result<Outcome, ClientError> {
        let key = call.key.clone();
        // Before it is asked: the answer may be there before the question returns.
        let waiter = self.listen(&key);
        let submitted = self.submit(call).await?;
        match Outcome::of(&submitted.call) {
            Outcome::Pending => Ok(self.wait_with(&key, waiter, timeout).await?),
            ended => Ok(ended),
        }
    }

    /// Waits for the answer of a call that was asked for. [`Outcome::Pending`] when it has none in that
    /// time.
    pub async fn wait(&self, key: &CallKey, timeout: Duration) -> Result<Outcome, Error> {
        let waiter = self.listen(key);
        match Outcome::of(&self.0.store.call(key).await?) {
            Outcome::Pending => self.wait_with(key, waiter, timeout).await,
            ended => Ok(ended),
        }
    }

    fn listen(&self, key: &CallKey) -> Waiter {
        let Inner { store, clock, shared, ear, .. } = &*self.0;
        let receiver = shared.wait_for(key);
        if let Some(ear) = ear {
            ear.open(store, clock, shared);
        }
        Waiter { shared: shared.clone(), key: key.clone(), receiver }
    }

    /// The first wait between two looks.
    fn look_ms(&self) -> u64 {
        match &self.0.ear {
            Some(ear) if !ear.is_told() => LOOK_UNTOLD_MS_MIN,
            _ => LOOK_MS_MIN,
        }
    }

    async fn wait_with(
        &self,
        key: &CallKey,
        mut waiter: Waiter,
        timeout: Duration,
    ) -> Result<Outcome, Error> {
        let clock = &self.0.clock;
        let until = clock.elapsed().saturating_add(timeout);
        let mut look_ms = self.look_ms();
        loop {
            let left = until.saturating_sub(clock.elapsed());
            if left.is_zero() {
                return Ok(Outcome::Pending);
            }
            let look = clock.sleep(left.min(Duration::from_millis(look_ms)));
            tokio::select! {
                biased;
                told = waiter.told() => match told {
                    Told::Answer(answer) => return Ok(Outcome::answered(answer)),
                    // Listened again before it is looked at, so that nothing is missed between.
                    Told::Look => waiter = self.listen(key),
                },
                () = look => look_ms = (look_ms * 2).min(LOOK_MS_MAX),
            }
            match self.0.store.call(key).await {
                Ok(call) => match Outcome::of(&call) {
                    Outcome::Pending => {}
                    ended => return Ok(ended),
                },
                // The question is asked again as long as there is time.
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
        let now = self.0.clock.millis();
        let known = self.0.setup.lock().clone();
        if let Some((_, setup)) = known.filter(|(at, _)| now.saturating_sub(*at) < age_ms) {
            return Ok(Some(setup));
        }
        let setup = self.0.store.setup().await?;
        *self.0.setup.lock() = setup.clone().map(|setup| (now, setup));
        Ok(setup)
    }

    async fn check_type(&self, object_type: &str) -> Result<(), ClientError> {
        let has = |setup: &Setup| setup.object_types.iter().any(|one| one == object_type);
        match self.setup_within(SETUP_MS).await? {
            // Submitting says so.
            None => return Ok(()),
            Some(setup) if has(&setup) => return Ok(()),
            Some(_) => {}
        }
        // It may be new.
        match self.setup_within(LOOK_MS_MIN).await? {
            Some(setup) if !has(&setup) => {
                let (object_type, known) = (object_type.to_owned(), setup.object_types);
                Err(ClientError::UnknownObjectType { object_type, known })
            }
            _ => Ok(()),
        }
    }
}

/// Somebody who waits for a call, and stops when it is dropped.
struct Waiter {
    shared: Arc<Shared>,
    key: CallKey,
    receiver: Option<tokio::sync::oneshot::Receiver<Told>>,
}

impl Waiter {
    async fn told(&mut self) -> Told {
        match &mut self.receiver {
            Some(receiver) => {
                let told = receiver.await;
                self.receiver = None;
                told.unwrap_or(Told::Look)
            }
            None => std::future::pending().await,
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if self.receiver.take().is_some() {
            self.shared.wait_no_more(&self.key);
        }
    }
}

/// Takes messages into an owner's inbox.
#[derive(Clone)]
pub struct OwnerInbox {
    client: Client,
    owner: Owner,
}

#[async_trait]
impl Inbox for OwnerInbox {
    async fn accept(&self, arrived: Vec<IncomingMessage>) -> Result<(), Error> {
        let owned = arrived.into_iter().map(|arrived| {
            let stream = Stream::new(arrived.stream)
                .map_err(|bad| Error::new(Kind::Invalid, "accept", "stream").because(bad))?;
            Ok(NewMessage {
                kind: arrived.kind,
                payload: arrived.payload,
                headers: arrived.headers,
                ..message(Queue::Inbox, self.owner.clone(), stream, arrived.id)
            })
        });
        let messages = owned.collect::<Result<Vec<_>, Error>>()?;
        if messages.is_empty() {
            return Ok(());
        }
        self.client.send(messages).await.map(|_| ())
    }
}
