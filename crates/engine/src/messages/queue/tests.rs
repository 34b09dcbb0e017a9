use bytes::Bytes;
use jiff::Timestamp;
use windrow_domain::{InstanceId, Owner, Queue, Stream};
use windrow_store::message::{Mark, MessageRef, Work};

use super::*;
use crate::messages::options::Options;
use crate::messages::read_planner::ReadPlanner;

fn fence(epoch: u64) -> Fence {
    Fence { partition: 0, epoch }
}

fn message(stream_no: u64, position: u64) -> Message {
    Message {
        at: MessageRef { partition: 0, stream_no, position },
        queue: Queue::Inbox,
        owner: Owner::new("ann").unwrap(),
        stream: Stream::new(format!("s{stream_no}")).unwrap(),
        id: format!("{stream_no}.{position}"),
        kind: "test".to_owned(),
        payload: Bytes::new(),
        headers: Default::default(),
        sent_at: Timestamp::UNIX_EPOCH,
        not_before: None,
        attempts: 0,
        started: None,
        waiting: Vec::new(),
        error: None,
    }
}

fn work(messages: &[(u64, u64)], after_stream: u64) -> Work {
    Work {
        messages: messages.iter().map(|(stream, position)| message(*stream, *position)).collect(),
        marks: vec![Mark { partition: 0, after_stream }],
        ..Work::default()
    }
}

fn queues(is_suspect: bool) -> StreamQueues {
    let mut queues = StreamQueues::default();
    queues.own(&[Taken { fence: fence(1), is_suspect }]);
    queues
}

/// Reads, and gives what that wants to know.
fn read(planner: &mut ReadPlanner, queues: &mut StreamQueues) -> windrow_store::message::Read {
    let instance = InstanceId(Default::default());
    planner.plan(queues, instance, &Options::default()).expect("there is something to read")
}

fn positions(queues: &StreamQueues, stream_no: u64) -> Vec<u64> {
    let held = queues.streams.get(&stream_no);
    held.map(|held| held.waiting.iter().map(|message| message.at.position).collect())
        .unwrap_or_default()
}

#[test]
fn what_a_read_says_of_a_stream_that_was_forgotten_meanwhile_is_not_believed() {
    let (mut queues, mut planner) = (queues(false), ReadPlanner::default());
    let request = read(&mut planner, &mut queues);
    planner.admit(&mut queues, &request, work(&[(7, 1), (7, 2)], 0));
    queues.mark_dirty(0);
    let request = read(&mut planner, &mut queues);
    assert_eq!(request.held, [(7, 2)]);
    // Its head fails while the read is under way: 3 must not come before 1 and 2.
    assert_eq!(queues.begin(), Some(7));
    queues.put_off(7);
    planner.admit(&mut queues, &request, work(&[(7, 3)], 0));
    assert_eq!(positions(&queues, 7), [0; 0]);
    assert!(queues.partitions[&0].dirty, "it is read again");
    let request = read(&mut planner, &mut queues);
    planner.admit(&mut queues, &request, work(&[(7, 1), (7, 2), (7, 3)], 0));
    assert_eq!(positions(&queues, 7), [1, 2, 3]);
}

#[test]
fn what_a_read_says_of_a_stream_that_came_to_its_end_meanwhile_is_believed() {
    let (mut queues, mut planner) = (queues(false), ReadPlanner::default());
    let request = read(&mut planner, &mut queues);
    planner.admit(&mut queues, &request, work(&[(7, 1)], 0));
    queues.mark_dirty(0);
    let request = read(&mut planner, &mut queues);
    assert_eq!(queues.begin(), Some(7));
    queues.finish(7);
    planner.admit(&mut queues, &request, work(&[(7, 2)], 0));
    assert_eq!(positions(&queues, 7), [2]);
    assert_eq!((queues.messages, queues.busy), (1, 0));
}

#[test]
fn one_message_of_a_stream_at_a_time_and_nothing_of_an_old_epoch() {
    let mut queues = queues(false);
    queues.admit(fence(1), message(7, 1));
    queues.admit(fence(1), message(7, 2));
    queues.admit(fence(9), message(8, 1));
    assert_eq!((queues.begin(), queues.begin()), (Some(7), None));
    queues.finish(7);
    assert_eq!((queues.begin(), positions(&queues, 7)), (Some(7), vec![2]));
    queues.own(&[Taken { fence: fence(2), is_suspect: false }]);
    assert!(!queues.is_ours(fence(1)) && queues.is_ours(fence(2)));
    assert_eq!((queues.messages, queues.bytes, queues.busy, queues.streams.len()), (0, 0, 0, 0));
}

#[test]
fn suspects_run_one_at_a_time_and_are_cleared_when_all_had_their_turn() {
    let (mut queues, mut planner) = (queues(true), ReadPlanner::default());
    let request = read(&mut planner, &mut queues);
    planner.admit(&mut queues, &request, work(&[(7, 1), (7, 2), (8, 1)], 8));
    assert_eq!((queues.begin(), queues.begin()), (Some(7), None));
    queues.alone_over(7);
    assert_eq!(queues.begin(), Some(8));
    queues.finish(7);
    queues.forget(8);
    // The head of 8 has not had its turn, though the walk comes to its end.
    let request = read(&mut planner, &mut queues);
    planner.admit(&mut queues, &request, work(&[(8, 1)], 0));
    assert_eq!(queues.take_cleared(), []);
    assert_eq!(queues.begin(), Some(8));
    assert_eq!(queues.begin(), Some(7), "its second message is none of the heads");
    queues.put_off(8);
    assert_eq!(queues.take_cleared(), [fence(1)]);
    assert_eq!(queues.take_cleared(), [], "once");
    queues.cleared(&[fence(1)], true);
    assert_eq!(queues.partitions[&0].suspects, None);
}

#[test]
fn a_partition_drains_when_what_runs_has_ended() {
    let mut queues = queues(false);
    queues.admit(fence(1), message(7, 1));
    queues.admit(fence(1), message(7, 2));
    queues.admit(fence(1), message(8, 1));
    assert_eq!(queues.begin(), Some(7));
    queues.close(0, Phase::Draining);
    assert_eq!((queues.begin(), queues.take_drained()), (None, vec![]));
    queues.finish(7);
    assert_eq!((queues.begin(), queues.take_drained()), (None, vec![fence(1)]));
    assert_eq!((queues.messages, queues.bytes, queues.streams.len()), (0, 0, 0));
}

#[test]
fn a_stream_that_has_enough_in_memory_is_not_read_on() {
    let (mut queues, mut planner) = (queues(false), ReadPlanner::default());
    let all: Vec<(u64, u64)> = (1..=100).map(|position| (7, position)).collect();
    let request = read(&mut planner, &mut queues);
    planner.admit(&mut queues, &request, work(&all, 0));
    queues.mark_dirty(0);
    assert_eq!(read(&mut planner, &mut queues).held, [(7, i64::MAX as u64)]);
    assert!(queues.streams[&7].more);
}
