//! Ingest: what may be written to a file, who sees it, and that its bytes read back exactly.

use bytes::Bytes;
use windrow_domain::lane::LANES_MAX;
use windrow_domain::{FileId, LaneNo, State};
use windrow_store::batch::{Reprocess, Select};
use windrow_store::error::Kind;
use windrow_store::ingest::{
    CHUNK_BYTES_MAX, CHUNK_LINES_MAX, Chunk, ENDPOINT_BYTES_MAX, ERRORS_MAX, FileState,
    FileVerdict, NewLane, NewLine,
};
use windrow_store::inspect::FilesQuery;
use windrow_store::{Batches, Ingest, Inspect, Members, Scope, Store};

use crate::World;
use crate::cancellation::CancelAfter;
use crate::fixture::*;

/// Until it is sealed, a file exists for nobody but its writer.
pub async fn an_open_file_is_visible_to_nobody(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").lines(MODEL, 3);
    sheet.write(store).await;

    for scope in [scope("ada"), Scope::All] {
        assert_eq!(kind(store.file(&scope, sheet.id).await), Kind::Missing);
        assert_eq!(kind(store.read_chunk(&scope, sheet.id, 0).await), Kind::Missing);
        assert_eq!(kind(store.file_errors(&scope, sheet.id).await), Kind::Missing);
        let page = store.files(&scope, FilesQuery { limit: 10, ..FilesQuery::default() }).await;
        assert!(page.expect("a page comes").rows.is_empty());
    }
    let batch = store.create_batch(run_over(sheet.id, "ada")).await;
    assert_eq!(kind(batch), Kind::Conflict, "a file that is still open cannot be run");
}

/// Opening again after a lost reply loses nothing that was written since.
pub async fn opening_again_has_no_effect(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").lines(MODEL, 4).in_chunks_of(2);
    let [first, second] = sheet.chunks().try_into().expect("two chunks");
    store.open_file(sheet.new_file()).await.unwrap();
    store.add_lines(sheet.id, first).await.unwrap();
    pass(world, 5000);
    store.open_file(sheet.new_file()).await.unwrap();
    store.add_lines(sheet.id, second).await.unwrap();

    let file = store.seal_file(sheet.id, FileVerdict::Valid).await.unwrap();
    assert_eq!((file.lines, file.chunks), (4, 2));
    assert_eq!(file.created_at, now(world) - jiff::SignedDuration::from_secs(5));
}

/// A caller may learn late how long its file lives: up to the sealing, never after.
pub async fn an_open_file_may_still_be_told_when_it_ends(world: &impl World) {
    let store = world.store();
    let (soon, late) = (later(world, 3_600_000), later(world, 7_200_000));
    let sheet = Sheet { expires_at: Some(late), ..Sheet::of("ada").lines(MODEL, 2) };
    assert_eq!(kind(store.expire_file(sheet.id, soon).await), Kind::Missing);
    sheet.write(store).await;
    store.expire_file(sheet.id, soon).await.unwrap();
    store.expire_file(sheet.id, soon).await.unwrap();
    let sealed = store.seal_file(sheet.id, FileVerdict::Valid).await.unwrap();
    assert_eq!(sealed.expires_at, Some(soon));

    assert_eq!(kind(store.expire_file(sheet.id, late).await), Kind::Missing);
    assert_eq!(store.file(&scope("ada"), sheet.id).await.unwrap(), sealed);
}

/// The id of another owner's file, or of one that is complete, cannot be opened.
pub async fn opening_what_is_not_yours_or_sealed_is_a_conflict(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").lines(MODEL, 1);
    sheet.write(store).await;
    let stolen = Sheet { owner: owner("bob"), ..sheet.clone() };
    assert_eq!(kind(store.open_file(stolen.new_file()).await), Kind::Conflict);

    store.seal_file(sheet.id, FileVerdict::Valid).await.unwrap();
    assert_eq!(kind(store.open_file(sheet.new_file()).await), Kind::Conflict);
    assert_eq!(kind(store.open_file(stolen.new_file()).await), Kind::Conflict);
}

