//! Files and deleted batches: listed, shown, deleted, and refused while something needs them.

use windrow_testkit::upstream::{Reply, Script, Upstream};

use crate::support::{Workdir, ended, ids, ids_of, signal};

/// A finished run of that many lines: its batch and its input file.
async fn finished(workdir: &Workdir, upstream: &Upstream, lines: u64) -> (String, String) {
    workdir.requests("a.jsonl", lines);
    let output = workdir.windrow(&["run", "a.jsonl", "--to", &upstream.url()]).await;
    assert_eq!(output.code, 0, "{output:?}");
    let batch = workdir.windrow(&["status", "last", "--json"]).await.json()["batch"].clone();
    (batch["id"].as_str().unwrap().to_owned(), batch["file"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn files_are_listed_and_shown_with_their_size_lines_owner_state_and_expiry() {
    let workdir = Workdir::new();
    workdir.requests("a.jsonl", 5);
    workdir.write("bad.jsonl", "oops\n");
    for (file, code) in [("a.jsonl", 0), ("bad.jsonl", 3)] {
        assert_eq!(workdir.windrow(&["ingest", file]).await.code, code);
    }
    let output = workdir.windrow(&["files"]).await;
    let lines: Vec<_> = output.out.lines().collect();
    assert_eq!((output.code, lines.len()), (0, 3), "{output:?}");
    for title in ["file", "state", "lines", "size", "owner", "created", "expires", "name"] {
        assert!(lines[0].contains(title), "{title}: {output:?}");
    }
    assert!(
        lines[1].contains("bad.jsonl") && lines[1].contains("invalid"),
        "newest first: {lines:?}"
    );
    assert!(lines[2].contains("a.jsonl") && lines[2].contains("local"), "{lines:?}");
    assert!(lines[2].contains("never") && lines[2].contains("bytes"), "{lines:?}");

    let page = workdir.windrow(&["files", "list", "--limit", "1", "--json"]).await.json();
    let next = page["next"].as_str().unwrap();
    let page = workdir.windrow(&["files", "--after", next, "--json"]).await.json();
    assert_eq!(
        (&page["rows"][0]["name"], page["rows"].as_array().unwrap().len()),
        (&"a.jsonl".into(), 1)
    );
    let id = page["rows"][0]["id"].as_str().unwrap();
    let output = workdir.windrow(&["files", "show", id]).await;
    for words in [id, "a.jsonl", "lines     5", "target    m: 5 lines", "expires   never"] {
        assert!(output.out.contains(words), "{words}: {output:?}");
    }
    // The API's spelling of an id is taken, too.
    let spelled = format!("file-{}", id.replace('-', ""));
    assert_eq!(
        workdir.windrow(&["files", "show", &spelled, "--json"]).await.json()["file"]["id"],
        id
    );
    let bad = workdir.windrow(&["files", "--json"]).await.json()["rows"][0]["id"].clone();
    let output = workdir.windrow(&["files", "show", bad.as_str().unwrap()]).await;
    assert!(output.out.contains("invalid   line 1: "), "{output:?}");

    // Another owner sees none of them, and cannot delete them.
    assert!(workdir.windrow(&["files", "--owner", "ann"]).await.out.contains("No files."));
    let all = workdir.windrow(&["files", "--owner", "ann", "--all", "--json"]).await.json();
    assert_eq!(all["rows"].as_array().unwrap().len(), 2);
    for verb in ["show", "delete"] {
        let output = workdir.windrow(&["files", verb, id, "--owner", "ann"]).await;
        assert_eq!(output.code, 1, "{output:?}");
        assert!(output.err.contains(&format!("there is no file {id}")), "{output:?}");
    }
    assert_eq!(workdir.windrow(&["files", "show", "nonsense"]).await.code, 2);
}

#[tokio::test]
async fn a_file_is_deleted_once_no_batch_needs_it() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(Script::echo()).await.unwrap());
    workdir.requests("a.jsonl", 3);
    let made = workdir.windrow(&["ingest", "a.jsonl", "--batch", "--json"]).await.json();
    let (file, batch) =
        (made["file"]["id"].as_str().unwrap(), made["batch"]["id"].as_str().unwrap());
    let output = workdir.windrow(&["files", "delete", file]).await;
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains(&format!("is needed by batch {batch}")), "{output:?}");
    assert!(output.err.contains(&format!("windrow cancel {batch}")), "{output:?}");

    let worker = workdir.spawn(&["work", "--to", &upstream.url()]);
    assert_eq!(workdir.windrow(&["watch", batch]).await.code, 0);
    signal(&worker, "TERM").await;
    assert_eq!(ended(worker).await.code, 0);
    let output = workdir.windrow(&["files", "delete", file]).await;
    assert_eq!(
        (output.code, output.out.trim()),
        (0, &*format!("Deleted file {file}.")),
        "{output:?}"
    );
    let output = workdir.windrow(&["files", "delete", file]).await;
    assert_eq!(output.code, 1, "gone is gone: {output:?}");
    assert_eq!(ids(&workdir.windrow(&["results", batch]).await.out), ids_of(1..=3));
}

