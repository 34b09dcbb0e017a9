//! Closing a batch: what its outputs hold, and that nothing else is left.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};
use windrow_domain::attempt::Status;
use windrow_domain::{Ending, InstanceId, State};
use windrow_engine::finalise::{Closing, Error};
use windrow_engine::storage::Storage;
use windrow_store::record::Finished;
use windrow_store::{Batches as _, Scope, Sweep as _};

use crate::support::{World, answered, closed, lines, names, numbers};

/// Every outcome, by the line's number.
fn mixed(line: Finished) -> Finished {
    let status = match line.line % 5 {
        0 => Status::Failed,
        1 => Status::NotFound,
        2 => Status::Skipped,
        _ => return answered(line),
    };
    let (error_code, error) = (Some("broken".to_owned()), Some("It broke.".to_owned()));
    let http_status = line.http_status.filter(|_| status == Status::NotFound).map(|_| 404);
    Finished { status, error_code, error, http_status, ..line }
}

#[tokio::test]
async fn every_line_is_in_one_output_once_and_in_input_order() {
    let (world, storage) = (World::new().await, Storage::memory());
    let id = world.batch(2500, None).await;
    assert_eq!(world.finish(u32::MAX, mixed).await, [id]);
    let (batch, summary) = closed(world.finaliser(&storage).close(id).await.unwrap());
    assert_eq!((batch.state, summary.ending), (State::Completed, Ending::Completed));
    assert_eq!(summary.counts, batch.counts);

    let (output, errors) = (summary.output.unwrap(), summary.errors.unwrap());
    let (good, bad) = (lines(&storage, &output.name).await, lines(&storage, &errors.name).await);
    assert_eq!((output.lines, errors.lines), (good.len() as u64, bad.len() as u64));
    assert_eq!(output.lines, batch.counts.completed);
    assert_eq!(storage.size(&output.name).await.unwrap(), output.bytes);
    assert_eq!(storage.size(&errors.name).await.unwrap(), errors.bytes);
    assert!(numbers(&good).is_sorted() && numbers(&bad).is_sorted());
    let mut all: Vec<_> = numbers(&good).into_iter().chain(numbers(&bad)).collect();
    all.sort_unstable();
    assert_eq!(all, (0..2500).collect::<Vec<_>>());
    let ids: HashSet<_> = good.iter().chain(&bad).map(|line| line["id"].to_string()).collect();
    assert_eq!(ids.len(), 2500);

    assert!(good.iter().all(|line| line["response"]["body"]["answer"].is_u64()));
    assert_eq!(summary.usage.unwrap().total_tokens, 3 * output.lines);
    assert!(summary.finished_at.is_some());
    let not_found: Vec<_> = bad.iter().filter(|line| !line["response"].is_null()).collect();
    assert_eq!(not_found.len() as u64, batch.counts.not_found);
    assert!(not_found.iter().all(|line| line["response"]["status_code"] == 404));
}

#[tokio::test]
async fn a_batch_without_a_good_line_has_no_output() {
    let (world, storage) = (World::new().await, Storage::memory());
    let id = world.batch(5, None).await;
    world.finish(u32::MAX, |line| Finished { status: Status::Failed, ..line }).await;
    let (batch, summary) = closed(world.finaliser(&storage).close(id).await.unwrap());
    assert_eq!((batch.state, summary.output), (State::Completed, None));
    assert_eq!(names(&storage).await, [summary.errors.unwrap().name]);
}

async fn stopped(ending: Ending, code: &str) {
    let (world, storage) = (World::new().await, Storage::memory());
    let id = world.batch(1300, Some(60)).await;
    world.finish(400, mixed).await;
    if ending == Ending::Cancelled {
        world.store.cancel_batch(&Scope::All, id).await.unwrap();
    } else {
        world.time.advance(Duration::from_secs(61));
        assert_eq!(world.store.expire_batches(10).await.unwrap(), [id]);
    }
    let (batch, summary) = closed(world.finaliser(&storage).close(id).await.unwrap());
    assert_eq!(summary.ending, ending);
    let (good, bad) = (
        lines(&storage, &summary.output.unwrap().name).await,
        lines(&storage, &summary.errors.unwrap().name).await,
    );
    let never: Vec<_> = bad.iter().filter(|line| line["error"]["code"] == code).collect();
    assert_eq!(never.len(), 900);
    assert!(never.iter().all(|line| line["response"] == Value::Null));
    assert!(numbers(&bad).is_sorted(), "results and lines that never ran are merged");
    let mut all: Vec<_> = numbers(&good).into_iter().chain(numbers(&bad)).collect();
    all.sort_unstable();
    assert_eq!(all, (0..1300).collect::<Vec<_>>());
    assert!(batch.state.is_closed());
}

#[tokio::test]
async fn lines_of_a_cancelled_batch_that_never_ran_say_so() {
    stopped(Ending::Cancelled, "batch_cancelled").await;
}

#[tokio::test]
async fn lines_of_an_expired_batch_that_never_ran_say_so() {
    stopped(Ending::Expired, "batch_expired").await;
}

