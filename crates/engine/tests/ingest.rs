//! The pipeline against a store in memory that can be told to fail, and that keeps all it is given.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod fake;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use fake::{Fake, new_file};
use jiff::Timestamp;
use proptest::prelude::*;
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};
use windrow_engine::clock::Clock;
use windrow_engine::ingest::{Error, Ingested, Options, ingest, ingest_by};
use windrow_store::Kind;
use windrow_store::ingest::{FileState, LineError};

fn line(id: &str, model: &str) -> String {
    let body = format!(r#"{{"model":"{model}","input":"hello"}}"#);
    format!(r#"{{"custom_id":"{id}","method":"POST","url":"/v1/x","body":{body}}}"#)
}

/// Small enough that every test crosses blocks and chunks.
fn small() -> Options {
    Options::default()
        .block_bytes(64)
        .chunk_bytes_max(512)
        .chunk_lines_max(4)
        .duplicates_bytes_max(48)
        .line_bytes_max(300)
        .store_backoff_min(Duration::ZERO)
}

async fn take(store: &Fake, bytes: &[u8], options: Options) -> Result<Ingested, Error> {
    ingest(store, bytes, new_file(), options).await
}

fn codes(errors: &[LineError]) -> Vec<(Option<u64>, &str)> {
    errors.iter().map(|error| (error.line, error.code.as_str())).collect()
}

#[tokio::test]
async fn a_good_file_is_sealed_with_its_lanes() {
    let store = Fake::default();
    let models = ["b", "a", "b", "c", "a"];
    let bytes: String = (0..50).map(|n| line(&format!("id-{n}"), models[n % 5]) + "\n").collect();
    let done = take(&store, bytes.as_bytes(), small()).await.unwrap();
    assert_eq!((done.file.state, done.file.lines), (FileState::Sealed, 50));
    assert_eq!((done.errors.len(), done.errors_total), (0, 0));
    assert_eq!(store.bytes(), bytes.as_bytes());
    assert_eq!(store.targets(), ["b", "a", "c"], "in order of appearance");
}

#[tokio::test]
async fn every_bad_line_is_reported_and_the_bytes_stay() {
    let mut bytes = Vec::new();
    for text in [
        "\u{feff}".to_owned() + &line("a", "m") + "\r\n",
        "\n".to_owned(),
        "  \t\r\n".to_owned(),
        "{oops}\n".to_owned(),
        line("a", "m") + "\n",
        line("", "m") + "\n",
        line("b", &"x".repeat(400)) + "\n",
    ] {
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes.extend_from_slice(b"\xff\xfe\n");
    bytes.extend_from_slice(line("c", "m").replace("/v1/x", "http://host/").as_bytes());
    bytes.extend_from_slice(b"\n");
    bytes.extend_from_slice(line("a", "m").as_bytes());

    let store = Fake::default();
    let done = take(&store, &bytes, small()).await.unwrap();
    let expected = [
        (Some(4), "invalid_json_line"),
        (Some(5), "duplicate_custom_id"),
        (Some(6), "invalid_field"),
        (Some(7), "line_too_long"),
        (Some(8), "invalid_json_line"),
        (Some(9), "invalid_url"),
        (Some(10), "duplicate_custom_id"),
    ];
    assert_eq!(codes(&done.errors), expected);
    assert_eq!(done.errors_total, 7);
    assert_eq!(done.errors[1].message, "`custom_id` is the same as on line 1.");
    assert_eq!(done.file.state, FileState::Invalid);
    assert_eq!(store.bytes(), bytes);
}

#[tokio::test]
async fn a_file_without_a_request_is_empty() {
    for bytes in ["", "\n\n \r\n", "\u{feff}", "\u{feff}\n"] {
        let store = Fake::default();
        let done = take(&store, bytes.as_bytes(), small()).await.unwrap();
        assert_eq!(codes(&done.errors), [(None, "empty_file")], "{bytes:?}");
        assert_eq!(store.bytes(), bytes.as_bytes());
    }
}

#[tokio::test]
async fn too_many_requests_and_too_many_lanes_are_bounded() {
    let bytes: String = (0..9).map(|n| line(&format!("{n}"), &format!("m{n}")) + "\n").collect();
    let store = Fake::default();
    let done = take(&store, bytes.as_bytes(), small().lines_max(6)).await.unwrap();
    assert_eq!(codes(&done.errors), [(Some(7), "too_many_tasks")]);
    assert_eq!(store.bytes(), bytes.as_bytes());

    let store = Fake::default();
    let done = take(&store, bytes.as_bytes(), small().lanes_max(7)).await.unwrap();
    let expected = [(Some(8), "too_many_lanes"), (Some(9), "too_many_lanes")];
    assert_eq!(codes(&done.errors), expected);
    assert_eq!(store.bytes(), bytes.as_bytes());
}

/// A wait for a connection that ends well is a sign, too: the next chunks are smaller.
#[tokio::test]
async fn chunks_shrink_when_calls_wait_for_a_connection_and_succeed() {
    let bytes: String = (0..4000).map(|n| line(&format!("{n}"), "m") + "\n").collect();
    let options = || Options::default().rows_min(4).chunk_lines_max(256).block_bytes(4096);
    let calm = Fake::default();
    take(&calm, bytes.as_bytes(), options()).await.unwrap();
    let busy = Fake::default().waiting(|chunk| chunk >= 8);
    take(&busy, bytes.as_bytes(), options()).await.unwrap();
    assert_eq!((calm.bytes(), busy.bytes()), (bytes.clone().into_bytes(), bytes.into_bytes()));
    assert!(calm.rows().iter().max() == Some(&256), "{:?}", calm.rows());
    // Some chunks were on their way already; then every one halves, down to the least.
    let rows = busy.rows();
    assert!(rows[8..].windows(2).all(|pair| pair[1] <= pair[0].max(rows[11])), "{rows:?}");
    assert!(rows[20..rows.len() - 1].iter().all(|rows| *rows == 4), "{rows:?}");
}

#[tokio::test]
async fn the_first_thousand_errors_are_kept_in_line_order() {
    let bytes: String = (0..1500)
        .map(|n| if n % 2 == 0 { "oops\n".to_owned() } else { line("same", "m") + "\n" })
        .collect();
    let done = take(&Fake::default(), bytes.as_bytes(), small()).await.unwrap();
    assert_eq!((done.errors.len(), done.errors_total), (1000, 750 + 749));
    assert!(done.errors.windows(2).all(|pair| pair[0].line <= pair[1].line));
    assert_eq!(done.errors[999].line, Some(1001), "line 2 is the first with that id");
}

#[tokio::test]
async fn a_busy_store_is_asked_again_and_nothing_is_doubled() {
    let bytes: String = (0..40).map(|n| line(&format!("{n}"), "m") + "\n").collect();
    let store = Fake::default().failing(Kind::Busy, |call| call % 3 != 0);
    let done = take(&store, bytes.as_bytes(), small()).await.unwrap();
    assert_eq!((done.file.state, store.bytes()), (FileState::Sealed, bytes.into_bytes()));
}

/// Also when the store did the work and only the reply was lost.
/// Ingests lines into a store that takes so long for each; the rows of each chunk.
async fn chunk_rows(lines: usize, row: Duration, store: Fake) -> Vec<usize> {
    let clock = Clock::manual(Timestamp::UNIX_EPOCH);
    let store = store.taking(clock.clone(), row);
    let bytes: String = (0..lines).map(|n| line(&n.to_string(), "m") + "\n").collect();
    let options = Options::default().store_backoff_min(Duration::ZERO);
    ingest_by(&clock, &store, bytes.as_bytes(), new_file(), options).await.unwrap();
    store.rows()
}

#[tokio::test]
async fn chunks_grow_while_the_store_is_quick_and_no_further() {
    let quick = chunk_rows(60_000, Duration::ZERO, Fake::default()).await;
    assert_eq!(quick[0], 64);
    assert!(quick.len() <= 25 && quick.iter().any(|rows| *rows > 8_000), "{quick:?}");

    let slow = chunk_rows(5_000, Duration::from_millis(1), Fake::default()).await;
    assert!(slow[6..slow.len() - 1].iter().all(|rows| *rows == 128), "128 ms: {slow:?}");
}

#[tokio::test]
async fn errors_make_chunks_small_again() {
    let store = Fake::default().failing(Kind::Unavailable, |call| (20..23).contains(&call));
    let rows = chunk_rows(150_000, Duration::from_micros(20), store).await;
    let top = rows.iter().position(|rows| *rows >= 2_048).unwrap();
    assert!(rows[top..].iter().any(|rows| *rows <= 128), "{rows:?}");
}

#[tokio::test]
async fn a_lost_reply_is_repeated_and_nothing_is_doubled() {
    let bytes: String = (0..40).map(|n| line(&format!("{n}"), "m") + "\n").collect();
    let store = Fake::default().losing_replies(Kind::Unavailable, |call| call % 2 == 1);
    let done = take(&store, bytes.as_bytes(), small()).await.unwrap();
    assert_eq!((done.file.lines, store.bytes()), (40, bytes.into_bytes()));
}

#[tokio::test]
async fn a_store_that_fails_leaves_nothing_and_says_after_which_line() {
    let bytes: String = (0..40).map(|n| line(&format!("{n}"), "m") + "\n").collect();
    for kind in [Kind::Corrupt, Kind::Unavailable] {
        // One call opens the file, two add four lines each, the fourth fails.
        let store = Fake::default().failing(kind, |call| call >= 3);
        let error = take(&store, bytes.as_bytes(), small()).await.unwrap_err();
        let Error::Store { after_line, source } = error else { panic!("{error}") };
        assert_eq!((after_line, source.kind), (8, kind));
        assert!(store.is_dropped());
    }
}

/// Somebody else's file must not be dropped because we could not open it.
#[tokio::test]
async fn a_file_that_could_not_be_opened_is_not_dropped() {
    let store = Fake::default().failing(Kind::Conflict, |call| call == 0);
    let error = take(&store, b"", small()).await.unwrap_err();
    assert!(matches!(error, Error::Store { after_line: 0, .. }), "{error}");
    assert!(!store.is_dropped());
}

/// Gives its bytes and then an error, or nothing more for ever.
struct Cut<'a> {
    bytes: &'a [u8],
    silent: bool,
}

impl AsyncRead for Cut<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match (self.bytes.is_empty(), self.silent) {
            (false, _) => Pin::new(&mut self.bytes).poll_read(context, buffer),
            (true, true) => Poll::Pending,
            (true, false) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
        }
    }
}