/// A chunk whose reply was lost is sent again and counts once.
pub async fn a_chunk_written_twice_counts_once(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").lines(MODEL, 6).in_chunks_of(3);
    store.open_file(sheet.new_file()).await.unwrap();
    for chunk in sheet.chunks() {
        store.add_lines(sheet.id, chunk.clone()).await.unwrap();
        store.add_lines(sheet.id, chunk).await.unwrap();
    }
    store.add_lines(sheet.id, sheet.chunks().remove(0)).await.unwrap();

    let file = store.seal_file(sheet.id, FileVerdict::Valid).await.unwrap();
    assert_eq!((file.lines, file.chunks), (6, 2));
    let bytes: u64 = sheet.chunks().iter().map(Chunk::bytes).sum();
    assert_eq!(file.bytes, bytes);
}

/// Chunks come in order: a gap is a conflict and nothing of it stays.
pub async fn a_gap_in_chunks_is_a_conflict(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").lines(MODEL, 6).in_chunks_of(2);
    let [first, second, third] = sheet.chunks().try_into().expect("three chunks");
    store.open_file(sheet.new_file()).await.unwrap();
    assert_eq!(kind(store.add_lines(sheet.id, second.clone()).await), Kind::Conflict);
    store.add_lines(sheet.id, first).await.unwrap();
    assert_eq!(kind(store.add_lines(sheet.id, third.clone()).await), Kind::Conflict);
    store.add_lines(sheet.id, second).await.unwrap();
    store.add_lines(sheet.id, third).await.unwrap();
    assert_eq!(store.seal_file(sheet.id, FileVerdict::Valid).await.unwrap().lines, 6);
}

/// Numbers within a lane are dense, in a chunk and from chunk to chunk; what is refused leaves
/// nothing half-written, and the right chunk goes in afterwards.
pub async fn lines_that_are_not_dense_are_refused_whole(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").lines(MODEL, 8).in_chunks_of(4);
    let [first, second] = sheet.chunks().try_into().expect("two chunks");
    store.open_file(sheet.new_file()).await.unwrap();

    let mut hole = first.clone();
    hole.lines[3].seq = 4;
    assert_eq!(kind(store.add_lines(sheet.id, hole).await), Kind::Invalid);
    let mut double = first.clone();
    double.lines[3].seq = 2;
    assert_eq!(kind(store.add_lines(sheet.id, double).await), Kind::Invalid);
    store.add_lines(sheet.id, first).await.unwrap();

    for shift in [1, 100] {
        let mut shifted = second.clone();
        shifted.lines.iter_mut().for_each(|line| line.seq += shift);
        let kind = kind(store.add_lines(sheet.id, shifted).await);
        assert!(matches!(kind, Kind::Invalid | Kind::Conflict), "{kind:?}");
    }
    let mut again = second.clone();
    again.lines.iter_mut().for_each(|line| line.seq -= 4);
    let refused = kind(store.add_lines(sheet.id, again).await);
    assert!(matches!(refused, Kind::Invalid | Kind::Conflict), "{refused:?}");

    store.add_lines(sheet.id, second).await.unwrap();
    assert_eq!(store.seal_file(sheet.id, FileVerdict::Valid).await.unwrap().lines, 8);
    assert_bytes_read_back(world, &sheet).await;
}

