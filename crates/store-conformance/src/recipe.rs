//! Recipes: what a batch makes of the rows of its file, kept by generation.

use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, State, UpstreamId};
use windrow_store::batch::{LaneUpstreams, NewBatch, Reprocess, Select};
use windrow_store::error::Kind;
use windrow_store::ingest::{FileDescription, FileVerdict};
use windrow_store::inspect::BatchesQuery;
use windrow_store::recipe::{BatchRecipe, RECIPE_BYTES_MAX, recipe_hash};
use windrow_store::{Batches, Ingest, Inspect, Scope, Sweep};

use crate::World;
use crate::fixture::*;

const TEXT: &str = "[columns]\nsize = \"it.größe\"\n";

fn with_recipe(new: NewBatch, text: &str) -> NewBatch {
    NewBatch { recipe: Some(text.to_owned()), ..new }
}

fn recipe(generation: u32, text: &str) -> BatchRecipe {
    BatchRecipe { generation, text: text.to_owned() }
}

/// A batch keeps the exact text of its recipe; its owner reads it, and the engine beside the head of the file.
pub async fn a_batch_keeps_the_recipe_that_it_was_made_with(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").lines(MODEL, 2);
    sheet.write(store).await;
    let head = Some("{\"format\":\"csv\"}".to_owned());
    let description = FileDescription { head: head.clone(), original: None };
    store.describe_file(sheet.id, description).await.unwrap();
    store.seal_file(sheet.id, FileVerdict::Valid).await.unwrap();
    let new = with_recipe(run_over(sheet.id, "ada"), TEXT);
    let batch = store.create_batch(new).await.unwrap();
    assert_eq!(batch.recipe_hash, Some(recipe_hash(TEXT)));
    let query = BatchesQuery { limit: 1, ..BatchesQuery::default() };
    assert_eq!(store.batches(&scope("ada"), query).await.unwrap().rows[0], batch);
    assert_eq!(store.recipes(&scope("ada"), batch.id).await.unwrap(), [recipe(0, TEXT)]);
    assert_eq!(kind(store.recipes(&scope("bob"), batch.id).await), Kind::Missing);

    let definition = store.job_definition(batch.id).await.unwrap();
    assert_eq!((definition.file, &definition.owner), (sheet.id, &batch.owner));
    assert_eq!((&definition.head, definition.recipes.as_slice()), (&head, &[recipe(0, TEXT)][..]));
    assert_eq!(kind(store.job_definition(BatchId::new()).await), Kind::Missing);
    check(store, batch.id).await;
}

/// A batch whose lines are requests themselves has none.
pub async fn a_batch_of_requests_has_no_recipe(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 1).await;
    assert_eq!(batch(store, id).await.recipe_hash, None);
    assert!(store.recipes(&scope("ada"), id).await.unwrap().is_empty());
    let definition = store.job_definition(id).await.unwrap();
    assert_eq!((definition.head, definition.recipes), (None, Vec::new()));
}

/// A repeat with another recipe, or without the one there was, is another batch: a key that was used with
/// it is a conflict, so that no caller takes the results of one recipe for those of another.
pub async fn a_repeat_with_another_recipe_is_a_conflict(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 1).seal(store).await;
    let idempotency_key = Some("k".to_owned());
    let plain = NewBatch { idempotency_key, ..run_over(file, "ada") };
    let new = with_recipe(plain.clone(), TEXT);
    let first = store.create_batch(new.clone()).await.unwrap();
    for id in [first.id, BatchId::new()] {
        let again = NewBatch { id, ..new.clone() };
        assert_eq!(store.create_batch(again).await.unwrap(), first);
        let other = NewBatch { id, ..with_recipe(plain.clone(), "type = \"x\"") };
        assert_eq!(kind(store.create_batch(other).await), Kind::Conflict);
        let none = NewBatch { id, ..plain.clone() };
        assert_eq!(kind(store.create_batch(none).await), Kind::Conflict);
    }
    let requests = store.create_batch(run_over(file, "ada")).await.unwrap();
    let late = with_recipe(NewBatch { id: requests.id, ..run_over(file, "ada") }, TEXT);
    assert_eq!(kind(store.create_batch(late).await), Kind::Conflict);
    assert_eq!(store.recipes(&scope("ada"), first.id).await.unwrap(), [recipe(0, TEXT)]);
    check(store, first.id).await;
}