#[tokio::test]
async fn a_closed_batch_is_deleted_and_the_same_run_asks_before_it_pays_again() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(Script::echo()).await.unwrap());
    let (batch, file) = finished(&workdir, &upstream, 4).await;
    let output = workdir.windrow(&["delete", &batch]).await;
    assert_eq!(output.code, 2, "nobody can be asked: {output:?}");
    assert!(output.err.contains("4 results") && output.err.contains("--yes"), "{output:?}");
    let output = workdir.windrow(&["delete", &batch, "--yes", "--owner", "ann"]).await;
    assert_eq!(output.code, 1, "{output:?}");
    assert_eq!(workdir.windrow(&["status", &batch]).await.code, 0, "it is still there");

    let output = workdir.windrow(&["delete", "last", "--yes"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.out.contains(&format!("Deleted batch {batch} and 4 results.")), "{output:?}");
    assert!(output.out.contains(&format!("windrow files delete {file}")), "{output:?}");
    for command in [&["status"][..], &["results"], &["delete", "--yes"]] {
        let output = workdir.windrow(&[command, &[&batch]].concat()).await;
        assert_eq!(output.code, 1, "{command:?}: {output:?}");
    }
    assert!(workdir.windrow(&["batches"]).await.out.contains("No batches."));
    assert_eq!(
        workdir.windrow(&["files", "delete", &file, "--json"]).await.json()["deleted"],
        true
    );
    assert_eq!(workdir.windrow(&["doctor"]).await.code, 0);
    // The same command does not pay again unless it is asked to.
    let run = ["run", "a.jsonl", "--to", &upstream.url()];
    let output = workdir.windrow(&run).await;
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains("4 of 4 lines completed"), "{output:?}");
    assert!(output.err.contains(&format!("batch {batch} was removed")), "{output:?}");
    assert_eq!(upstream.counts().requests, 4, "nothing was sent");
    let fresh = output.command_after("to send every line again: ");
    assert_eq!(workdir.shell(&fresh, &[]).await.code, 0, "{fresh}");
    assert_eq!(upstream.counts().requests, 8, "what was deleted is sent again");
    // Other content under the same name is another run.
    std::fs::remove_file(workdir.path("a.results.jsonl")).unwrap();
    assert_eq!(workdir.windrow(&["delete", "last", "--yes"]).await.code, 0);
    workdir.requests("a.jsonl", 2);
    assert_eq!(workdir.windrow(&run).await.code, 0);
}

#[tokio::test]
async fn a_batch_that_runs_is_not_deleted_until_it_was_cancelled_and_closed() {
    let script = Script::always(Reply::Echo.after(std::time::Duration::from_millis(50)));
    let (workdir, upstream) = (Workdir::new(), Upstream::start(script).await.unwrap());
    workdir.requests("a.jsonl", 400);
    let made = workdir.windrow(&["ingest", "a.jsonl", "--batch", "--json"]).await.json();
    let batch = made["batch"]["id"].as_str().unwrap();
    let worker = workdir.spawn(&["work", "--to", &upstream.url(), "--concurrency", "2"]);
    upstream.saw(10).await;
    for state in ["in_progress", "paused"] {
        let output = workdir.windrow(&["delete", batch, "--yes"]).await;
        assert_eq!(output.code, 1, "{output:?}");
        assert!(output.err.contains(&format!("is {state}; only a closed batch")), "{output:?}");
        assert!(output.err.contains(&format!("windrow cancel {batch}")), "{output:?}");
        assert_eq!(workdir.windrow(&["pause", batch]).await.code, 0);
    }
    assert_eq!(workdir.windrow(&["cancel", batch]).await.code, 0);
    assert_eq!(workdir.windrow(&["watch", batch]).await.code, 5);
    let output = workdir.windrow(&["delete", batch, "--yes"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    signal(&worker, "TERM").await;
    assert_eq!(ended(worker).await.code, 0);
}