/// A line for a lane that nobody named, a lane out of order, and a lane named twice are refused.
pub async fn lanes_are_named_densely_and_once(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").lines(MODEL, 2);
    let [good] = sheet.chunks().try_into().expect("one chunk");
    store.open_file(sheet.new_file()).await.unwrap();

    let unnamed = Chunk { lanes: Vec::new(), ..good.clone() };
    assert_eq!(kind(store.add_lines(sheet.id, unnamed).await), Kind::Invalid);
    let lane = |lane, name| NewLane { lane, target: target(name) };
    let mut skipping = good.clone();
    skipping.lanes.push(lane(2, "model-c"));
    assert_eq!(kind(store.add_lines(sheet.id, skipping).await), Kind::Invalid);
    let mut twice = good.clone();
    twice.lanes.push(lane(0, "model-c"));
    assert_eq!(kind(store.add_lines(sheet.id, twice).await), Kind::Invalid);

    store.add_lines(sheet.id, good).await.unwrap();
    assert_eq!(store.seal_file(sheet.id, FileVerdict::Valid).await.unwrap().lines, 2);
}

/// A file has at most so many lanes; one more is a typed error and the file goes on.
pub async fn more_lanes_than_the_bound_is_invalid(world: &impl World) {
    let store = world.store();
    let names: Vec<_> = (0..=LANES_MAX).map(|no| format!("model-{no}")).collect();
    let mut sheet = Sheet::of("ada");
    for name in &names[..LANES_MAX] {
        sheet = sheet.lines(name, 1);
    }
    sheet.write(store).await;
    let lane = LaneNo::try_from(LANES_MAX).expect("a lane number");
    let line = LANES_MAX as u64 + 1;
    let over = Chunk {
        no: 1,
        lanes: vec![NewLane { lane, target: target(&names[LANES_MAX]) }],
        lines: vec![NewLine { lane: Some(lane), seq: 0, line, raw: Bytes::from_static(b"{}\n") }],
    };
    assert_eq!(kind(store.add_lines(sheet.id, over).await), Kind::Invalid);

    store.seal_file(sheet.id, FileVerdict::Valid).await.unwrap();
    let batch = store.create_batch(run_over(sheet.id, "ada")).await.unwrap();
    assert_eq!(store.lanes(&Scope::All, batch.id).await.unwrap().len(), LANES_MAX);
    check(store, batch.id).await;
}

/// A chunk with too many lines or bytes is refused before anything is written.
pub async fn a_chunk_over_its_bounds_is_invalid(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").lines(MODEL, 1);
    store.open_file(sheet.new_file()).await.unwrap();
    let lanes = sheet.chunks()[0].lanes.clone();

    let line =
        |seq: u64, raw: &Bytes| NewLine { lane: Some(0), seq, line: seq + 1, raw: raw.clone() };
    let small = Bytes::from_static(b"{}\n");
    let count = CHUNK_LINES_MAX as u64 + 1;
    let lines = (0..count).map(|seq| line(seq, &small)).collect();
    let many = Chunk { no: 0, lanes: lanes.clone(), lines };
    assert_eq!(kind(store.add_lines(sheet.id, many).await), Kind::Invalid);

    let large = Bytes::from(vec![b' '; CHUNK_BYTES_MAX]);
    let heavy = Chunk { no: 0, lanes, lines: (0..3).map(|seq| line(seq, &large)).collect() };
    assert_eq!(kind(store.add_lines(sheet.id, heavy).await), Kind::Invalid);

    sheet.write(store).await;
    assert_eq!(store.seal_file(sheet.id, FileVerdict::Valid).await.unwrap().lines, 1);
}

/// There is nothing to add to, or to seal, where no file was opened; a complete one is fixed.
pub async fn only_an_open_file_takes_lines(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").lines(MODEL, 4).in_chunks_of(2);
    let [first, second] = sheet.chunks().try_into().expect("two chunks");
    assert_eq!(kind(store.add_lines(FileId::new(), first.clone()).await), Kind::Missing);
    assert_eq!(kind(store.seal_file(FileId::new(), FileVerdict::Valid).await), Kind::Missing);

    store.open_file(sheet.new_file()).await.unwrap();
    store.add_lines(sheet.id, first).await.unwrap();
    let sealed = store.seal_file(sheet.id, FileVerdict::Valid).await.unwrap();
    assert_eq!(kind(store.add_lines(sheet.id, second).await), Kind::Conflict);
    assert_eq!(store.file(&scope("ada"), sheet.id).await.unwrap(), sealed);
}

