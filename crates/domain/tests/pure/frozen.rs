//! What databases keep and other builds compare: the words, the numbers, the hashes and the ids that
//! follow from others. Nothing here may change without a migration of what is stored.

use windrow_domain::attempt::{Class, Status};
use windrow_domain::call::call_hash;
use windrow_domain::lines::LineSet;
use windrow_domain::message::digest;
use windrow_domain::partition::{Sharer, share, stream_hash};
use windrow_domain::{
    BatchId, CallState, CrashPolicy, FileId, InstanceId, OutputKind, Phase, Queue, Role, State,
    Stream,
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn states_phases_classes_policies_and_roles_are_stored_as_these_words() {
    let states = "in_progress paused cancelling expiring finalizing_completed finalizing_cancelled \
                  finalizing_expired completed failed cancelled expired";
    assert_eq!(State::ALL.map(|state| state.as_str()).join(" "), states);
    let phases = "open paused stopping done";
    assert_eq!(Phase::ALL.map(|phase| phase.as_str()).join(" "), phases);
    let classes = "throttled server network timeout unacceptable not_found permanent reprocessed";
    assert_eq!(Class::ALL.map(|class| class.as_str()).join(" "), classes);
    let policies = [CrashPolicy::Retry, CrashPolicy::Fail];
    assert_eq!(policies.map(|policy| policy.as_str()).join(" "), "retry fail");
    assert_eq!(Role::ALL.map(|role| role.as_str()).join(" "), "member admin");
}

#[test]
fn outcomes_queues_and_calls_are_stored_as_these_numbers_and_shown_as_these_words() {
    let outcomes = Status::ALL.map(|status| format!("{} {}", status.code(), status.as_str()));
    assert_eq!(outcomes.join(", "), "0 completed, 1 failed, 2 not_found, 3 skipped");
    let queues = Queue::ALL.map(|queue| format!("{} {}", queue.code(), queue.as_str()));
    assert_eq!(queues.join(", "), "0 inbox, 1 outbox, 2 calls");
    let calls = CallState::ALL.map(|state| format!("{} {}", state.code(), state.as_str()));
    assert_eq!(calls.join(", "), "0 pending, 1 processing, 2 completed, 3 failed, 4 expired");
}

#[test]
fn sets_of_lines_are_stored_as_ranges() {
    let set: LineSet = "9,1-3,5-7".parse().unwrap();
    assert_eq!(set.to_string(), "1-3,5-7,9");
}

#[test]
fn the_outputs_of_a_batch_have_ids_that_follow_from_its_own() {
    let of =
        |batch: &str, kind| FileId::of_output(batch.parse::<BatchId>().unwrap(), kind).to_string();
    for (batch, output, errors) in [
        (
            "01890a5d-ac96-774b-bcce-b302099a8057",
            "01890a5d-ac96-874b-bcce-b302099a8057",
            "01890a5d-ac96-874b-fcce-b302099a8057",
        ),
        (
            "01890a5d-ac96-874b-bcce-b302099a8057",
            "01890a5d-ac96-974b-bcce-b302099a8057",
            "01890a5d-ac96-974b-fcce-b302099a8057",
        ),
    ] {
        assert_eq!(of(batch, OutputKind::Output), output);
        assert_eq!(of(batch, OutputKind::Errors), errors);
    }
}

#[test]
fn a_repeated_message_and_a_repeated_call_are_known_by_these_hashes() {
    let stream = Stream::new("wallet/7").unwrap();
    assert_eq!(
        hex(&digest(Queue::Inbox, &stream, "order.placed", b"hello")),
        "efbfdb94e3d0e9a0cd65a9d2de4e3f2f07442fc0587929a0b16d09cfdd193f58",
    );
    assert_eq!(
        hex(&call_hash(&stream, "deposit", b"{\"cents\":5}")),
        "f9e25a298c9e81309dbf2d944f620c7d81868857cb30924511d4e815fbf03cb2",
    );
}

#[test]
fn a_stream_stays_in_its_partition() {
    assert_eq!(stream_hash("ada", "wallet/7"), 3_830_557_924);
    assert_eq!(stream_hash("ada", "wallet/8"), 2_411_610_449);
}

/// Two builds that see the same instances must compute the same shares, or partitions go to and fro.
#[test]
fn partitions_are_shared_as_every_build_computes_it() {
    let sharer = |id: u128| Sharer { instance: InstanceId(uuid::Uuid::from_u128(id)), own_max: 9 };
    let live = [sharer(1), sharer(2), sharer(3)];
    let shares = live.map(|of| share(16, &live, of.instance).mine);
    let frozen = [vec![0, 3, 5, 7, 8], vec![1, 2, 4, 14, 15], vec![6, 9, 10, 11, 12, 13]];
    assert_eq!(shares, frozen);
}
