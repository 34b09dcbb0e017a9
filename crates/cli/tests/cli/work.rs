//! `windrow work`: a worker beside the commands that steer it.

use windrow_testkit::upstream::{Reply, Script, Upstream};

use crate::support::{Workdir, ended, ids, ids_of, signal};

#[tokio::test]
async fn a_worker_runs_what_was_taken_in_and_stops_when_asked() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(Script::echo()).await.unwrap());
    workdir.requests("a.jsonl", 60);
    let output = workdir.windrow(&["ingest", "a.jsonl", "--batch", "--json"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    let batch = output.json()["batch"]["id"].as_str().unwrap().to_owned();

    let worker = workdir.spawn(&["work", "--to", &upstream.url(), "--log-format", "json"]);
    let watched = workdir.windrow(&["watch", &batch]).await;
    assert_eq!(watched.code, 0, "{watched:?}");
    assert!(watched.out.contains("is completed: 60 completed."), "{watched:?}");
    signal(&worker, "TERM").await;
    let output = ended(worker).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.out.contains("Stopped: finished 60 lines, closed 1 batch"), "{output:?}");
    for line in output.err.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    let output = workdir.windrow(&["results", &batch]).await;
    assert_eq!((output.code, ids(&output.out)), (0, ids_of(1..=60)));
}

#[tokio::test]
async fn targets_go_where_the_configuration_says() {
    let (workdir, ours) = (Workdir::new(), Upstream::start(Script::echo()).await.unwrap());
    let other = Upstream::start(Script::always(Reply::json(200, "{}"))).await.unwrap();
    let line = |id: &str, model: &str| {
        format!(
            "{{\"custom_id\":\"{id}\",\"method\":\"POST\",\"url\":\"/x\",\"body\":{{\"model\":\"{model}\"}}}}\n"
        )
    };
    workdir.write("a.jsonl", &[line("1", "m"), line("2", "big"), line("3", "m")].concat());
    let config = format!(
        "[upstreams.default]\nbase_url = \"{}\"\n[upstreams.other]\nbase_url = \"{}\"\n\
         targets = [\"big\"]\nheaders = {{ x-team = \"hay\" }}\n",
        ours.url(),
        other.url()
    );
    workdir.write("windrow.toml", &config);
    let output = workdir.windrow(&["ingest", "a.jsonl", "--batch", "--json"]).await;
    let batch = output.json()["batch"]["id"].as_str().unwrap().to_owned();
    let worker = workdir.spawn(&["work"]);
    let watched = workdir.windrow(&["watch", &batch]).await;
    assert_eq!(watched.code, 0, "{watched:?}");
    signal(&worker, "INT").await;
    assert_eq!(ended(worker).await.code, 0);
    assert_eq!((ours.counts().requests, other.counts().requests), (2, 1));
    assert_eq!(other.seen()[0].header("x-team"), "hay");
}

#[tokio::test]
async fn a_worker_without_an_upstream_says_what_to_do() {
    let workdir = Workdir::new();
    let output = workdir.windrow(&["work"]).await;
    assert_eq!(output.code, 2, "{output:?}");
    assert!(output.err.contains("What to do: give one with --to"), "{output:?}");
}

/// A batch goes where a person moved it, and the audit log and `status` say so.
#[tokio::test]
async fn a_moved_batch_runs_at_its_new_upstream() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(Script::echo()).await.unwrap());
    let gone = "http://127.0.0.1:1/v1/";
    workdir.requests("a.jsonl", 20);
    assert_eq!(workdir.windrow(&["ingest", "a.jsonl", "--batch"]).await.code, 0);
    let moved = workdir.windrow(&["batches", "move", "last", "--to", gone]).await;
    assert_eq!(moved.code, 0, "{moved:?}");
    assert!(
        moved.out.contains("goes to http://127.0.0.1:1/v1 now; served by nobody."),
        "{moved:?}"
    );
    let status = workdir.windrow(&["status", "last"]).await.out;
    assert!(status.contains("upstream  http://127.0.0.1:1/v1\nserved by nobody\n"), "{status}");

    let worker = workdir.spawn(&["work", "--to", &upstream.url()]);
    let to = ["batches", "move", "last", "--to", &upstream.url(), "--json"];
    let moved = workdir.windrow(&to).await.json();
    assert_eq!(moved["batch"]["upstreams"], serde_json::json!([upstream.url()]));
    let watched = workdir.windrow(&["watch", "last"]).await;
    assert_eq!(watched.code, 0, "{watched:?}");
    let listed = workdir.windrow(&["upstreams", "--json"]).await.json();
    assert_eq!(listed["rows"][0]["upstream"], upstream.url());
    assert_eq!((&listed["rows"][0]["has_key"], upstream.counts().requests), (&false.into(), 20));
    assert!(listed["rows"][0]["served_by"][0].as_str().unwrap().starts_with("windrow work on "));
    signal(&worker, "TERM").await;
    assert_eq!(ended(worker).await.code, 0);
    for wrong in [&["batches", "move", "last"][..], &["upstreams", "accept", "nobody"]] {
        let refused = workdir.windrow(wrong).await;
        assert_eq!(refused.code, 2, "{refused:?}");
    }
}
