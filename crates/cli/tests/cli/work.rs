//! `windrow work`: a worker beside the commands that steer it.

use windrow_testkit::upstream::{Reply, Script, Upstream};

use crate::kit::{Desk, ended, ids, ids_of, signal};

#[tokio::test]
async fn a_worker_runs_what_was_taken_in_and_stops_when_asked() {
    let (desk, upstream) = (Desk::new(), Upstream::start(Script::echo()).await.unwrap());
    desk.requests("a.jsonl", 60);
    let said = desk.windrow(&["ingest", "a.jsonl", "--batch", "--json"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    let batch = said.json()["batch"]["id"].as_str().unwrap().to_owned();

    let worker = desk.spawn(&["work", "--to", &upstream.url(), "--log-format", "json"]);
    let watched = desk.windrow(&["watch", &batch]).await;
    assert_eq!(watched.code, 0, "{watched:?}");
    assert!(watched.out.contains("is completed: 60 completed."), "{watched:?}");
    signal(&worker, "TERM").await;
    let said = ended(worker).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("Stopped: finished 60 lines, closed 1 batches"), "{said:?}");
    for line in said.err.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    let said = desk.windrow(&["results", &batch]).await;
    assert_eq!((said.code, ids(&said.out)), (0, ids_of(1..=60)));
}

#[tokio::test]
async fn targets_go_where_the_configuration_says() {
    let (desk, ours) = (Desk::new(), Upstream::start(Script::echo()).await.unwrap());
    let other = Upstream::start(Script::always(Reply::json(200, "{}"))).await.unwrap();
    let line = |id: &str, model: &str| {
        format!(
            "{{\"custom_id\":\"{id}\",\"method\":\"POST\",\"url\":\"/x\",\"body\":{{\"model\":\"{model}\"}}}}\n"
        )
    };
    desk.write("a.jsonl", &[line("1", "m"), line("2", "big"), line("3", "m")].concat());
    let config = format!(
        "[upstreams.default]\nbase_url = \"{}\"\n[upstreams.other]\nbase_url = \"{}\"\n\
         targets = [\"big\"]\nheaders = {{ x-team = \"hay\" }}\n",
        ours.url(),
        other.url()
    );
    desk.write("windrow.toml", &config);
    let said = desk.windrow(&["ingest", "a.jsonl", "--batch", "--json"]).await;
    let batch = said.json()["batch"]["id"].as_str().unwrap().to_owned();
    let worker = desk.spawn(&["work"]);
    let watched = desk.windrow(&["watch", &batch]).await;
    assert_eq!(watched.code, 0, "{watched:?}");
    signal(&worker, "INT").await;
    assert_eq!(ended(worker).await.code, 0);
    assert_eq!((ours.counts().requests, other.counts().requests), (2, 1));
    assert_eq!(other.seen()[0].header("x-team"), "hay");
}

#[tokio::test]
async fn a_worker_without_an_upstream_says_what_to_do() {
    let desk = Desk::new();
    let said = desk.windrow(&["work"]).await;
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("What to do: give one with --to"), "{said:?}");
}
