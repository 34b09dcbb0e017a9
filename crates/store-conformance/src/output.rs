//! Outputs: closing a batch makes files of what was written, and they live as files do.

use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, FileId, InstanceId, OutputKind, State};
use windrow_store::batch::{NewBatch, OUTPUT_SECS_MAX, Reprocess, Select};
use windrow_store::error::Kind;
use windrow_store::finalise::{Finalisation, NewOutput, OUTPUT_NAME_BYTES_MAX, Rows};
use windrow_store::ingest::{File, FileState, Output};
use windrow_store::inspect::FilesQuery;
use windrow_store::sweep::{DroppedOutput, Retention};
use windrow_store::{Batches, Finalise, Ingest, Inspect, Scope, Store, Sweep};

use crate::World;
use crate::fixture::*;

/// An output as a finalisation with that token would have written it.
fn new_output(kind: OutputKind, token: u64) -> NewOutput {
    NewOutput {
        kind,
        name: format!("{}.jsonl", kind.as_str()),
        place: format!("batches/b/{token}-{}.jsonl", kind.as_str()),
        lines: 3,
        bytes: 1 << 40,
    }
}

fn both(token: u64) -> Vec<NewOutput> {
    OutputKind::ALL.map(|kind| new_output(kind, token)).to_vec()
}

/// A batch of ada's that waits to be closed, whose outputs live for so long.
async fn settled(world: &impl World, output_secs: Option<u64>) -> BatchId {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 3).seal(store).await;
    let new = NewBatch { output_secs, ..run_over(file, "ada") };
    let id = store.create_batch(new).await.unwrap().id;
    assert_eq!(Worker::on(store).drain(id, &[MODEL]).await, [id]);
    id
}

async fn take(store: &impl Store, id: BatchId) -> Finalisation {
    store.take_finalisation(id, InstanceId::new(), LEASE_MS).await.unwrap()
}

/// Closes it with these outputs.
async fn close(store: &impl Store, id: BatchId, outputs: &[NewOutput]) -> Finalisation {
    let held = take(store, id).await;
    store.close_batch(&held, rows(&held.counts), "{}", outputs).await.unwrap();
    held
}

/// Runs the lines of a closed batch again, so that it waits to be closed again.
async fn run_again(store: &(impl Store + Clone), id: BatchId) {
    let select = Select::Statuses(vec![Status::Completed]);
    let step = Reprocess { lines_max: 10, ..Reprocess::first(id, select) };
    assert_eq!(store.reprocess(&Scope::All, step).await.unwrap().moved, 3);
    Worker::on(store).drain(id, &[MODEL]).await;
}

async fn outputs_of(store: &impl Store, owner_name: &str) -> Vec<FileId> {
    let purpose = Some("batch_output".to_owned());
    let query = FilesQuery { purpose, limit: 100, ..FilesQuery::default() };
    let page = store.files(&scope(owner_name), query).await.unwrap();
    page.rows.iter().map(|file| file.id).collect()
}

async fn dropped(store: &impl Store) -> Vec<DroppedOutput> {
    store.find_dropped_outputs(100).await.unwrap()
}

/// Everything that is known of an output after a closing at this moment.
fn expected(world: &impl World, id: BatchId, new: &NewOutput, secs: Option<u64>) -> File {
    File {
        id: FileId::of_output(id, new.kind),
        owner: owner("ada"),
        name: new.name.clone(),
        purpose: "batch_output".to_owned(),
        state: FileState::Sealed,
        lines: new.lines,
        bytes: new.bytes,
        chunks: 0,
        created_at: now(world),
        sealed_at: Some(now(world)),
        endpoint: None,
        expires_at: secs.map(|secs| later(world, secs * 1000)),
        output: Some(Output { batch: id, kind: new.kind, place: new.place.clone() }),
        head: None,
        original: None,
    }
}

/// The outputs of a closing are files of the batch's owner, like any other file and nobody else's.
pub async fn outputs_are_files_of_their_owner(world: &impl World) {
    let store = world.store();
    for secs in [None, Some(60)] {
        let id = settled(world, secs).await;
        assert_eq!(batch(store, id).await.output_secs, secs);
        let made = both(7);
        for new in &made {
            let file = FileId::of_output(id, new.kind);
            assert_eq!(kind(store.file(&Scope::All, file).await), Kind::Missing, "not closed");
        }
        pass(world, 1000);
        close(store, id, &made).await;
        for new in &made {
            let file = expected(world, id, new, secs);
            assert_eq!(store.file(&scope("ada"), file.id).await.unwrap(), file);
            assert_eq!(file.id.source(), Some((id, new.kind)));
            assert_eq!(kind(store.file(&scope("bob"), file.id).await), Kind::Missing);
            assert!(store.file_errors(&scope("ada"), file.id).await.unwrap().is_empty());
            assert_eq!(kind(store.read_chunk(&Scope::All, file.id, 0).await), Kind::Missing);
            let over = store.create_batch(run_over(file.id, "ada")).await;
            assert_eq!(kind(over), Kind::Invalid, "an output cannot be run");
            let over = store.create_batch(run_over(file.id, "bob")).await;
            assert_eq!(kind(over), Kind::Missing);
        }
        let listed = outputs_of(store, "ada").await;
        assert!(listed.contains(&FileId::output_of(id)) && listed.contains(&FileId::errors_of(id)));
    }
    assert!(outputs_of(store, "bob").await.is_empty());
    assert_eq!(outputs_of(store, "ada").await.len(), 4);
}