/// Sealing fixes lines, bytes and chunks; sealing again after a lost reply gives the same file.
pub async fn sealing_fixes_the_file_and_can_be_repeated(world: &impl World) {
    let store = world.store();
    let mut sheet = Sheet::of("ada").lines(MODEL, 5).raw(None, "\n").lines("model-b", 2);
    sheet.expires_at = Some(later(world, 3_600_000));
    let sheet = sheet.in_chunks_of(3);
    let opened_at = now(world);
    sheet.write(store).await;
    pass(world, 1000);
    let file = store.seal_file(sheet.id, FileVerdict::Valid).await.unwrap();

    assert_eq!((file.id, &file.owner), (sheet.id, &sheet.owner));
    assert_eq!((file.name.as_str(), file.purpose.as_str()), ("requests.jsonl", "batch"));
    assert_eq!((file.state, file.lines, file.chunks), (FileState::Sealed, 7, 3));
    assert_eq!(file.bytes, sheet.chunks().iter().map(Chunk::bytes).sum::<u64>());
    assert_eq!((file.created_at, file.sealed_at), (opened_at, Some(now(world))));
    assert_eq!(file.expires_at, sheet.expires_at);

    pass(world, 1000);
    assert_eq!(store.seal_file(sheet.id, FileVerdict::Valid).await.unwrap(), file);
    assert_eq!(store.file(&scope("ada"), sheet.id).await.unwrap(), file);
    assert_eq!(store.file(&Scope::All, sheet.id).await.unwrap(), file);
    // A second opinion comes too late, however it is answered.
    let _ = store.seal_file(sheet.id, FileVerdict::Invalid(vec![line_error(1)])).await;
    assert_eq!(store.file(&scope("ada"), sheet.id).await.unwrap(), file);
}

/// A file without a single request cannot be sealed as valid; it can be kept as invalid.
pub async fn a_file_without_a_request_is_never_valid(world: &impl World) {
    let store = world.store();
    let blank = Sheet::of("ada").raw(None, "\n").raw(None, "\r\n");
    let empty = Sheet::of("ada");
    for sheet in [blank, empty] {
        sheet.write(store).await;
        assert_eq!(kind(store.seal_file(sheet.id, FileVerdict::Valid).await), Kind::Invalid);
        let mut error = line_error(1);
        (error.code, error.line) = ("empty_file".to_owned(), None);
        let verdict = FileVerdict::Invalid(vec![error.clone()]);
        let file = store.seal_file(sheet.id, verdict).await.unwrap();
        assert_eq!((file.state, file.lines), (FileState::Invalid, 0));
        assert_eq!(store.file_errors(&scope("ada"), sheet.id).await.unwrap(), vec![error]);
        assert_bytes_read_back(world, &sheet).await;
    }
}

/// What was said at the sealing stays: a batch is checked against it without reading the file.
pub async fn a_file_knows_what_all_its_lines_ask_for(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").lines(MODEL, 2);
    sheet.write(store).await;
    let long = FileVerdict::ValidFor("/".repeat(ENDPOINT_BYTES_MAX + 1));
    assert_eq!(kind(store.seal_file(sheet.id, long).await), Kind::Invalid);
    let verdict = FileVerdict::ValidFor("/v1/chat/completions".to_owned());
    let file = store.seal_file(sheet.id, verdict.clone()).await.unwrap();
    assert_eq!(file.endpoint.as_deref(), Some("/v1/chat/completions"));
    assert_eq!(store.seal_file(sheet.id, verdict).await.unwrap(), file);
    assert_eq!(store.seal_file(sheet.id, FileVerdict::Valid).await.unwrap(), file);
    assert_eq!(store.file(&scope("ada"), sheet.id).await.unwrap(), file);
    let several = Sheet::of("ada").lines(MODEL, 1).seal(store).await;
    assert_eq!(store.file(&scope("ada"), several).await.unwrap().endpoint, None);
    let listed = FilesQuery { limit: 10, ..FilesQuery::default() };
    assert!(store.files(&scope("ada"), listed).await.unwrap().rows.contains(&file));
}

