use bytes::Bytes;
use jiff::Timestamp;
use windrow_domain::{InstanceId, Owner, Queue, Stream};
use windrow_store::message::{Mark, MessageRef, Work};

use super::*;
use crate::messages::options::Options;
use crate::messages::reading::Reader;

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

fn board(is_suspect: bool) -> Board {
    let mut board = Board::default();
    board.own(&[Taken { fence: fence(1), is_suspect }]);
    board
}

/// Reads, and gives what that wants to know.
fn read(reader: &mut Reader, board: &mut Board) -> crate::messages::reading::Request {
    let instance = InstanceId(Default::default());
    reader.plan(board, instance, &Options::default()).expect("there is something to read")
}

fn positions(board: &Board, stream_no: u64) -> Vec<u64> {
    let held = board.streams.get(&stream_no);
    held.map(|held| held.waiting.iter().map(|message| message.at.position).collect())
        .unwrap_or_default()
}

#[test]
fn what_a_read_says_of_a_stream_that_was_forgotten_meanwhile_is_not_believed() {
    let (mut board, mut reader) = (board(false), Reader::default());
    let request = read(&mut reader, &mut board);
    reader.take_in(&mut board, &request, work(&[(7, 1), (7, 2)], 0));
    board.poke(0);
    let request = read(&mut reader, &mut board);
    assert_eq!(request.read.held, [(7, 2)]);
    // Its head fails while the read is under way: 3 must not come before 1 and 2.
    assert_eq!(board.begin(), Some(7));
    board.put_off(7);
    reader.take_in(&mut board, &request, work(&[(7, 3)], 0));
    assert_eq!(positions(&board, 7), [0; 0]);
    assert!(board.partitions[&0].dirty, "it is read again");
    let request = read(&mut reader, &mut board);
    reader.take_in(&mut board, &request, work(&[(7, 1), (7, 2), (7, 3)], 0));
    assert_eq!(positions(&board, 7), [1, 2, 3]);
}

#[test]
fn what_a_read_says_of_a_stream_that_came_to_its_end_meanwhile_is_believed() {
    let (mut board, mut reader) = (board(false), Reader::default());
    let request = read(&mut reader, &mut board);
    reader.take_in(&mut board, &request, work(&[(7, 1)], 0));
    board.poke(0);
    let request = read(&mut reader, &mut board);
    assert_eq!(board.begin(), Some(7));
    board.finish(7);
    reader.take_in(&mut board, &request, work(&[(7, 2)], 0));
    assert_eq!(positions(&board, 7), [2]);
    assert_eq!((board.messages, board.busy), (1, 0));
}

#[test]
fn one_message_of_a_stream_at_a_time_and_nothing_of_an_old_epoch() {
    let mut board = board(false);
    board.admit(fence(1), message(7, 1));
    board.admit(fence(1), message(7, 2));
    board.admit(fence(9), message(8, 1));
    assert_eq!((board.begin(), board.begin()), (Some(7), None));
    board.finish(7);
    assert_eq!((board.begin(), positions(&board, 7)), (Some(7), vec![2]));
    board.own(&[Taken { fence: fence(2), is_suspect: false }]);
    assert!(!board.is_ours(fence(1)) && board.is_ours(fence(2)));
    assert_eq!((board.messages, board.bytes, board.busy, board.streams.len()), (0, 0, 0, 0));
}

#[test]
fn suspects_run_one_at_a_time_and_are_cleared_when_all_had_their_turn() {
    let (mut board, mut reader) = (board(true), Reader::default());
    let request = read(&mut reader, &mut board);
    reader.take_in(&mut board, &request, work(&[(7, 1), (7, 2), (8, 1)], 8));
    assert_eq!((board.begin(), board.begin()), (Some(7), None));
    board.alone_over(7);
    assert_eq!(board.begin(), Some(8));
    board.finish(7);
    board.forget(8);
    // The head of 8 has not had its turn, though the walk comes to its end.
    let request = read(&mut reader, &mut board);
    reader.take_in(&mut board, &request, work(&[(8, 1)], 0));
    assert_eq!(board.take_cleared(), []);
    assert_eq!(board.begin(), Some(8));
    assert_eq!(board.begin(), Some(7), "its second message is none of the heads");
    board.put_off(8);
    assert_eq!(board.take_cleared(), [fence(1)]);
    assert_eq!(board.take_cleared(), [], "once");
    board.cleared(&[fence(1)], true);
    assert_eq!(board.partitions[&0].suspects, None);
}

#[test]
fn a_partition_drains_when_what_runs_has_ended() {
    let mut board = board(false);
    board.admit(fence(1), message(7, 1));
    board.admit(fence(1), message(7, 2));
    board.admit(fence(1), message(8, 1));
    assert_eq!(board.begin(), Some(7));
    board.close(0, Phase::Draining);
    assert_eq!((board.begin(), board.take_drained()), (None, vec![]));
    board.finish(7);
    assert_eq!((board.begin(), board.take_drained()), (None, vec![fence(1)]));
    assert_eq!((board.messages, board.bytes, board.streams.len()), (0, 0, 0));
}

#[test]
fn a_stream_that_has_enough_in_memory_is_not_read_on() {
    let (mut board, mut reader) = (board(false), Reader::default());
    let all: Vec<(u64, u64)> = (1..=100).map(|position| (7, position)).collect();
    let request = read(&mut reader, &mut board);
    reader.take_in(&mut board, &request, work(&all, 0));
    board.poke(0);
    assert_eq!(read(&mut reader, &mut board).read.held, [(7, i64::MAX as u64)]);
    assert!(board.streams[&7].more);
}