#[tokio::test]
async fn an_id_that_was_not_recorded_is_found_in_the_file() {
    let (world, storage) = (World::new().await, Storage::memory());
    let id = world.batch(40, None).await;
    let forgetful = |line: Finished| match line.line % 3 {
        0 => Finished { custom_id: None, ..line },
        _ => line,
    };
    world.finish(u32::MAX, forgetful).await;
    let (_, summary) = closed(world.finaliser(&storage).close(id).await.unwrap());
    let output = lines(&storage, &summary.output.unwrap().name).await;
    assert_eq!(numbers(&output), (0..40).collect::<Vec<_>>());
}

#[tokio::test]
async fn without_a_storage_a_batch_is_closed_by_its_counts() {
    let world = World::new().await;
    let id = world.settled(3).await;
    let finaliser = world.finaliser_with(None, InstanceId::new());
    let (batch, summary) = closed(finaliser.close(id).await.unwrap());
    assert_eq!((batch.state, summary.output, summary.errors), (State::Completed, None, None));
    assert_eq!(finaliser.remove_orphans(10).await.unwrap(), 0);
}

#[tokio::test]
async fn a_storage_in_trouble_leaves_the_batch_to_be_closed_later() {
    let (world, folder) = (World::new().await, tempfile::tempdir().unwrap());
    let storage = Storage::local(folder.path()).unwrap();
    let id = world.settled(10).await;
    // Where the folder of all outputs should be, something else is in the way.
    let in_the_way = folder.path().join("batches");
    std::fs::write(&in_the_way, "").unwrap();
    let finaliser = world.finaliser(&storage);
    let error = finaliser.close(id).await.unwrap_err();
    assert!(matches!(error, Error::Storage { .. }), "{error:?}");
    assert_eq!(error.to_string(), format!("could not write the outputs of batch {id}"));
    assert_eq!(world.state(id).await.state, State::Finalizing(Ending::Completed));

    std::fs::remove_file(&in_the_way).unwrap();
    // The one that failed let go: another one may take it as soon as time moves at all.
    world.time.advance(Duration::from_millis(1));
    let (_, summary) = closed(world.finaliser(&storage).close(id).await.unwrap());
    assert_eq!(names(&storage).await, [summary.output.unwrap().name]);
    assert!(matches!(finaliser.close(id).await.unwrap(), Closing::Left));
}

#[tokio::test]
async fn what_earlier_finalisations_left_is_removed_and_later_ones_stay() {
    let (world, folder) = (World::new().await, tempfile::tempdir().unwrap());
    let storage = Storage::local(folder.path()).unwrap();
    let id = world.settled(10).await;
    let of_batch = folder.path().join(format!("batches/{id}"));
    std::fs::create_dir_all(&of_batch).unwrap();
    let others =
        ["0-output.jsonl", "0-errors.jsonl#1", "999999-output.jsonl", "999999-errors.jsonl#1"];
    others.iter().for_each(|name| std::fs::write(of_batch.join(name), "x").unwrap());
    let (_, summary) = closed(world.finaliser(&storage).close(id).await.unwrap());
    let mut left: Vec<_> = std::fs::read_dir(&of_batch)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    let own = summary.output.unwrap().name;
    let own = own.rsplit_once('/').unwrap().1;
    assert_eq!(left, [own, "999999-errors.jsonl#1", "999999-output.jsonl"]);
}

#[tokio::test]
async fn outputs_of_batches_that_are_gone_are_removed_step_by_step() {
    let (world, storage) = (World::new().await, Storage::memory());
    let finaliser = world.finaliser(&storage);
    let mut ids = Vec::new();
    for _ in 0..4 {
        let id = world.settled(2).await;
        closed(finaliser.close(id).await.unwrap());
        ids.push(id);
    }
    let mut other = storage.create("elsewhere/notes.txt").unwrap();
    other.write(b"not ours").await.unwrap();
    other.finish().await.unwrap();
    for gone in [ids[0], ids[2]] {
        world.store.delete_batch(&Scope::All, gone).await.unwrap();
    }
    let mut steps = Vec::new();
    for _ in 0..5 {
        steps.push(finaliser.remove_orphans(1).await.unwrap());
    }
    assert_eq!(steps.iter().sum::<u64>(), 2, "{steps:?}");
    let left = names(&storage).await;
    assert_eq!(left.len(), 2);
    assert!(left[0].contains(&ids[1].to_string()) && left[1].contains(&ids[3].to_string()));
    assert_eq!(storage.size("elsewhere/notes.txt").await.unwrap(), 8);
}

#[tokio::test]
async fn the_summary_is_json_that_others_can_read() {
    let (world, storage) = (World::new().await, Storage::memory());
    let id = world.settled(2).await;
    let (batch, summary) = closed(world.finaliser(&storage).close(id).await.unwrap());
    let value: Value = serde_json::from_str(&batch.summary.unwrap()).unwrap();
    assert_eq!(value["ending"], "completed");
    assert_eq!(value["counts"]["completed"], 2);
    assert_eq!(value["errors"], json!(null));
    let output = summary.output.unwrap();
    let expected = json!({"name": output.name, "bytes": output.bytes, "lines": 2});
    assert_eq!(value["output"], expected);
    assert_eq!(value["usage"]["total_tokens"], 6);
}
