//! An instance that runs messages: what it makes of each is an event, so that the event store is the
//! history of all effects.
//!
//! Holds throughout: the event of a message is appended to the event stream of the same name, says the
//! same, and names the instance whose handler made it.

use std::error::Error;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;
use windrow::domain::Expected;
use windrow::domain::retry::Policy;
use windrow::engine::deliver::Patterns;
use windrow::engine::messages::{
    Consumer, Context, Effects, HandlerError, Options, Runner, Running,
};
use windrow::engine::signal::Stop;
use windrow::store::Retry;
use windrow::store::message::Headers;
use windrow::store::partition::Setup;

use crate::{fixture, wait};

/// The service that all instances are part of.
pub const SERVICE: &str = "fault";
/// Fewer than usual, so that each has several streams and all move often.
pub const PARTITIONS: u16 = 64;
/// A message of this kind ends its process.
pub const POISON: &str = "poison";
/// The header of an event that names the instance.
pub const BY: &str = "instance";
/// The header of an event that says which try of the message made it.
pub const ATTEMPT: &str = "attempt";

/// How long a handler takes: long enough to be caught in the middle of it.
const HANDLER: Duration = Duration::from_millis(2);
const POLL: Duration = Duration::from_millis(5);

/// The bounds that tests choose.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How often an instance says that it is alive.
    pub heartbeat_ms: u64,
    /// When one that fell silent is taken for dead.
    pub stale_ms: u64,
    /// Most tries of a message.
    pub attempts_max: u32,
}

impl Bounds {
    /// As words of a command line.
    pub fn words(&self) -> [String; 3] {
        [self.heartbeat_ms.to_string(), self.stale_ms.to_string(), self.attempts_max.to_string()]
    }

    /// From words of a command line.
    pub fn parse(words: [&str; 3]) -> Result<Self, std::num::ParseIntError> {
        let [heartbeat, stale, attempts] = words;
        Ok(Self {
            heartbeat_ms: heartbeat.parse()?,
            stale_ms: stale.parse()?,
            attempts_max: attempts.parse()?,
        })
    }

    /// With everything else short.
    pub fn options(&self) -> Options {
        let retry = Policy {
            attempts_max: self.attempts_max,
            attempts_not_found_max: Some(self.attempts_max),
            backoff_ms_min: 20,
            backoff_ms_max: 300,
            ..Policy::default()
        };
        Options::default()
            .partitions(PARTITIONS)
            .heartbeat_every(Duration::from_millis(self.heartbeat_ms))
            .stale_after(Duration::from_millis(self.stale_ms))
            .poll_every(Duration::from_millis(250))
            .idle_after(Duration::from_millis(250))
            .handler_timeout(Duration::from_secs(10))
            .grace(Duration::from_secs(5))
            .retry(retry)
    }
}

/// What instances of these tests fix, so that a test can send before the first of them is up.
pub fn setup() -> Setup {
    let service = SERVICE.to_owned();
    Setup { service, partitions: PARTITIONS, object_types: Vec::new(), lifecycle: false }
}

/// Turns each message into an event.
#[derive(Clone)]
struct Ledger(watch::Receiver<Option<Weak<Running>>>);

#[async_trait]
impl Consumer for Ledger {
    async fn consume(&self, context: Context, payload: Bytes) -> Result<Effects, HandlerError> {
        if context.kind == POISON {
            std::process::abort();
        }
        let mut up = self.0.clone();
        let runner = up.wait_for(Option::is_some).await?.as_ref().and_then(Weak::upgrade);
        let Some(by) = runner.map(|runner| runner.instance()) else {
            return Err(HandlerError::retry("the runner is gone"));
        };
        wait::pause(HANDLER).await;
        let mut event = context.event("applied", payload);
        let headers = [(BY, by.to_string()), (ATTEMPT, context.attempt.to_string())];
        event.headers = Headers::from(headers.map(|(name, value)| (name.to_owned(), value)));
        Ok(Effects::none().append(context.append(Expected::Any, vec![event])))
    }
}

/// Starts; again when the database is busy or away, as whoever starts services does.
async fn start(database: &str, bounds: &Bounds, ledger: Ledger) -> windrow::store::Result<Running> {
    loop {
        let ledger = ledger.clone();
        let started = async {
            let runner = Runner::builder(fixture::open(database).await?, SERVICE);
            let runner = runner.options(bounds.options());
            runner.consumer("ledger", Patterns::default(), ledger).start().await
        };
        match started.await {
            Err(error) if error.kind.retry() != Retry::Never => wait::pause(POLL).await,
            outcome => return outcome,
        }
    }
}

/// Runs until it is asked to end, and gives back what it has.
pub async fn serve(database: &str, bounds: &Bounds) -> Result<(), Box<dyn Error>> {
    let mut asked = pin!(Stop::asked_by_system());
    let (tell, up) = watch::channel(None);
    let runner = tokio::select! {
        biased;
        early = &mut asked => return Ok(early?),
        runner = start(database, bounds, Ledger(up)) => runner?,
    };
    let mut runner = Arc::new(runner);
    tell.send_replace(Some(Arc::downgrade(&runner)));
    asked.await?;
    runner.handle().stop();
    loop {
        // A handler may look at it for a moment.
        match Arc::try_unwrap(runner) {
            Ok(mut alone) => {
                alone.wait().await;
                return Ok(());
            }
            Err(shared) => runner = shared,
        }
        wait::pause(POLL).await;
    }
}
