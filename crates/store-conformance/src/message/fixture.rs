//! The words of the cases about messages: a message, a runner that owns partitions.
//!
//! Holds throughout: everything of the suite's own fixture; a runner does nothing by itself.

use bytes::Bytes;
use jiff::Timestamp;
use windrow_domain::{
    CallState, CrashPolicy, DeadLetterId, Expected, InstanceId, Owner, PartitionNo, Queue,
    RequestId, Stream,
};
use windrow_store::call::{Answer, Call, CallKey, CallResult, NewCall};
use windrow_store::event::{Append, NewEvent};
use windrow_store::member::NewMember;
use windrow_store::message::{
    Commit, Dead, Done, FailedAttempt, Headers, Message, MessageRef, MessageRetention,
    MessagesQuery, NewMessage, ProcessingReport, Read, ReadFrom, Sent, Started, Work,
};
use windrow_store::object::{ObjectKey, PutState};
use windrow_store::partition::{Fence, Setup, Taken};
use windrow_store::{
    Calls, Events, Kind, Members, MessageStore, Messages, Partitions, Result, Scope,
};

use super::MessageWorld;
pub(crate) use crate::fixture::{Dice, kind, later, now, owner, pass, scope, whole_text};

/// Partitions of the suite's worlds: few, so that streams share them.
pub(crate) const PARTITIONS: u16 = 8;
/// How often in a row a send may be told that it met somebody.
const BUSY_TRIES_MAX: usize = 20;
/// The owner of messages whose owner does not matter.
pub(crate) const ADA: &str = "ada";

pub(crate) fn stream(name: &str) -> Stream {
    Stream::new(name).expect("the suite's streams have good names")
}

pub(crate) fn ada() -> Owner {
    owner(ADA)
}

/// The set-up that worlds have unless a case says otherwise.
pub(crate) fn setup() -> Setup {
    Setup {
        service: "orders".to_owned(),
        partitions: PARTITIONS,
        object_types: vec!["order".to_owned(), "wallet".to_owned()],
        lifecycle: false,
    }
}

/// Sets the world up and gives a runner that owns everything.
pub(crate) async fn ready<W: MessageWorld>(world: &W) -> Runner<W::Store> {
    world.store().set_up(setup()).await.expect("a fresh world is set up");
    Runner::owning(world.store(), &all()).await
}

/// Every partition.
pub(crate) fn all() -> Vec<PartitionNo> {
    (0..PARTITIONS).collect()
}

/// A message of the inbox, whose payload is made from its id.
pub(crate) fn inbox(stream_name: &str, id: &str) -> NewMessage {
    NewMessage {
        queue: Queue::Inbox,
        owner: ada(),
        stream: stream(stream_name),
        id: id.to_owned(),
        kind: "order.placed".to_owned(),
        payload: Bytes::from(format!("payload of {id}")),
        headers: Headers::new(),
        not_before: None,
        consumers: Vec::new(),
        dedupe: false,
    }
}

pub(crate) fn outbox(stream_name: &str, id: &str) -> NewMessage {
    NewMessage { queue: Queue::Outbox, ..inbox(stream_name, id) }
}

/// So many messages of a stream, named `stream-no`, from one.
pub(crate) fn several(stream_name: &str, count: usize) -> Vec<NewMessage> {
    (1..=count).map(|no| inbox(stream_name, &format!("{stream_name}-{no}"))).collect()
}

/// Sends one message that is not there yet.
pub(crate) async fn send(store: &impl Messages, message: NewMessage) -> MessageRef {
    let sent = send_all(store, vec![message]).await;
    assert!(!sent[0].is_duplicate);
    sent[0].at
}

/// Sends. A stream that is forgotten at that very moment makes it `Busy`: then once more.
pub(crate) async fn send_all(store: &impl Messages, messages: Vec<NewMessage>) -> Vec<Sent> {
    let count = messages.len();
    for _ in 0..BUSY_TRIES_MAX {
        match store.send(messages.clone()).await {
            Err(error) if error.kind == Kind::Busy => {}
            sent => {
                let sent = sent.expect("a good message is sent");
                assert_eq!(sent.len(), count);
                return sent;
            }
        }
    }
    panic!("the store was busy {BUSY_TRIES_MAX} times in a row")
}

pub(crate) fn ids(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.id.as_str()).collect()
}

/// Lets others go on for a moment, where a case waits for a state that real time brings about.
#[expect(clippy::disallowed_methods, reason = "the one place where the suite waits")]
pub(crate) async fn a_moment() {
    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
}