/// Lanes and sizes of chunks are known without reading a line, and only to the owner.
pub async fn a_file_tells_its_lanes_and_the_sizes_of_its_chunks(world: &impl World) {
    let store = world.store();
    let sheet =
        Sheet::of("ada").lines(MODEL, 5).raw(None, "\n").lines("model-b", 2).in_chunks_of(3);
    sheet.write(store).await;
    assert_eq!(kind(store.file_lanes(&Scope::All, sheet.id).await), Kind::Missing, "it is open");
    assert_eq!(kind(store.chunk_sizes(&Scope::All, sheet.id).await), Kind::Missing);
    store.seal_file(sheet.id, FileVerdict::Valid).await.unwrap();
    let lanes = store.file_lanes(&scope("ada"), sheet.id).await.unwrap();
    let told: Vec<_> =
        lanes.iter().map(|lane| (lane.lane, lane.target.as_str(), lane.lines)).collect();
    assert_eq!(told, [(0, MODEL, 5), (1, "model-b", 2)]);
    let sizes = store.chunk_sizes(&scope("ada"), sheet.id).await.unwrap();
    assert_eq!(sizes, sheet.chunks().iter().map(Chunk::bytes).collect::<Vec<_>>());
    assert_eq!(kind(store.file_lanes(&scope("bob"), sheet.id).await), Kind::Missing);
    assert_eq!(kind(store.chunk_sizes(&scope("bob"), sheet.id).await), Kind::Missing);
    let empty = Sheet::of("ada").seal_invalid(store, vec![line_error(1)]).await.id;
    assert_eq!(store.file_lanes(&scope("ada"), empty).await.unwrap(), []);
    assert_eq!(store.chunk_sizes(&scope("ada"), empty).await.unwrap(), [0_u64; 0]);
}

/// A file's bytes read back exactly: blank lines, odd endings, bytes that are no text, pieces of an
/// overlong line, lines of several lanes, over several chunks.
pub async fn bytes_read_back_exactly(world: &impl World) {
    let odd = Sheet::of("ada")
        .raw(None, "\n")
        .lines(MODEL, 2)
        .raw(None, "\r\n")
        .raw(Some("model-b"), "{\"custom_id\":\"ü\"}\r\n")
        .raw(None, Bytes::from_static(b"\xff\xfe\x00 not text\n"))
        .raw(None, vec![b'x'; 70_000])
        .more_of_it(vec![b'y'; 70_000])
        .more_of_it("end of it\n")
        .rounds(&["model-b", MODEL, "model-c"], 5)
        .raw(None, "   \n")
        .raw(Some(MODEL), "{\"custom_id\":\"last, without an ending\"}");
    for pieces in [1, 2, 5, 1000] {
        let sheet = Sheet { id: FileId::new(), ..odd.clone() }.in_chunks_of(pieces);
        let file = sheet.sealed(world.store()).await;
        assert_eq!(file.lines, 19);
        assert_bytes_read_back(world, &sheet).await;
    }
}

async fn assert_bytes_read_back(world: &impl World, sheet: &Sheet) {
    let store = world.store();
    let file = store.file(&scope("ada"), sheet.id).await.unwrap();
    let chunks = sheet.chunks();
    assert_eq!(file.chunks as usize, chunks.len());
    for chunk in &chunks {
        let wrote: Vec<u8> = chunk.lines.iter().flat_map(|line| line.raw.to_vec()).collect();
        let read = store.read_chunk(&scope("ada"), sheet.id, chunk.no).await.unwrap();
        assert!(read == wrote, "chunk {} reads back as it was written", chunk.no);
    }
    let beyond = store.read_chunk(&scope("ada"), sheet.id, file.chunks).await;
    assert_eq!(kind(beyond), Kind::Missing);
}