#[tokio::test]
async fn an_input_that_breaks_off_leaves_nothing_and_says_after_which_line() {
    let bytes: String = (0..9).map(|n| line(&format!("{n}"), "m") + "\n").collect();
    let store = Fake::default();
    let cut = Cut { bytes: &bytes.as_bytes()[..bytes.len() - 5], silent: false };
    let error = ingest(&store, cut, new_file(), Options::default()).await;
    let Err(Error::Read { after_line: 8, source }) = error else { panic!("{error:?}") };
    assert_eq!(source.kind(), io::ErrorKind::ConnectionReset);
    assert!(store.is_dropped());
}

/// A client that stopped sending does not keep a failed ingest waiting.
#[tokio::test]
async fn a_failed_store_ends_the_ingest_though_the_input_is_silent() {
    let bytes: String = (0..40).map(|n| line(&format!("{n}"), "m") + "\n").collect();
    let store = Fake::default().failing(Kind::Corrupt, |call| call >= 2);
    let cut = Cut { bytes: bytes.as_bytes(), silent: true };
    let error = ingest(&store, cut, new_file(), small()).await.unwrap_err();
    assert!(matches!(error, Error::Store { after_line: 4, .. }), "{error}");
}

#[tokio::test]
async fn a_file_over_its_bound_is_refused_without_reading_on() {
    let endless = tokio::io::repeat(b'\n');
    let options = small().file_bytes_max(1000);
    let store = Fake::default();
    let error = ingest(&store, endless, new_file(), options).await.unwrap_err();
    let Error::TooLarge { bytes_max: 1000, after_line } = error else { panic!("{error}") };
    assert_eq!(after_line, 960, "fifteen blocks of 64");
    assert!(store.is_dropped());

    let exactly = tokio::io::repeat(b'\n').take(1000);
    let options = small().file_bytes_max(1000);
    assert!(ingest(&Fake::default(), exactly, new_file(), options).await.is_ok());
}

