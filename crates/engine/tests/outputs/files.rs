//! Outputs as files of their batch's owner: made with the closing, and gone with their bytes.

use windrow_domain::attempt::Status;
use windrow_domain::{FileId, InstanceId, OutputKind};
use windrow_engine::storage::Storage;
use windrow_store::batch::{Reprocess, Select};
use windrow_store::record::Finished;
use windrow_store::{Batches as _, Ingest as _, Inspect as _, Kind, Scope, Sweep as _};

use crate::support::{World, answered, closed, names};

/// Every third line fails.
fn some_failed(line: Finished) -> Finished {
    match line.line % 3 {
        0 => Finished { status: Status::Failed, ..line },
        _ => answered(line),
    }
}

#[tokio::test]
async fn outputs_become_files_with_the_closing() {
    let (world, storage) = (World::new().await, Storage::memory());
    let id = world.batch(30, None).await;
    world.finish(u32::MAX, some_failed).await;
    let (batch, summary) = closed(world.finaliser(&storage).close(id).await.unwrap());
    let kinds = [
        (OutputKind::Output, summary.output.unwrap()),
        (OutputKind::Errors, summary.errors.unwrap()),
    ];
    for (kind, written) in kinds {
        let id = FileId::of_output(batch.id, kind);
        let file = world.store.file(&Scope::Owner(batch.owner.clone()), id).await.unwrap();
        assert_eq!((file.lines, file.bytes), (written.lines, written.bytes));
        assert_eq!(file.name, format!("{}_{}.jsonl", batch.id, kind.as_str()));
        assert_eq!(file.output.unwrap().place, written.name);
    }
}

#[tokio::test]
async fn an_output_without_a_line_is_no_file() {
    let (world, storage) = (World::new().await, Storage::memory());
    let id = world.settled(3).await;
    closed(world.finaliser(&storage).close(id).await.unwrap());
    assert!(world.store.file(&Scope::All, FileId::output_of(id)).await.is_ok());
    let errors = world.store.file(&Scope::All, FileId::errors_of(id)).await;
    assert_eq!(errors.unwrap_err().kind, Kind::Missing);
}

#[tokio::test]
async fn a_dropped_output_loses_its_bytes_and_then_its_row() {
    let (world, storage) = (World::new().await, Storage::memory());
    let finaliser = world.finaliser(&storage);
    let (gone, stays) = (world.settled(3).await, world.settled(3).await);
    for id in [gone, stays] {
        closed(finaliser.close(id).await.unwrap());
    }
    assert_eq!(finaliser.remove_dropped(10).await.unwrap(), 0);
    world.store.drop_file(&Scope::All, FileId::output_of(gone)).await.unwrap();
    let without = world.finaliser_with(None, InstanceId::new());
    assert_eq!(without.remove_dropped(10).await.unwrap(), 0, "it has no storage to look in");
    assert_eq!(world.store.reap(100).await.unwrap().rows, 0);
    assert_eq!(finaliser.remove_dropped(10).await.unwrap(), 1);
    let left = names(&storage).await;
    assert!(left.len() == 1 && left[0].contains(&stays.to_string()), "{left:?}");
    assert_eq!(world.store.reap(100).await.unwrap().rows, 1);
    assert_eq!(finaliser.remove_dropped(10).await.unwrap(), 0);
}

#[tokio::test]
async fn a_batch_that_is_closed_again_keeps_only_its_new_outputs() {
    let (world, storage) = (World::new().await, Storage::memory());
    let id = world.batch(30, None).await;
    world.finish(u32::MAX, some_failed).await;
    closed(world.finaliser(&storage).close(id).await.unwrap());
    let select = Select::Statuses(vec![Status::Failed]);
    let step = Reprocess { lines_max: 100, ..Reprocess::first(id, select) };
    world.store.reprocess(&Scope::All, step).await.unwrap();
    assert_eq!(world.finish(u32::MAX, answered).await, [id]);
    let finaliser = world.finaliser(&storage);
    let (_, summary) = closed(finaliser.close(id).await.unwrap());
    let output = summary.output.unwrap();
    assert_eq!((output.lines, summary.errors), (30, None));
    assert_eq!(names(&storage).await, std::slice::from_ref(&output.name));
    let file = world.store.file(&Scope::All, FileId::output_of(id)).await.unwrap();
    assert_eq!(file.output.unwrap().place, output.name);
    // The errors of the first closing are gone already, which is how it should be found.
    assert_eq!(finaliser.remove_dropped(10).await.unwrap(), 1);
    assert_eq!(names(&storage).await, [output.name]);
}