/// Lines keep their number in the lane and in the file, however chunks cut the file.
pub async fn lines_keep_their_numbers_across_chunks(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").rounds(&[MODEL, "model-b"], 5).raw(None, "\n").lines(MODEL, 2);
    let batch = sheet.in_chunks_of(3).run(store).await;
    let worker = Worker::on(store);
    let tranche = worker.claim_only(batch, &[MODEL], 100).await.expect("seven lines");
    let numbers: Vec<_> = tranche.lines.iter().map(|line| (line.seq, line.line)).collect();
    assert_eq!(numbers, [(0, 1), (1, 3), (2, 5), (3, 7), (4, 9), (5, 12), (6, 13)]);
    for line in &tranche.lines {
        let id = format!("\"r-{}\"", line.line);
        assert!(String::from_utf8_lossy(&line.raw).contains(&id), "{line:?}");
    }
}

/// An invalid file keeps its first thousand errors and its bytes, and can never run.
pub async fn an_invalid_file_keeps_its_errors_and_bytes(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").lines(MODEL, 2).raw(None, "not json\n").in_chunks_of(2);
    let errors: Vec<_> = (1..=ERRORS_MAX as u64 + 5).map(line_error).collect();
    let file = sheet.seal_invalid(store, errors.clone()).await;
    assert_eq!((file.state, file.lines, file.chunks), (FileState::Invalid, 2, 2));

    let kept = store.file_errors(&scope("ada"), sheet.id).await.unwrap();
    assert_eq!(kept, errors[..ERRORS_MAX]);
    assert_bytes_read_back(world, &sheet).await;
    let again = store.seal_file(sheet.id, FileVerdict::Invalid(errors)).await.unwrap();
    assert_eq!(again, file);
    assert_eq!(kind(store.open_file(sheet.new_file()).await), Kind::Conflict);

    let batch = store.create_batch(run_over(sheet.id, "ada")).await.unwrap();
    assert_eq!(batch.state, State::Failed);
    assert_eq!(Worker::on(store).claim(10).await, None);
}

/// A complete and valid file has no errors to tell.
pub async fn a_valid_file_has_no_errors(world: &impl World) {
    let file = Sheet::of("ada").lines(MODEL, 1).seal(world.store()).await;
    assert!(world.store().file_errors(&scope("ada"), file).await.unwrap().is_empty());
    assert_eq!(kind(world.store().file_errors(&Scope::All, FileId::new()).await), Kind::Missing);
}

/// A dropped file is gone at once, and reaping leaves nothing of it.
pub async fn a_dropped_file_vanishes_and_leaves_nothing(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").rounds(&[MODEL, "model-b"], 30).raw(None, "\n").in_chunks_of(7);
    let other = Sheet::of("ada").lines(MODEL, 3);
    sheet.seal(store).await;
    other.seal(store).await;
    store.drop_file(&scope("ada"), sheet.id).await.unwrap();

    let check_gone = async || {
        assert_eq!(kind(store.file(&Scope::All, sheet.id).await), Kind::Missing);
        assert_eq!(kind(store.read_chunk(&Scope::All, sheet.id, 0).await), Kind::Missing);
        assert_eq!(kind(store.file_errors(&Scope::All, sheet.id).await), Kind::Missing);
        let batch = store.create_batch(run_over(sheet.id, "ada")).await;
        assert_eq!(kind(batch), Kind::Missing);
        let chunk = sheet.chunks().remove(0);
        assert!(store.add_lines(sheet.id, chunk).await.is_err());
        let query = FilesQuery { limit: 10, ..FilesQuery::default() };
        let listed = store.files(&scope("ada"), query).await.unwrap().rows;
        assert_eq!(listed.iter().map(|file| file.id).collect::<Vec<_>>(), [other.id]);
    };
    check_gone().await;
    let (rows, steps) = reap_all(store, 10).await;
    assert!(rows >= 61, "every line was reaped: {rows}");
    assert!(steps > 3, "reaping goes in small steps, not {steps}");
    check_gone().await;
    assert_eq!(reap_all(store, 10).await, (0, 1), "nothing is left to reap");
    assert_bytes_read_back(world, &other).await;
}