/// A closing that is refused makes no output.
pub async fn a_closing_that_is_refused_makes_no_output(world: &impl World) {
    let store = world.store();
    let id = settled(world, None).await;
    let held = take(store, id).await;
    let right = rows(&held.counts);
    let wrong = store.close_batch(&held, Rows::default(), "{}", &both(1)).await;
    assert_eq!(kind(wrong), Kind::Conflict);
    let stranger = Finalisation { instance: InstanceId::new(), ..held.clone() };
    assert_eq!(kind(store.close_batch(&stranger, right, "{}", &both(1)).await), Kind::LeaseLost);
    let long = "x".repeat(OUTPUT_NAME_BYTES_MAX + 1);
    let one = new_output(OutputKind::Output, 1);
    let bad = [
        vec![one.clone(), one.clone()],
        vec![NewOutput { name: long.clone(), ..one.clone() }],
        vec![NewOutput { place: long, ..one }],
    ];
    for outputs in bad {
        assert_eq!(kind(store.close_batch(&held, right, "{}", &outputs).await), Kind::Invalid);
    }
    assert!(outputs_of(store, "ada").await.is_empty());
    store.close_batch(&held, right, "{}", &both(1)).await.unwrap();
    assert_eq!(outputs_of(store, "ada").await.len(), 2);
}

/// The same closing sent again changes no output, and brings none back that was dropped.
pub async fn a_repeated_closing_brings_no_output_back(world: &impl World) {
    let store = world.store();
    let id = settled(world, Some(60)).await;
    let held = close(store, id, &both(1)).await;
    let errors = store.file(&Scope::All, FileId::errors_of(id)).await.unwrap();
    store.drop_file(&scope("ada"), FileId::output_of(id)).await.unwrap();
    pass(world, 1000);
    store.close_batch(&held, rows(&held.counts), "{}", &both(1)).await.unwrap();
    assert_eq!(outputs_of(store, "ada").await, [FileId::errors_of(id)]);
    assert_eq!(store.file(&Scope::All, errors.id).await.unwrap(), errors);
}

/// A batch that ran again and is closed again replaces its outputs under the same ids, also those that
/// were dropped, reaped or not; one that the new closing does not have is dropped.
pub async fn closing_again_replaces_the_outputs(world: &impl World) {
    let store = world.store();
    let id = settled(world, Some(60)).await;
    close(store, id, &both(1)).await;
    run_again(store, id).await;
    assert_eq!(outputs_of(store, "ada").await.len(), 2, "until the next closing the old ones stay");
    pass(world, 1000);
    let errors = new_output(OutputKind::Errors, 2);
    close(store, id, std::slice::from_ref(&errors)).await;
    assert_eq!(outputs_of(store, "ada").await, [FileId::errors_of(id)]);
    let file = store.file(&Scope::All, FileId::errors_of(id)).await.unwrap();
    assert_eq!(file, expected(world, id, &errors, Some(60)));
    let place = both(1)[0].place.clone();
    let gone = DroppedOutput { file: FileId::output_of(id), place };
    assert_eq!(dropped(store).await, std::slice::from_ref(&gone));

    // One dropped and forgotten, reaped; the other dropped and not forgotten.
    store.forget_outputs(&[gone]).await.unwrap();
    reap_all(store, 10).await;
    store.drop_file(&scope("ada"), FileId::errors_of(id)).await.unwrap();
    run_again(store, id).await;
    pass(world, 1000);
    close(store, id, &both(3)).await;
    for new in both(3) {
        let file = store.file(&scope("ada"), FileId::of_output(id, new.kind)).await.unwrap();
        assert_eq!(file, expected(world, id, &new, Some(60)));
    }
    assert!(dropped(store).await.is_empty());
    assert_eq!(reap_all(store, 10).await, (0, 1));
    check(store, id).await;
}

