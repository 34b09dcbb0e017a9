//! The verbs of the contract, each once: its arguments, what it answers, how an error names it, and what
//! is checked before a backend sees it. What is written around every verb is generated from this table:
//! [`crate::layer`] passes each on, [`crate::checked_store`] checks and names it.
//!
//! A row reads `verb(arguments) -> reply { "words of the verb", subject, check }`. An error of it says
//! `could not <words> <subject>: <kind>`; a list has no subject. The subject is taken before the arguments
//! move on, so it is an id or a name and costs nothing where nothing fails.
//!
//! Absent on purpose: checks that only hold under a lock, which stay with the backend; and those of a
//! chunk's lines, whose result the backend needs.

/// Writes `$then! { [$with] Stage { rows } }` for every stage.
#[doc(hidden)]
#[macro_export]
macro_rules! each_stage {
    ([$($then:tt)*] $with:tt) => {
        $($then)*! { $with Ingest {
            open_file(file: NewFile) -> () { "open file", file.id, Ok(()) }
            add_lines(file: FileId, chunk: Chunk) -> () { "add lines to file", file, Ok(()) }
            expire_file(file: FileId, expires_at: Timestamp) -> () { "expire file", file, Ok(()) }
            describe_file(file: FileId, description: FileDescription) -> () {
                "describe file", file, description.check()
            }
            seal_file(file: FileId, verdict: FileVerdict) -> File { "seal file", file, verdict.check() }
            drop_file(scope: &Scope, file: FileId) -> () { "drop file", file, Ok(()) }
        }}
        $($then)*! { $with Batches {
            create_batch(batch: NewBatch) -> Batch { "create batch", batch.id, batch.check() }
            create_batch_with_file(batch: NewBatch, verdict: FileVerdict) -> Batch {
                "create batch", batch.id, batch.check().and_then(|()| verdict.check())
            }
            pause_batch(scope: &Scope, batch: BatchId, reason: Option<String>) -> Batch {
                "pause batch", batch, Ok(())
            }
            resume_batch(scope: &Scope, batch: BatchId, window_secs: Option<u64>) -> Batch {
                "resume batch", batch, check_window(window_secs)
            }
            cancel_batch(scope: &Scope, batch: BatchId) -> Batch { "cancel batch", batch, Ok(()) }
            continue_batch(scope: &Scope, how: Continue) -> Batch {
                "continue batch", how.batch, how.check()
            }
            reprocess(scope: &Scope, step: Reprocess) -> Reprocessed {
                "reprocess batch", step.batch, step.check()
            }
            try_now(scope: &Scope, batch: BatchId, lines: LineSet) -> TriedNow {
                "try lines now of batch", batch, check_tried_now(&lines)
            }
            reshape(scope: &Scope, batch: BatchId, rows: Vec<Reshaped>) -> u64 {
                "reshape batch", batch, check_reshaped(&rows)
            }
            delete_batch(scope: &Scope, batch: BatchId) -> () { "delete batch", batch, Ok(()) }
            move_batch(
                scope: &Scope, batch: BatchId, upstream: UpstreamId, entry: NewAuditEntry
            ) -> Batch { "move batch", batch, check_move(&upstream).and_then(|()| entry.check()) }
            add_audit_entry(scope: &Scope, batch: BatchId, entry: NewAuditEntry) -> () {
                "add audit entry to batch", batch, entry.check()
            }
        }}
        $($then)*! { $with Claim {
            waiting(poll: Poll) -> Polled {
                "list waiting targets", "", poll.check()
            }
            extend_leases(instance: InstanceId, known: Vec<LeaseId>, lease_ms: u64) -> Extended {
                "extend leases of instance", instance, check_lease_ms(lease_ms)
            }
            release_leases(instance: InstanceId, leases: Vec<LeaseId>) -> u64 {
                "release leases of instance", instance, Ok(())
            }
            mark_alone(instance: InstanceId, lease: LeaseId, token: u64) -> bool {
                "mark lease", lease, Ok(())
            }
            set_limit(target: &Target, in_flight_max: Option<u32>) -> () {
                "set limit of target", target, Ok(())
            }
        }}
        $($then)*! { $with Record {
            turn(turn: Turn) -> Reply { "record turn of instance", turn.instance, turn.check() }
        }}
        $($then)*! { $with Finalise {
            take_finalisation(batch: BatchId, instance: InstanceId, lease_ms: u64) -> Finalisation {
                "take finalisation of batch", batch, check_lease_ms(lease_ms)
            }
            close_batch(
                held: &Finalisation, rows: Rows, summary: &str, outputs: &[NewOutput]
            ) -> Batch { "close batch", held.batch, check_outputs(outputs) }
            find_unclosed(limit: u32) -> Vec<BatchId> { "find unclosed batches", "", Ok(()) }
        }}
        $($then)*! { $with Members {
            register(member: NewMember) -> () {
                "register instance", member.instance, member.check()
            }
            heartbeat(instance: InstanceId) -> () {
                "send heartbeat of instance", instance, Ok(())
            }
            tombstone(instance: InstanceId) -> u64 { "tombstone instance", instance, Ok(()) }
            bury(instance: InstanceId, evidence: Evidence) -> bool {
                "bury instance", instance, Ok(())
            }
            members() -> Vec<Member> { "list members", "", Ok(()) }
            take_duty(instance: InstanceId, duty: &str, lease_ms: u64) -> bool {
                "take duty", duty, check_duty(duty, lease_ms)
            }
        }}
        $($then)*! { $with Sweep {
            return_lost(limit: u32, crashes_max: u32) -> Lost { "return lost leases", "", Ok(()) }
            expire_batches(limit: u32) -> Vec<BatchId> { "expire batches", "", Ok(()) }
            prune(retention: Retention, limit: u32) -> Pruned { "prune batches", "", Ok(()) }
            reap(rows_max: u32) -> Reaped { "reap deleted rows", "", Ok(()) }
            find_dropped_outputs(limit: u32) -> Vec<DroppedOutput> {
                "find dropped outputs", "", Ok(())
            }
            forget_outputs(outputs: &[DroppedOutput]) -> () { "forget outputs", "", Ok(()) }
        }}
        $($then)*! { $with Inspect {
            file(scope: &Scope, file: FileId) -> File { "read file", file, Ok(()) }
            files(scope: &Scope, query: FilesQuery) -> Page<File> { "list files", "", query.check() }
            file_errors(scope: &Scope, file: FileId) -> Vec<LineError> {
                "read errors of file", file, Ok(())
            }
            file_lanes(scope: &Scope, file: FileId) -> Vec<FileLane> {
                "read lanes of file", file, Ok(())
            }
            chunk_sizes(scope: &Scope, file: FileId) -> Vec<u64> {
                "read chunk sizes of file", file, Ok(())
            }
            read_chunk(scope: &Scope, file: FileId, no: u32) -> Bytes {
                "read chunk", format!("{no} of file {file}"), Ok(())
            }
            batch(scope: &Scope, batch: BatchId) -> Batch { "read batch", batch, Ok(()) }
            batches(scope: &Scope, query: BatchesQuery) -> Page<Batch> {
                "list batches", "", query.check()
            }
            lanes(scope: &Scope, batch: BatchId) -> Vec<LaneStatus> {
                "read lanes of batch", batch, Ok(())
            }
            holders(scope: &Scope, batch: BatchId) -> Vec<Holder> {
                "read holders of batch", batch, Ok(())
            }
            audit_log(scope: &Scope, batch: BatchId) -> Vec<AuditEntry> {
                "read audit log of batch", batch, Ok(())
            }
            recipes(scope: &Scope, batch: BatchId) -> Vec<BatchRecipe> {
                "read recipes of batch", batch, Ok(())
            }
            job_definition(batch: BatchId) -> JobDefinition {
                "read definition of batch", batch, Ok(())
            }
            attempts(scope: &Scope, batch: BatchId, line: u64) -> Vec<PastAttempt> {
                "read attempts of batch", batch, Ok(())
            }
            attempt_counts(batch: BatchId, lines: &[u64]) -> Vec<AttemptCounts> {
                "count attempts of batch", batch, AttemptCounts::check(lines)
            }
            pending(scope: &Scope, query: PendingQuery) -> Page<PendingLine> {
                "list pending lines", "", check_limit(query.limit)
            }
            finished(scope: &Scope, query: FinishedQuery) -> Page<FinishedLine> {
                "list finished lines", "", check_limit(query.limit)
            }
            rows(scope: &Scope, query: RowsQuery) -> Page<BatchRow> {
                "list rows of batch", query.batch, query.check()
            }
            verify(batch: BatchId) -> BatchRows { "verify batch", batch, Ok(()) }
        }}
        $($then)*! { $with Partitions {
            set_up(setup: Setup) -> Setup { "set up messages", "", setup.check() }
            setup() -> Option<Setup> { "read setup of messages", "", Ok(()) }
            partitions() -> Vec<Partition> { "list partitions", "", Ok(()) }
            take_partitions(instance: InstanceId, wanted: &[PartitionNo]) -> Vec<Taken> {
                "take partitions for instance", instance, Ok(())
            }
            release_partitions(instance: InstanceId, fences: &[Fence]) -> u64 {
                "release partitions of instance", instance, Ok(())
            }
            clear_suspects(instance: InstanceId, fences: &[Fence]) -> () {
                "clear suspects of instance", instance, Ok(())
            }
        }}
        $($then)*! { $with Messages {
            send(messages: Vec<NewMessage>) -> Vec<Sent> {
                "send messages", "", check_send(&messages)
            }
            read_owned(read: Read) -> Work {
                "read messages for instance", read.instance, read.check()
            }
            commit(commit: Commit) -> Committed {
                "commit for instance", commit.instance, commit.check()
            }
            exchange(exchange: Exchange) -> Exchanged {
                "exchange for instance", exchange.commit.instance, exchange.check()
            }
            messages(scope: &Scope, query: MessagesQuery) -> Page<Message> {
                "list messages", "", check_limit(query.limit)
            }
            dead_letters(scope: &Scope, query: MessagesQuery) -> Page<DeadLetter> {
                "list dead letters", "", check_limit(query.limit)
            }
            replay_dead(scope: &Scope, ids: &[DeadLetterId]) -> Vec<Sent> {
                "replay dead letters", "", check_dead_letters(ids)
            }
            discard_dead(scope: &Scope, ids: &[DeadLetterId]) -> u64 {
                "discard dead letters", "", check_dead_letters(ids)
            }
            backlog() -> Vec<Backlog> { "count backlog", "", Ok(()) }
            prune_messages(retention: MessageRetention, limit: u32) -> PrunedMessages {
                "prune messages", "", Ok(())
            }
        }}
        $($then)*! { $with Transactions {
            commit_with(
                instance: InstanceId, fences: &[Fence], ms_max: u64, script: Box<dyn Script>
            ) -> Committed {
                "commit transaction of instance", instance, check_script_ms(ms_max)
            }
        }}
        $($then)*! { $with Objects {
            states(keys: &[ObjectKey]) -> Vec<Option<Bytes>> {
                "read object states", "", check_objects(keys)
            }
        }}
        $($then)*! { $with Events {
            append(appends: Vec<Append>) -> Vec<Appended> {
                "append events", "", check_appends(&appends)
            }
            read_stream(owner: &Owner, stream: &Stream, from: u64, limit: u32) -> Vec<Event> {
                "read stream", stream, check_limit(limit)
            }
            stream_version(owner: &Owner, stream: &Stream) -> u64 {
                "read version of stream", stream, Ok(())
            }
            read_all(scope: &Scope, after: Option<&str>, limit: u32) -> Page<Event> {
                "read events", "", check_limit(limit)
            }
            put_snapshot(snapshot: Snapshot) -> () {
                "put snapshot of stream", snapshot.stream.clone(), Ok(())
            }
            snapshot(owner: &Owner, stream: &Stream) -> Option<Snapshot> {
                "read snapshot of stream", stream, Ok(())
            }
        }}
        $($then)*! { $with Calls {
            submit_call(call: NewCall) -> Submitted {
                "submit call", call.key.request_id.clone(), call.check()
            }
            submit_calls(calls: Vec<NewCall>) -> Vec<Submitted> {
                "submit calls", "", check_calls(&calls)
            }
            cancel_call(key: &CallKey, reason: Option<String>) -> Call {
                "cancel call", &key.request_id, check_reason(reason.as_deref())
            }
            expire_calls(limit: u32) -> Vec<CallKey> {
                "expire calls", "", Ok(())
            }
            call(key: &CallKey) -> Call { "read call", &key.request_id, Ok(()) }
            calls(scope: &Scope, query: CallsQuery) -> Page<Call> {
                "list calls", "", check_limit(query.limit)
            }
            call_stats(scope: &Scope, query: StatsQuery) -> CallStats {
                "read call statistics", "", Ok(())
            }
            call_retries(scope: &Scope, query: RetriesQuery) -> Vec<ObjectRetries> {
                "read repeats of calls", "", Ok(())
            }
        }}
        $($then)*! { $with Wakes {
            listen(instance: InstanceId) -> BoxStream<'static, Wake> {
                "listen for instance", instance, Ok(())
            }
            set_idle(instance: InstanceId, asleep: bool) -> () {
                "set idle state of instance", instance, Ok(())
            }
        }}
        $($then)*! { $with Keys {
            add_key(key: NewKey) -> Key { "add key", key.id, key.check() }
            find_key(hash: &[u8; 32]) -> Key { "find key", "by hash", Ok(()) }
            touch_keys(keys: &[KeyId]) -> () { "touch keys", "", check_touched(keys) }
            revoke_key(scope: &Scope, key: KeyId) -> Key { "revoke key", key, Ok(()) }
            keys(scope: &Scope, query: KeysQuery) -> Page<Key> {
                "list keys", "", check_limit(query.limit)
            }
        }}
        $($then)*! { $with Upstreams {
            mark_secret() -> MarkSecret { "read the secret of marks", "", Ok(()) }
            register_upstream(upstream: Upstream) -> Upstream {
                "register upstream", upstream.upstream.clone(), upstream.check()
            }
            set_upstream(upstream: Upstream) -> () {
                "set upstream", upstream.upstream.clone(), upstream.check()
            }
            upstreams() -> Vec<Upstream> { "list upstreams", "", Ok(()) }
        }}
    };
}

