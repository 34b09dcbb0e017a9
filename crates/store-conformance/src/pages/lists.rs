//! Lists that begin behind an object, and lists of files the other way round.

use windrow_domain::{BatchId, FileId};
use windrow_store::batch::NewBatch;
use windrow_store::error::Kind;
use windrow_store::inspect::{BatchesQuery, FilesQuery};
use windrow_store::{Batches, Ingest, Inspect, Scope, Store};

use crate::World;
use crate::fixture::*;

/// Files by the list that the query asks for, all pages of it.
async fn file_ids(store: &impl Store, scope: &Scope, query: &FilesQuery) -> Vec<FileId> {
    let (mut ids, mut query) = (Vec::new(), query.clone());
    loop {
        let page = store.files(scope, query.clone()).await.expect("a page comes");
        ids.extend(page.rows.iter().map(|file| file.id));
        let Some(next) = page.next else { return ids };
        query = FilesQuery { after: Some(next), after_id: None, ..query };
    }
}

async fn batch_ids(store: &impl Store, scope: &Scope, query: &BatchesQuery) -> Vec<BatchId> {
    let (mut ids, mut query) = (Vec::new(), query.clone());
    loop {
        let page = store.batches(scope, query.clone()).await.expect("a page comes");
        ids.extend(page.rows.iter().map(|batch| batch.id));
        let Some(next) = page.next else { return ids };
        query = BatchesQuery { after: Some(next), after_id: None, ..query };
    }
}

/// Five files of ada's, two of them of one moment, with two purposes; one of bob's.
async fn some_files(world: &impl World) -> FileId {
    let store = world.store();
    for no in 0..5 {
        let mut sheet = Sheet::of("ada").lines(MODEL, 1);
        sheet.purpose = if no % 2 == 0 { "batch" } else { "vision" }.to_owned();
        sheet.seal(store).await;
        pass(world, if no == 1 { 0 } else { 1000 });
    }
    Sheet::of("bob").lines(MODEL, 1).seal(store).await
}

/// Oldest first is newest first the other way round, however it is cut into pages.
pub async fn files_are_listed_either_way_round(world: &impl World) {
    let store = world.store();
    some_files(world).await;
    for purpose in [None, Some("batch".to_owned())] {
        let query = FilesQuery { purpose, limit: 100, ..FilesQuery::default() };
        for scope in [scope("ada"), Scope::All] {
            let mut whole = file_ids(store, &scope, &query).await;
            whole.reverse();
            for limit in [1, 2, 3, 100] {
                let query = FilesQuery { ascending: true, limit, ..query.clone() };
                assert_eq!(file_ids(store, &scope, &query).await, whole, "pages of {limit}");
            }
        }
    }
}

/// A list of files may begin behind any file of the scope, in either order and with any filter.
pub async fn a_list_of_files_begins_behind_a_file(world: &impl World) {
    let store = world.store();
    let bobs = some_files(world).await;
    for ascending in [false, true] {
        let query = FilesQuery { ascending, limit: 2, ..FilesQuery::default() };
        let whole = file_ids(store, &scope("ada"), &query).await;
        assert_eq!(whole.len(), 5);
        let purpose = Some("batch".to_owned());
        let some = FilesQuery { purpose, ..query.clone() };
        let batch = file_ids(store, &scope("ada"), &some).await;
        for (at, id) in whole.iter().enumerate() {
            let behind = FilesQuery { after_id: Some(*id), ..query.clone() };
            assert_eq!(file_ids(store, &scope("ada"), &behind).await, whole[at + 1..]);
            let wanted: Vec<_> =
                whole[at + 1..].iter().copied().filter(|id| batch.contains(id)).collect();
            let behind = FilesQuery { after_id: Some(*id), ..some.clone() };
            assert_eq!(file_ids(store, &scope("ada"), &behind).await, wanted);
        }
        let behind = FilesQuery { after_id: Some(bobs), ..query.clone() };
        let rest = if ascending { 0 } else { 5 };
        assert_eq!(file_ids(store, &Scope::All, &behind).await.len(), rest);
    }
}

/// A list of batches may begin behind any batch of the scope.
pub async fn a_list_of_batches_begins_behind_a_batch(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 1).seal(store).await;
    for no in 0..5 {
        let job_type = (no % 2 == 0).then(|| "sizes".to_owned());
        store.create_batch(NewBatch { job_type, ..run_over(file, "ada") }).await.unwrap();
        pass(world, if no == 1 { 0 } else { 1000 });
    }
    let query = BatchesQuery { limit: 2, ..BatchesQuery::default() };
    let whole = batch_ids(store, &scope("ada"), &query).await;
    let some = BatchesQuery { job_type: Some("sizes".to_owned()), ..query.clone() };
    let sizes = batch_ids(store, &scope("ada"), &some).await;
    assert_eq!((whole.len(), sizes.len()), (5, 3));
    for (at, id) in whole.iter().enumerate() {
        let behind = BatchesQuery { after_id: Some(*id), ..query.clone() };
        assert_eq!(batch_ids(store, &scope("ada"), &behind).await, whole[at + 1..]);
        let behind = BatchesQuery { after_id: Some(*id), ..some.clone() };
        let wanted: Vec<_> =
            whole[at + 1..].iter().copied().filter(|id| sizes.contains(id)).collect();
        assert_eq!(batch_ids(store, &scope("ada"), &behind).await, wanted);
    }
}

/// What is not there for the caller is nothing to begin behind: another owner's, unknown, dropped. And
/// a list begins behind one thing.
pub async fn a_list_begins_behind_nothing_unknown(world: &impl World) {
    let store = world.store();
    let bobs = some_files(world).await;
    let theirs = store.create_batch(run_over(bobs, "bob")).await.unwrap().id;
    let ada = scope("ada");
    let open = Sheet::of("ada").lines(MODEL, 1);
    open.write(store).await;
    let gone = Sheet::of("ada").lines(MODEL, 1).seal(store).await;
    store.drop_file(&ada, gone).await.unwrap();
    for id in [bobs, FileId::new(), open.id, gone] {
        let query = FilesQuery { after_id: Some(id), limit: 2, ..FilesQuery::default() };
        assert_eq!(kind(store.files(&ada, query).await), Kind::Invalid);
    }
    for id in [theirs, BatchId::new()] {
        let query = BatchesQuery { after_id: Some(id), limit: 2, ..BatchesQuery::default() };
        assert_eq!(kind(store.batches(&ada, query).await), Kind::Invalid);
    }
    let query = FilesQuery { limit: 1, ..FilesQuery::default() };
    let page = store.files(&ada, query.clone()).await.unwrap();
    let both = FilesQuery { after: page.next, after_id: Some(page.rows[0].id), ..query };
    assert_eq!(kind(store.files(&ada, both).await), Kind::Invalid);
    let after = Some("a cursor".to_owned());
    let both = BatchesQuery { after, after_id: Some(theirs), limit: 1, ..BatchesQuery::default() };
    assert_eq!(kind(store.batches(&scope("bob"), both).await), Kind::Invalid);
}