/// An upload that is given up can be dropped, and its id is nobody's afterwards.
pub async fn an_upload_can_be_given_up(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").lines(MODEL, 20).in_chunks_of(5);
    sheet.write(store).await;
    assert_eq!(kind(store.drop_file(&scope("bob"), sheet.id).await), Kind::Missing);
    store.drop_file(&scope("ada"), sheet.id).await.unwrap();
    assert!(store.seal_file(sheet.id, FileVerdict::Valid).await.is_err());
    let (rows, _) = reap_all(store, 10).await;
    assert!(rows >= 20, "its lines were reaped: {rows}");
    assert_eq!(kind(store.seal_file(sheet.id, FileVerdict::Valid).await), Kind::Missing);
}

/// Another owner's file does not exist, whatever is asked of it.
pub async fn another_owners_file_is_missing(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 1).seal(store).await;
    let bob = scope("bob");
    assert_eq!(kind(store.file(&bob, file).await), Kind::Missing);
    assert_eq!(kind(store.file_errors(&bob, file).await), Kind::Missing);
    assert_eq!(kind(store.read_chunk(&bob, file, 0).await), Kind::Missing);
    assert_eq!(kind(store.drop_file(&bob, file).await), Kind::Missing);
    assert_eq!(kind(store.drop_file(&bob, FileId::new()).await), Kind::Missing);
    assert_eq!(kind(store.create_batch(run_over(file, "bob")).await), Kind::Missing);
    let query = FilesQuery { limit: 10, ..FilesQuery::default() };
    assert!(store.files(&bob, query).await.unwrap().rows.is_empty());
    assert_eq!(store.file(&scope("ada"), file).await.unwrap().id, file);
}

/// A file stays while a batch needs it; when the batch is closed it may go, the results stay, and
/// only running again is no longer possible.
pub async fn a_file_in_use_cannot_be_dropped(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 3).seal(store).await;
    let batch = store.create_batch(run_over(file, "ada")).await.unwrap().id;
    let worker = Worker::on(store);
    assert_eq!(kind(store.drop_file(&scope("ada"), file).await), Kind::Conflict);
    worker.drain(batch, &[MODEL]).await;
    assert_eq!(kind(store.drop_file(&scope("ada"), file).await), Kind::Conflict);
    worker.close(batch).await;
    store.drop_file(&scope("ada"), file).await.unwrap();
    reap_all(store, 100).await;

    has_one_result_per_line(store, batch, 3).await;
    check(store, batch).await;
    let step = Reprocess {
        lines_max: 10,
        ..Reprocess::first(batch, Select::Lines([1].into_iter().collect()))
    };
    assert_eq!(kind(store.reprocess(&Scope::All, step).await), Kind::Conflict);
    check(store, batch).await;
}

/// What was answered is there for another process, after the one that wrote it is gone.
pub async fn what_was_answered_outlives_its_writer(world: &impl World) {
    let can = world.store().capabilities();
    if !can.durable {
        eprintln!("skipped: {} keeps nothing when its process ends", can.name);
        return;
    }
    let sheet = Sheet::of("ada").lines(MODEL, 5).in_chunks_of(2);
    let writer = world.another().await;
    sheet.seal(&writer).await;
    let worker = Worker::on(&writer);
    let batch = writer.create_batch(run_over(sheet.id, "ada")).await.unwrap().id;
    worker.complete(&worker.take(3).await).await;
    let (audit, rows) = (writer.verify(batch).await.unwrap(), results(&writer, batch).await);
    drop((writer, worker));
    let reader = world.another().await;
    assert_eq!(reader.verify(batch).await.unwrap(), audit);
    assert_eq!(results(&reader, batch).await, rows);
    assert_bytes_read_back(world, &sheet).await;
}