/// The name by which metrics know a verb. It is a contract with dashboards, so it outlives a rename.
pub fn label(verb: &'static str) -> &'static str {
    match verb {
        "add_audit_entry" => "add_act",
        "attempt_counts" => "tries",
        "audit_log" => "acts",
        "commit_with" => "commit_inside",
        "prune_messages" => "tidy_messages",
        "set_idle" => "set_asleep",
        "verify" => "audit",
        verb => verb,
    }
}

/// The labels of all verbs.
pub fn labels() -> Vec<&'static str> {
    let mut labels = Vec::new();
    macro_rules! add {
        ([] $stage:ident {
            $($verb:ident($($name:ident: $kind:ty),*) -> $reply:ty { $($named:tt)* })*
        }) => {
            $(labels.push(label(stringify!($verb)));)*
        };
    }
    each_stage! { [add] [] }
    labels
}

/// What the rows of [`each_stage`] name.
#[doc(hidden)]
pub mod names {
    pub use async_trait::async_trait;
    pub use bytes::Bytes;
    pub use futures_util::stream::BoxStream;
    pub use jiff::Timestamp;
    pub use windrow_domain::upstream::MarkSecret;
    pub use windrow_domain::{
        BatchId, DeadLetterId, FileId, InstanceId, KeyId, LeaseId, LineSet, Owner, PartitionNo,
        Stream, Target, UpstreamId,
    };

