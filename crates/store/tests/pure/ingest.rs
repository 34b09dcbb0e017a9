//! Chunks: what a backend reads off one before it writes it.

use bytes::Bytes;
use windrow_store::ingest::{Chunk, FileState, NewLine, Span};

fn line(lane: Option<u16>, seq: u64, line: u64) -> NewLine {
    NewLine { lane, seq, line, raw: Bytes::from_static(b"{}\n") }
}

#[test]
fn spans_are_dense_and_sorted_by_lane() {
    let lines =
        vec![line(Some(1), 7, 1), line(None, 2, 2), line(Some(0), 0, 3), line(Some(1), 8, 4)];
    let chunk = Chunk { no: 0, lanes: Vec::new(), lines };
    let span = |lane, first, count| Span { lane, first, count };
    let expected = [span(None, 2, 1), span(Some(0), 0, 1), span(Some(1), 7, 2)];
    assert_eq!(chunk.spans().unwrap(), expected);
    assert_eq!(chunk.bytes(), 12);
    assert_eq!(Chunk::default().spans().unwrap(), []);
}

#[test]
fn a_gap_or_a_repeat_names_its_lane() {
    for seq in [0, 2, 9] {
        let lines = vec![line(Some(4), 0, 1), line(None, 0, 2), line(Some(4), seq, 3)];
        assert_eq!(Chunk { no: 0, lanes: Vec::new(), lines }.spans(), Err(Some(4)), "{seq}");
    }
}

#[test]
fn file_states_read_back() {
    for state in FileState::ALL {
        assert_eq!(state.as_str().parse(), Ok(state));
    }
    assert!("gone".parse::<FileState>().is_err());
}