/// What is too long is refused, and what just fits reads back exactly.
pub async fn a_recipe_out_of_bounds_is_invalid(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 1).seal(store).await;
    for bad in ["x".repeat(RECIPE_BYTES_MAX + 1), "a\0b".to_owned()] {
        let new = with_recipe(run_over(file, "ada"), &bad);
        assert_eq!(kind(store.create_batch(new).await), Kind::Invalid);
    }
    let whole = "ß".repeat(RECIPE_BYTES_MAX / 2);
    let id = store.create_batch(with_recipe(run_over(file, "ada"), &whole)).await.unwrap().id;
    assert_eq!(store.recipes(&scope("ada"), id).await.unwrap(), [recipe(0, &whole)]);
}

/// All lanes of a batch go where the batch says, and to the upstream of that target, whatever the file says;
/// another batch over the same file goes elsewhere.
pub async fn a_batch_says_where_its_lanes_go(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 2).lines("model-b", 1).seal(store).await;
    let shop = UpstreamId::new("shop").unwrap();
    let upstreams = LaneUpstreams {
        by_target: [(target("search"), shop.clone()), (target(MODEL), UpstreamId::default())]
            .into(),
        others: UpstreamId::new("other").unwrap(),
    };
    let new = NewBatch { target: Some(target("search")), upstreams, ..run_over(file, "ada") };
    let id = store.create_batch(new).await.unwrap().id;
    let lanes = store.lanes(&scope("ada"), id).await.unwrap();
    let shown: Vec<_> = lanes.iter().map(|lane| (lane.target.as_str(), &lane.upstream)).collect();
    assert_eq!(shown, [("search", &shop), ("search", &shop)]);
    let plain = store.create_batch(run_over(file, "ada")).await.unwrap().id;
    let lanes = store.lanes(&scope("ada"), plain).await.unwrap();
    let shown: Vec<_> = lanes.iter().map(|lane| lane.target.as_str()).collect();
    assert_eq!(shown, [MODEL, "model-b"]);

    let worker = Worker::on(store);
    assert_eq!(worker.claim_only(id, &[MODEL], 10).await, None);
    check(store, id).await;
}

/// A recipe outlives a reprocess, and goes with its batch.
pub async fn a_recipe_goes_with_its_batch(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").lines(MODEL, 1);
    sheet.write(store).await;
    let new = with_recipe(run_over(sheet.id, "ada"), TEXT);
    let id = new.id;
    store.create_batch_with_file(new.clone(), FileVerdict::Valid).await.unwrap();
    let worker = Worker::on(store);
    worker.drain(id, &[MODEL]).await;
    worker.close(id).await;
    let again = Reprocess::first(id, Select::Statuses(vec![Status::Completed]));
    assert_eq!(store.reprocess(&Scope::All, again).await.unwrap().generation, 1);
    let definition = store.job_definition(id).await.unwrap();
    assert_eq!(definition.recipe_of(1), Some(&recipe(0, TEXT)));
    assert_eq!(store.create_batch(new).await.unwrap().generation, 1, "a repeat finds it");
    worker.drain(id, &[MODEL]).await;
    worker.close(id).await;
    store.drop_file(&scope("ada"), sheet.id).await.unwrap();
    assert_eq!(store.job_definition(id).await.unwrap().head, None, "its file is gone");
    store.delete_batch(&scope("ada"), id).await.unwrap();
    assert_eq!(kind(store.recipes(&Scope::All, id).await), Kind::Missing);
    assert_eq!(kind(store.job_definition(id).await), Kind::Missing);
    for step in 0.. {
        assert!(step < 100, "reaping ends, one row at a time");
        if !store.reap(1).await.unwrap().more {
            break;
        }
    }
    // With the same id it is a new batch: nothing of the first is left to contradict it.
    let file = Sheet::of("ada").lines(MODEL, 1).seal(store).await;
    let fresh = store.create_batch(NewBatch { id, ..run_over(file, "ada") }).await.unwrap();
    assert_eq!(fresh.recipe_hash, None);
    assert!(store.recipes(&Scope::All, id).await.unwrap().is_empty());
    check(store, id).await;
}

/// A batch over an invalid file fails with its recipe, so that it can be read why.
pub async fn a_failed_batch_keeps_its_recipe(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 1).seal_invalid(store, vec![line_error(1)]).await;
    let new = with_recipe(run_over(file.id, "ada"), TEXT);
    let batch = store.create_batch(new).await.unwrap();
    assert_eq!(batch.state, State::Failed);
    assert_eq!(store.recipes(&scope("ada"), batch.id).await.unwrap(), [recipe(0, TEXT)]);
    check(store, batch.id).await;
}