/// The ids of one stream's messages, in the order they were read.
pub(crate) fn ids_of<'a>(messages: &'a [Message], stream_name: &str) -> Vec<&'a str> {
    let of = messages.iter().filter(|message| message.stream.as_str() == stream_name);
    of.map(|message| message.id.as_str()).collect()
}

/// The same things, sorted.
pub(crate) fn sorted<T: Ord>(things: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut things: Vec<T> = things.into_iter().collect();
    things.sort_unstable();
    things
}

pub(crate) fn done(at: MessageRef) -> Done {
    Done { at, consumer: None }
}

pub(crate) fn failed(at: MessageRef, error: &str, not_before: Timestamp) -> FailedAttempt {
    FailedAttempt { at, error: error.to_owned(), not_before, waiting: Vec::new(), counts: true }
}

/// Gives a message up.
pub(crate) fn dead(at: MessageRef, error: &str) -> Dead {
    Dead { at, id: DeadLetterId::new(), error: error.to_owned(), counts: false }
}

/// An event, whose payload is made from its id.
pub(crate) fn event(id: &str) -> NewEvent {
    NewEvent {
        id: id.to_owned(),
        kind: "money.deposited".to_owned(),
        payload: Bytes::from(format!("event {id}")),
        headers: Headers::new(),
    }
}

pub(crate) fn append(name: &str, expected: Expected, ids: &[&str]) -> Append {
    let events = ids.iter().map(|id| event(id)).collect();
    Append { owner: ada(), stream: stream(name), expected, events }
}

pub(crate) async fn version(store: &impl Events, name: &str) -> u64 {
    store.stream_version(&ada(), &stream(name)).await.expect("a version is told")
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey { owner: ada(), stream: stream(name) }
}

pub(crate) fn put(name: &str, state: &str) -> PutState {
    PutState { key: key(name), state: Some(Bytes::copy_from_slice(state.as_bytes())) }
}

pub(crate) fn query(limit: u32) -> MessagesQuery {
    MessagesQuery { limit, ..MessagesQuery::default() }
}

/// Every message that waits, whoever may run it.
pub(crate) async fn waiting(store: &impl Messages) -> Vec<Message> {
    let page = store.messages(&Scope::All, query(1000)).await.expect("messages are listed");
    assert_eq!(page.next, None, "the case has few messages");
    page.rows
}

/// Keeps everything for a year.
pub(crate) fn keep() -> MessageRetention {
    let year_ms = 365 * 24 * 3_600_000;
    MessageRetention {
        dedupe_ms: year_ms,
        archive_ms: year_ms,
        archived_ms: None,
        tombstone_ms: year_ms,
        dead_ms: None,
        stream_ms: year_ms,
        event_ms: None,
    }
}

/// A call of a wallet, whose arguments are made from its id.
pub(crate) fn call(object_id: &str, request_id: &str) -> NewCall {
    NewCall {
        key: call_key(request_id),
        object_type: "wallet".to_owned(),
        object_id: object_id.to_owned(),
        method: "deposit".to_owned(),
        args: Bytes::from(format!("args of {request_id}")),
        policy: CrashPolicy::Retry,
        caller_object: None,
        caller_client: None,
        expires_at: None,
        waiter: None,
    }
}

pub(crate) fn call_key(request_id: &str) -> CallKey {
    let request_id = RequestId::new(request_id).expect("the suite's requests have good names");
    CallKey { owner: ada(), request_id }
}

/// Asks for what was not asked for before.
pub(crate) async fn submit(store: &impl Calls, call: NewCall) -> MessageRef {
    let submitted = store.submit_call(call).await.expect("a good call is submitted");
    assert_eq!(submitted.call.state, CallState::Pending);
    submitted.at.expect("it is new")
}

pub(crate) fn reply(at: MessageRef, request_id: &str, text: &str) -> CallResult {
    let answer = Answer::Reply(Bytes::copy_from_slice(text.as_bytes()));
    CallResult { key: call_key(request_id), at, answer }
}

pub(crate) fn refusal(at: MessageRef, request_id: &str, error: &str) -> CallResult {
    CallResult { key: call_key(request_id), at, answer: Answer::Error(error.to_owned()) }
}

/// The call as it is now.
pub(crate) async fn seen_call(store: &impl Calls, request_id: &str) -> Call {
    store.call(&call_key(request_id)).await.expect("the call is there")
}

pub(crate) async fn join(store: &impl Members) -> InstanceId {
    let instance = InstanceId::new();
    let member = NewMember {
        instance,
        service: "orders".to_owned(),
        host: "host".to_owned(),
        pid: 1,
        metadata: "{}".to_owned(),
        lock: None,
    };
    store.register(member).await.expect("anybody may join");
    instance
}