/// A new lane that no line of its chunk uses is refused: it would never be done.
pub async fn a_lane_without_a_line_is_invalid(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").lines(MODEL, 2);
    let [good] = sheet.chunks().try_into().expect("one chunk");
    store.open_file(sheet.new_file()).await.unwrap();
    let mut unused = good.clone();
    unused.lanes.push(NewLane { lane: 1, target: target("model-b") });
    assert_eq!(kind(store.add_lines(sheet.id, unused).await), Kind::Invalid);
    let blank = NewLine { lane: None, seq: 0, line: 1, raw: Bytes::from_static(b"\n") };
    let none = Chunk { lines: vec![blank], ..good.clone() };
    assert_eq!(kind(store.add_lines(sheet.id, none).await), Kind::Invalid);

    store.add_lines(sheet.id, good).await.unwrap();
    store.seal_file(sheet.id, FileVerdict::Valid).await.unwrap();
    let batch = store.create_batch(run_over(sheet.id, "ada")).await.unwrap().id;
    assert_eq!(Worker::on(store).drain(batch, &[MODEL, "model-b"]).await, [batch]);
    check(store, batch).await;
}

/// A line for a lane number that no file can have is refused, the largest number too.
pub async fn a_lane_number_past_the_bound_is_invalid(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").lines(MODEL, 2);
    let [good] = sheet.chunks().try_into().expect("one chunk");
    store.open_file(sheet.new_file()).await.unwrap();
    let bound = LaneNo::try_from(LANES_MAX).expect("a lane number");
    for lane in [bound, LaneNo::MAX] {
        let mut past = good.clone();
        (past.lines[1].lane, past.lines[1].seq) = (Some(lane), 0);
        assert_eq!(kind(store.add_lines(sheet.id, past.clone()).await), Kind::Invalid);
        past.lanes.push(NewLane { lane, target: target("model-b") });
        assert_eq!(kind(store.add_lines(sheet.id, past).await), Kind::Invalid);
    }
    store.add_lines(sheet.id, good).await.unwrap();
    assert_eq!(store.seal_file(sheet.id, FileVerdict::Valid).await.unwrap().lines, 2);
    assert_bytes_read_back(world, &sheet).await;
}

/// A chunk whose caller stopped half way, wherever that was, can be written again, and the file
/// reads back exactly.
pub async fn an_abandoned_chunk_can_be_written_again(world: &impl World) {
    let store = world.store();
    let line = vec![b'x'; 8192];
    for cut in CancelAfter::growing() {
        let mut sheet = Sheet::of("ada");
        for no in 0..160 {
            sheet = sheet.raw((no % 7 > 0).then_some(MODEL), line.clone());
        }
        let sheet = sheet.in_chunks_of(150);
        let [large, small] = sheet.chunks().try_into().expect("two chunks");
        assert!(large.bytes() >= 1 << 20, "large enough to take a while");
        store.open_file(sheet.new_file()).await.unwrap();
        cut.run(store.add_lines(sheet.id, large.clone())).await;
        store.members().await.expect("the next call is answered");
        for chunk in [large, small] {
            let written = store.add_lines(sheet.id, chunk).await;
            written.unwrap_or_else(|error| panic!("{cut:?}: {}", whole_text(&error)));
        }
        let file = store.seal_file(sheet.id, FileVerdict::Valid).await.unwrap();
        assert_eq!((file.lines, file.chunks), (137, 2), "{cut:?}");
        assert_bytes_read_back(world, &sheet).await;
    }
}
