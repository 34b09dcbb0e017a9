//! A store that counts what it is asked, and can lose calls and replies.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use windrow_domain::{DeadLetterId, InstanceId, Owner, PartitionNo, Stream};
use windrow_store::call::{
    Call, CallKey, CallStats, Calls, CallsQuery, NewCall, StatsQuery, Submitted,
};
use windrow_store::event::{Append, Appended, Event, Events, Snapshot};
use windrow_store::inspect::Page;
use windrow_store::member::{Member, Members, NewMember};
use windrow_store::message::{
    Backlog, Commit, Committed, DeadLetter, Exchange, Exchanged, Message, Messages, MessagesQuery,
    NewMessage, Read, Sent, Tidied, Upkeep, Work,
};
use windrow_store::object::{ObjectKey, Objects};
use windrow_store::own::{Script, Transactions};
use windrow_store::partition::{Fence, Partition, Partitions, Setup, Taken};
use windrow_store::wake::{Wake, Wakes};
use windrow_store::{Error, Kind, Plane, Result, Scope};
use windrow_store_sqlite::SqliteStore;

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Passes,
    /// It never comes to the database.
    Lost,
    /// It happens, and nobody hears of it.
    ReplyLost,
}

type Plan = Box<dyn Fn(&'static str, u64) -> Fate + Send + Sync>;

/// The store.
pub(crate) struct Watched {
    inner: Arc<SqliteStore>,
    plan: Plan,
    counts: Mutex<BTreeMap<&'static str, u64>>,
    total: AtomicU64,
}

impl Watched {
    /// `plan` decides by the verb and how often it was asked before.
    pub(crate) fn new(
        inner: Arc<SqliteStore>,
        plan: impl Fn(&'static str, u64) -> Fate + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (counts, total) = (Mutex::default(), AtomicU64::new(0));
        Arc::new(Self { inner, plan: Box::new(plan), counts, total })
    }

    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::SeqCst)
    }

    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.lock().unwrap().clone()
    }

    fn fate(&self, verb: &'static str) -> Fate {
        self.total.fetch_add(1, Ordering::SeqCst);
        let mut counts = self.counts.lock().unwrap();
        let count = counts.entry(verb).or_default();
        *count += 1;
        (self.plan)(verb, *count - 1)
    }

    async fn pass<T>(
        &self,
        verb: &'static str,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let lost = || Error::new(Kind::Unavailable, verb, "a lost call");
        match self.fate(verb) {
            Fate::Passes => call.await,
            Fate::Lost => Err(lost()),
            Fate::ReplyLost => {
                call.await?;
                Err(lost())
            }
        }
    }
}

macro_rules! pass_on {
    ($stage:ident { $($verb:ident($($name:ident: $kind:ty),*) -> $reply:ty;)* }) => {
        #[async_trait]
        impl $stage for Watched {
            $(async fn $verb(&self, $($name: $kind),*) -> Result<$reply> {
                self.pass(stringify!($verb), self.inner.$verb($($name),*)).await
            })*
        }
    };
}

pass_on!(Members {
    register(member: NewMember) -> ();
    heartbeat(instance: InstanceId) -> ();
    tombstone(instance: InstanceId) -> u64;
    reap_members(stale_ms: u64, limit: u32) -> Vec<InstanceId>;
    members() -> Vec<Member>;
    take_duty(instance: InstanceId, duty: &str, lease_ms: u64) -> bool;
});

pass_on!(Partitions {
    set_up(setup: Setup) -> Setup;
    setup() -> Option<Setup>;
    partitions() -> Vec<Partition>;
    take_partitions(instance: InstanceId, wanted: &[PartitionNo]) -> Vec<Taken>;
    release_partitions(instance: InstanceId, fences: &[Fence]) -> u64;
    clear_suspects(instance: InstanceId, fences: &[Fence]) -> ();
});

pass_on!(Messages {
    send(messages: Vec<NewMessage>) -> Vec<Sent>;
    read_owned(read: Read) -> Work;
    commit(commit: Commit) -> Committed;
    exchange(exchange: Exchange) -> Exchanged;
    messages(scope: &Scope, query: MessagesQuery) -> Page<Message>;
    dead_letters(scope: &Scope, query: MessagesQuery) -> Page<DeadLetter>;
    replay_dead(scope: &Scope, ids: &[DeadLetterId]) -> Vec<Sent>;
    discard_dead(scope: &Scope, ids: &[DeadLetterId]) -> u64;
    backlog() -> Vec<Backlog>;
    tidy_messages(upkeep: Upkeep, limit: u32) -> Tidied;
});

pass_on!(Transactions {
    commit_inside(
        instance: InstanceId,
        fences: &[Fence],
        ms_max: u64,
        script: Box<dyn Script>
    ) -> Committed;
});

pass_on!(Objects {
    states(keys: &[ObjectKey]) -> Vec<Option<Bytes>>;
});

pass_on!(Events {
    append(appends: Vec<Append>) -> Vec<Appended>;
    read_stream(owner: &Owner, stream: &Stream, from: u64, limit: u32) -> Vec<Event>;
    stream_version(owner: &Owner, stream: &Stream) -> u64;
    read_all(scope: &Scope, after: Option<&str>, limit: u32) -> Page<Event>;
    put_snapshot(snapshot: Snapshot) -> ();
    snapshot(owner: &Owner, stream: &Stream) -> Option<Snapshot>;
});

pass_on!(Calls {
    submit_call(call: NewCall) -> Submitted;
    call(key: &CallKey) -> Call;
    calls(scope: &Scope, query: CallsQuery) -> Page<Call>;
    call_stats(scope: &Scope, query: StatsQuery) -> CallStats;
});

pass_on!(Wakes {
    listen(instance: InstanceId) -> BoxStream<'static, Wake>;
    set_asleep(instance: InstanceId, asleep: bool) -> ();
});

impl Plane for Watched {}
