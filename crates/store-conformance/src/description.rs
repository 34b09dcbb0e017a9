//! What is said of a file while it is open: how its rows are read, and what it was cut from.

use windrow_domain::FileId;
use windrow_store::error::Kind;
use windrow_store::finalise::OUTPUT_NAME_BYTES_MAX;
use windrow_store::ingest::{FILE_HEAD_BYTES_MAX, FileDescription, FileVerdict, Original};
use windrow_store::inspect::FilesQuery;
use windrow_store::sweep::{DroppedOutput, Retention};
use windrow_store::{Batches, Ingest, Inspect, Scope, Store, Sweep};

use crate::World;
use crate::fixture::*;

fn head(text: &str) -> FileDescription {
    FileDescription { head: Some(text.to_owned()), original: None }
}

fn original(place: &str, bytes: u64) -> FileDescription {
    let original = Some(Original { place: place.to_owned(), bytes });
    FileDescription { head: None, original }
}

async fn dropped(store: &impl Store) -> Vec<DroppedOutput> {
    store.find_dropped_outputs(100).await.unwrap()
}

/// Head and original are said up to the sealing, each as often as the writer learns more, and never after:
/// whoever sees the file sees what its rows were cut with.
pub async fn an_open_file_is_described_as_often_as_its_writer_learns_more(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").lines(MODEL, 2);
    assert_eq!(kind(store.describe_file(sheet.id, head("{}")).await), Kind::Missing, "not open");
    sheet.write(store).await;
    store.describe_file(sheet.id, head("{\"format\":\"xlsx\"}")).await.unwrap();
    store.describe_file(sheet.id, original("originals/a", 0)).await.unwrap();
    store.describe_file(sheet.id, original("originals/a", 1 << 40)).await.unwrap();
    store.describe_file(sheet.id, head("{\"sheet\":\"Größen\"}")).await.unwrap();
    store.describe_file(sheet.id, FileDescription::default()).await.unwrap();
    let elsewhere = store.describe_file(sheet.id, original("originals/b", 3)).await;
    assert_eq!(kind(elsewhere), Kind::Conflict, "the bytes at the first place would be lost");

    let sealed = store.seal_file(sheet.id, FileVerdict::Valid).await.unwrap();
    assert_eq!(sealed.head.as_deref(), Some("{\"sheet\":\"Größen\"}"));
    assert_eq!(sealed.original, original("originals/a", 1 << 40).original);
    assert_eq!(sealed.output, None);
    assert_eq!(kind(store.describe_file(sheet.id, head("{}")).await), Kind::Missing, "sealed");
    assert_eq!(store.file(&scope("ada"), sheet.id).await.unwrap(), sealed);
    let query = FilesQuery { limit: 10, ..FilesQuery::default() };
    let listed = store.files(&scope("ada"), query).await.unwrap().rows;
    assert_eq!(listed[0].original, sealed.original);
    assert_eq!(listed[0].head, None, "a list does not carry heads");
    let run = store.create_batch(run_over(sheet.id, "ada")).await;
    assert!(run.is_ok(), "a file with an original is no output");
}

/// A file of which nothing was said has neither.
pub async fn a_file_that_was_not_described_has_no_head_and_no_original(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 1).sealed(store).await;
    assert_eq!((file.head, file.original), (None, None));
    assert!(dropped(store).await.is_empty());
}

/// What is too long is refused, and what just fits reads back exactly.
pub async fn a_description_out_of_bounds_is_invalid(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").lines(MODEL, 1);
    sheet.write(store).await;
    let over = head(&"x".repeat(FILE_HEAD_BYTES_MAX + 1));
    let far = original(&"x".repeat(OUTPUT_NAME_BYTES_MAX + 1), 0);
    for bad in [over, far, head("a\0b"), original("a\0b", 0)] {
        assert_eq!(kind(store.describe_file(sheet.id, bad).await), Kind::Invalid);
    }
    let whole = "ß".repeat(FILE_HEAD_BYTES_MAX / 2);
    store.describe_file(sheet.id, head(&whole)).await.unwrap();
    let sealed = store.seal_file(sheet.id, FileVerdict::Valid).await.unwrap();
    assert_eq!((sealed.head, sealed.original), (Some(whole), None));
}

/// A dropped file stays until the bytes of its original were forgotten, so that they are found; then it is
/// reaped, and nothing of it is left.
pub async fn the_original_of_a_dropped_file_is_found_until_it_is_forgotten(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").lines(MODEL, 3);
    sheet.write(store).await;
    store.describe_file(sheet.id, original("originals/a", 9)).await.unwrap();
    store.seal_file(sheet.id, FileVerdict::Valid).await.unwrap();
    assert!(dropped(store).await.is_empty(), "what is in use is not to be removed");
    store.drop_file(&scope("ada"), sheet.id).await.unwrap();
    assert_eq!(reap_all(store, 10).await, (0, 1), "not before its bytes are gone");
    let found = [DroppedOutput { file: sheet.id, place: "originals/a".to_owned() }];
    assert_eq!(dropped(store).await, found);
    let other = DroppedOutput { file: sheet.id, place: "originals/b".to_owned() };
    store.forget_outputs(&[other]).await.unwrap();
    assert_eq!(dropped(store).await, found);
    store.forget_outputs(&found).await.unwrap();
    assert!(dropped(store).await.is_empty());
    assert!(reap_all(store, 10).await.0 > 3, "its lines went, too");
    assert_eq!(kind(store.file(&Scope::All, sheet.id).await), Kind::Missing);
}

/// The original of an upload that was given up half way is found, too; describing counts as going on.
pub async fn the_original_of_an_abandoned_upload_is_found(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").lines(MODEL, 1);
    store.open_file(sheet.new_file()).await.unwrap();
    store.describe_file(sheet.id, original("originals/a", 0)).await.unwrap();
    let retention = Retention { closed_batch_secs: None, open_file_secs: 60, member_secs: 1 << 20 };
    pass(world, 50_000);
    store.describe_file(sheet.id, original("originals/a", 7)).await.unwrap();
    pass(world, 50_000);
    assert_eq!(store.prune(retention, 10).await.unwrap().files, 0, "its writer lives");
    pass(world, 20_000);
    assert_eq!(store.prune(retention, 10).await.unwrap().files, 1);
    let found = dropped(store).await;
    let files: Vec<FileId> = found.iter().map(|gone| gone.file).collect();
    assert_eq!(files, [sheet.id]);
    store.forget_outputs(&found).await.unwrap();
    assert_eq!(reap_all(store, 10).await.0, 1);
}