/// The call can be made through a trait object and from another thread.
#[tokio::test(flavor = "multi_thread")]
async fn the_future_can_move_between_threads() {
    let store: Box<dyn windrow_store::Ingest + Send + Sync> = Box::new(Fake::default());
    let bytes = line("a", "m");
    let work = async move { ingest(&*store, bytes.as_bytes(), new_file(), small()).await };
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(work);
    assert!(tasks.join_next().await.unwrap().unwrap().is_ok());
}

/// A piece of a file: mostly lines, some of them good, and any bytes at all.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => ("[a-e]{1,2}", "[x-z]").prop_map(|(id, model)| (line(&id, &model) + "\n").into_bytes()),
        1 => Just(b"\r\n".to_vec()),
        1 => Just("\u{feff}".as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (0_usize..900).prop_map(|size| vec![b'x'; size]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_bytes_round_trip_exactly(
        pieces in prop::collection::vec(piece(), 0..30),
        block_bytes in 1_usize..700,
    ) {
        let bytes = pieces.concat();
        let store = Fake::default();
        let options = small().block_bytes(block_bytes);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let done = runtime.block_on(take(&store, &bytes, options)).unwrap();
        prop_assert_eq!(store.bytes(), bytes);
        let valid = done.file.state == FileState::Sealed;
        prop_assert_eq!(valid, done.errors.is_empty() && done.errors_total == 0);
    }
}