/// An instance that owns partitions, as far as it knows.
#[derive(Clone, Debug)]
pub(crate) struct Runner<S> {
    pub(crate) store: S,
    pub(crate) instance: InstanceId,
    pub(crate) fences: Vec<Fence>,
}

impl<S: MessageStore + Clone> Runner<S> {
    /// A new instance without partitions.
    pub(crate) async fn join(store: &S) -> Self {
        Self { store: store.clone(), instance: join(store).await, fences: Vec::new() }
    }

    /// A new instance that takes these, which must be free.
    pub(crate) async fn owning(store: &S, wanted: &[PartitionNo]) -> Self {
        let mut runner = Self::join(store).await;
        let taken = runner.take(wanted).await;
        assert_eq!(taken.len(), wanted.len(), "they were to be free");
        runner
    }

    /// Takes what it can of these, and remembers the fences. By partition.
    pub(crate) async fn take(&mut self, wanted: &[PartitionNo]) -> Vec<Taken> {
        let taken = self.store.take_partitions(self.instance, wanted).await;
        let mut taken = taken.expect("a live instance may take");
        taken.sort_by_key(|taken| taken.fence);
        for taken in &taken {
            self.fences.retain(|fence| fence.partition != taken.fence.partition);
            self.fences.push(taken.fence);
        }
        self.fences.sort_unstable();
        taken
    }

    pub(crate) fn partitions(&self) -> Vec<PartitionNo> {
        self.fences.iter().map(|fence| fence.partition).collect()
    }

    pub(crate) fn fence(&self, partition: PartitionNo) -> Fence {
        let found = self.fences.iter().find(|fence| fence.partition == partition);
        *found.expect("the runner took this partition")
    }

    /// A read of everything it owns, with generous bounds.
    pub(crate) fn read(&self) -> Read {
        let from = |fence: &Fence| ReadFrom { fence: *fence, after_stream: 0 };
        Read {
            instance: self.instance,
            from: self.fences.iter().map(from).collect(),
            held: Vec::new(),
            messages_max: 1000,
            stream_messages_max: 1000,
        }
    }

    pub(crate) async fn work(&self) -> Work {
        self.work_of(self.read()).await
    }

    pub(crate) async fn work_of(&self, read: Read) -> Work {
        self.store.read_owned(read).await.expect("a good read is answered")
    }

    /// Everything it may run now.
    pub(crate) async fn messages(&self) -> Vec<Message> {
        self.work().await.messages
    }

    /// The first message of a stream of the inbox, which must be due.
    pub(crate) async fn head(&self, stream_name: &str) -> Message {
        let messages = self.messages().await;
        let mut of = messages.into_iter().filter(|one| one.stream.as_str() == stream_name);
        of.next().expect("the stream has a message that is due")
    }

    /// A commit without effects, under everything it owns.
    pub(crate) fn effects(&self) -> Commit {
        Commit { fences: self.fences.clone(), ..Commit::new(self.instance) }
    }

    /// A commit that ends these messages.
    pub(crate) fn ending(&self, ended: &[MessageRef]) -> Commit {
        Commit { done: ended.iter().copied().map(done).collect(), ..self.effects() }
    }

    pub(crate) async fn finish(&self, ended: &[MessageRef]) {
        self.store.commit(self.ending(ended)).await.expect("the owner may end its messages");
    }

    /// Fails one message, due again at once unless a time is given.
    pub(crate) async fn fail(&self, failed: FailedAttempt) {
        let commit = Commit { failed: vec![failed], ..self.effects() };
        self.store.commit(commit).await.expect("the owner may fail its messages");
    }

    /// Gives one message up.
    pub(crate) async fn give_up(&self, dead: Dead) {
        let commit = Commit { dead: vec![dead], ..self.effects() };
        self.store.commit(commit).await.expect("the owner may give its messages up");
    }

    /// Says that it begins.
    pub(crate) async fn begin(&self, at: MessageRef) {
        let commit = Commit { started: vec![Started { at }], ..self.effects() };
        self.store.commit(commit).await.expect("the owner may begin");
    }

    /// Says that a call runs for long, as its message was read.
    pub(crate) async fn run_on(&self, message: &Message) {
        let commit = Commit { running: vec![ProcessingReport::of(message)], ..self.effects() };
        self.store.commit(commit).await.expect("the owner may say what runs");
    }

    /// Answers one call.
    pub(crate) async fn answer(&self, result: CallResult) {
        let commit = Commit { calls: vec![result], ..self.effects() };
        self.store.commit(commit).await.expect("the owner may answer");
    }

    pub(crate) async fn try_finish(&self, at: MessageRef) -> Result<()> {
        self.store.commit(self.ending(&[at])).await.map(drop)
    }
}