/// Outputs expire so long after the closing; their batch stays.
pub async fn outputs_expire_after_the_closing(world: &impl World) {
    let store = world.store();
    let (id, forever) = (settled(world, Some(60)).await, settled(world, None).await);
    pass(world, 500_000);
    close(store, id, &both(1)).await;
    close(store, forever, &both(2)).await;
    let keep =
        Retention { closed_batch_secs: None, open_file_secs: 1_000_000, member_secs: 1_000_000 };
    pass(world, 59_999);
    assert_eq!(store.prune(keep, 10).await.unwrap().files, 0);
    pass(world, 1);
    assert_eq!(store.prune(keep, 10).await.unwrap().files, 2);
    for file in [FileId::output_of(id), FileId::errors_of(id)] {
        assert_eq!(kind(store.file(&Scope::All, file).await), Kind::Missing);
    }
    assert_eq!(batch(store, id).await.state, State::Completed);
    assert_eq!(dropped(store).await.len(), 2);
    assert_eq!(outputs_of(store, "ada").await.len(), 2);
    let file = Sheet::of("ada").lines(MODEL, 1).seal(store).await;
    for secs in [0, OUTPUT_SECS_MAX + 1, u64::MAX] {
        let new = NewBatch { output_secs: Some(secs), ..run_over(file, "ada") };
        assert_eq!(kind(store.create_batch(new).await), Kind::Invalid);
    }
}

/// Outputs go with their batch, whether it is deleted or pruned; other batches keep theirs.
pub async fn outputs_go_with_their_batch(world: &impl World) {
    let store = world.store();
    let ids = [settled(world, None).await, settled(world, None).await, settled(world, None).await];
    close(store, ids[0], &both(1)).await;
    close(store, ids[1], &both(2)).await;
    pass(world, 61_000);
    close(store, ids[2], &both(3)).await;
    assert_eq!(kind(store.delete_batch(&scope("bob"), ids[0]).await), Kind::Missing);
    assert_eq!(outputs_of(store, "ada").await.len(), 6);
    store.delete_batch(&scope("ada"), ids[0]).await.unwrap();
    assert_eq!(outputs_of(store, "ada").await.len(), 4);
    let retention = Retention {
        closed_batch_secs: Some(60),
        open_file_secs: 1_000_000,
        member_secs: 1_000_000,
    };
    assert_eq!(store.prune(retention, 10).await.unwrap().batches, 1);
    assert_eq!(outputs_of(store, "ada").await.len(), 2);
    let mut places: Vec<_> = dropped(store).await.into_iter().map(|gone| gone.place).collect();
    places.sort();
    let mut wanted: Vec<_> = both(1).into_iter().chain(both(2)).map(|new| new.place).collect();
    wanted.sort();
    assert_eq!(places, wanted);
    assert!(store.file(&scope("ada"), FileId::output_of(ids[2])).await.is_ok());
}

/// A dropped output stays until its bytes were forgotten, so that they are found; then it is reaped.
pub async fn a_dropped_output_stays_until_it_is_forgotten(world: &impl World) {
    let store = world.store();
    let id = settled(world, None).await;
    close(store, id, &both(1)).await;
    assert!(dropped(store).await.is_empty(), "what is in use is not to be removed");
    assert_eq!(kind(store.drop_file(&scope("bob"), FileId::output_of(id)).await), Kind::Missing);
    for new in both(1) {
        store.drop_file(&scope("ada"), FileId::of_output(id, new.kind)).await.unwrap();
    }
    assert_eq!(reap_all(store, 10).await, (0, 1), "not before their bytes are gone");
    let found = dropped(store).await;
    assert_eq!(found.len(), 2);
    assert_eq!(store.find_dropped_outputs(1).await.unwrap(), found[..1]);
    store.forget_outputs(&found[..1]).await.unwrap();
    store.forget_outputs(&found[..1]).await.unwrap();
    assert_eq!(dropped(store).await, found[1..]);
    assert_eq!(reap_all(store, 10).await.0, 1);
    store.forget_outputs(&found).await.unwrap();
    store.forget_outputs(&[]).await.unwrap();
    assert_eq!(reap_all(store, 10).await.0, 1);
    assert!(dropped(store).await.is_empty());
}

/// Whoever removed the bytes of an old output late forgets nothing of the new one.
pub async fn forgetting_an_old_place_spares_the_new_one(world: &impl World) {
    let store = world.store();
    let id = settled(world, None).await;
    let output = FileId::output_of(id);
    close(store, id, &both(1)).await;
    store.drop_file(&scope("ada"), output).await.unwrap();
    let old = dropped(store).await;
    run_again(store, id).await;
    close(store, id, &both(2)).await;
    store.forget_outputs(&old).await.unwrap();
    let place = both(2)[0].place.clone();
    let file = store.file(&Scope::All, output).await.unwrap();
    assert_eq!(file.output.map(|output| output.place), Some(place.clone()));
    store.drop_file(&scope("ada"), output).await.unwrap();
    store.forget_outputs(&old).await.unwrap();
    assert_eq!(dropped(store).await, [DroppedOutput { file: output, place }]);
}
