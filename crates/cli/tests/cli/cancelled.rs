//! What is said of a cancelled batch: its lines by their own names, and its results once its file is gone.

use std::time::Duration;

use windrow_testkit::upstream::{Reply, Script, Upstream};

use crate::support::{Workdir, ended, ids};

/// A batch of sixty slow lines that was cancelled soon, and how many of them completed.
async fn cancelled() -> (Workdir, u64) {
    let slow = Script::always(Reply::Echo.after(Duration::from_millis(100)));
    let (workdir, upstream) = (Workdir::new(), Upstream::start(slow).await.unwrap());
    workdir.requests("a.jsonl", 60);
    let args = ["run", "a.jsonl", "--to", &upstream.url(), "--data", "d", "--concurrency", "1"];
    let child = workdir.spawn(&args);
    upstream.saw(2).await;
    assert_eq!(workdir.windrow(&["cancel", "last", "--data", "d"]).await.code, 0);
    assert_eq!(ended(child).await.code, 5);
    let completed = upstream.counts().requests;
    assert!(completed < 60, "{completed}");
    (workdir, completed)
}

#[tokio::test]
async fn results_are_read_when_the_input_file_and_the_stored_outputs_are_gone() {
    let (workdir, completed) = cancelled().await;
    let status = workdir.windrow(&["status", "last", "--data", "d", "--json"]).await.json();
    let file = status["batch"]["file"].as_str().unwrap();
    let output = workdir.windrow(&["files", "delete", file, "--data", "d"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    let outputs = workdir.path("d").join("outputs");
    assert!(
        outputs.exists(),
        "{:?}",
        std::fs::read_dir(workdir.path("d")).unwrap().collect::<Vec<_>>()
    );
    std::fs::remove_dir_all(outputs).unwrap();

    let output = workdir.windrow(&["results", "last", "--data", "d"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(ids(&output.out).len() as u64, completed);
    let output = workdir.windrow(&["results", "last", "--errors", "--data", "d"]).await;
    assert_eq!((output.code, output.out.as_str()), (0, ""), "{output:?}");
    // What never ran cannot run without its file.
    let output = workdir.windrow(&["retry", "last", "--data", "d"]).await;
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains("the input file of batch"), "{output:?}");
    assert!(!output.err.contains("exists already"), "{output:?}");
}

#[tokio::test]
async fn a_line_that_never_ran_is_found_by_its_custom_id() {
    let (workdir, _) = cancelled().await;
    let output = workdir.windrow(&["attempts", "last", "r-60", "--data", "d"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.out.contains("Line 60 has not been attempted."), "{output:?}");
    assert!(output.out.contains("cancelled: the line does not run"), "{output:?}");
    let output = workdir.windrow(&["attempts", "last", "r-61", "--data", "d"]).await;
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains("has no line with the custom_id \"r-61\""), "{output:?}");
}