    pub use crate::audit_log::{AuditEntry, NewAuditEntry};
    pub use crate::batch::{
        Batch, Continue, NewBatch, Reprocess, Reprocessed, Reshaped, TriedNow, check_move,
        check_reshaped, check_tried_now, check_window,
    };
    pub use crate::call::{
        Call, CallKey, CallStats, CallsQuery, NewCall, ObjectRetries, RetriesQuery, StatsQuery,
        Submitted, check_calls, check_reason,
    };
    pub use crate::claim::{Extended, Poll, Polled, check_lease_ms};
    pub use crate::event::{Append, Appended, Event, Snapshot, check_appends};
    pub use crate::finalise::{Finalisation, NewOutput, Rows, check_outputs};
    pub use crate::ingest::{Chunk, File, FileDescription, FileVerdict, LineError, NewFile};
    pub use crate::inspect::{
        AttemptCounts, BatchRow, BatchRows, BatchesQuery, FileLane, FilesQuery, FinishedLine,
        FinishedQuery, Holder, LaneStatus, Page, PastAttempt, PendingLine, PendingQuery, RowsQuery,
        check_limit,
    };
    pub use crate::key::{Key, KeysQuery, NewKey, check_touched};
    pub use crate::member::{Evidence, Member, NewMember, check_duty};
    pub use crate::message::{
        Backlog, Commit, Committed, DeadLetter, Exchange, Exchanged, Message, MessageRetention,
        MessagesQuery, NewMessage, PrunedMessages, Read, Sent, Work, check_dead_letters,
        check_send,
    };
    pub use crate::object::{ObjectKey, check_objects};
    pub use crate::partition::{Fence, Partition, Setup, Taken};
    pub use crate::recipe::{BatchRecipe, JobDefinition};
    pub use crate::record::{Reply, Turn};
    pub use crate::sweep::{DroppedOutput, Lost, Pruned, Reaped, Retention};
    pub use crate::transactional::{Script, check_script_ms};
    pub use crate::upstream::Upstream;
    pub use crate::wake::Wake;
    pub use crate::{
        Batches, Calls, Capabilities, Claim, Events, Finalise, Gauges, Ingest, Inspect, Keys,
        Members, MessageStore, Messages, Objects, Partitions, Record, Result, Scope, Store, Sweep,
        Transactions, Upstreams, Wakes,
    };
}
