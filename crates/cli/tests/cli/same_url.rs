//! `--to URL` and a table of the configuration with the same URL.

use windrow_testkit::upstream::{Reply, Script, Upstream};

use crate::support::{Workdir, ended, signal};

fn table(name: &str, url: &str, team: &str) -> String {
    format!(
        "[upstreams.{name}]\nbase_url = \"{url}\"\ntargets = [\"{name}\"]\n\
         headers = {{ x-team = \"{team}\" }}\n"
    )
}

#[tokio::test]
async fn a_run_takes_the_settings_and_the_key_of_the_table_with_its_url() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(Script::echo()).await.unwrap());
    let (url, other) = (upstream.url(), "http://127.0.0.1:1");
    workdir.requests("a.jsonl", 2);
    workdir.write("windrow.toml", &(table("big", &url, "hay") + &table("small", other, "straw")));
    // The same URL, written in another way.
    let to = format!("{}/", url.trim_end_matches('/')).replace("http://", "HTTP://");
    let output = workdir.windrow(&["run", "a.jsonl", "--to", &to]).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert!(upstream.seen().iter().all(|seen| seen.header("x-team") == "hay"));

    // Two tables for one URL may have different keys, and neither is guessed.
    workdir.write("windrow.toml", &(table("big", &url, "hay") + &table("small", &url, "straw")));
    workdir.requests("b.jsonl", 2);
    let output = workdir.windrow(&["run", "b.jsonl", "--to", &url]).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.err.contains("[upstreams.big] and [upstreams.small] are for"), "{output:?}");
    assert_eq!(upstream.seen().iter().filter(|seen| seen.header("x-team").is_empty()).count(), 2);
}

#[tokio::test]
async fn a_run_is_handed_over_to_a_worker_with_the_same_url_by_the_command_that_status_prints() {
    let slow = Script::always(Reply::Echo.after(std::time::Duration::from_millis(50)));
    let (workdir, upstream) = (Workdir::new(), Upstream::start(slow).await.unwrap());
    workdir.requests("a.jsonl", 40);
    workdir.write("windrow.toml", &table("m", &upstream.url(), "hay"));
    let run = workdir.spawn(&["run", "a.jsonl", "--to", &upstream.url(), "--concurrency", "1"]);
    upstream.saw(3).await;
    signal(&run, "INT").await;
    assert_eq!(ended(run).await.code, 10);
    let sent = upstream.counts().requests;

    let worker = workdir.spawn(&["work"]);
    let served = async || {
        let status = workdir.windrow(&["status", "last"]).await;
        status.out.contains("has the same URL").then_some(status)
    };
    let mut status = None;
    for _ in 0..500 {
        status = served().await;
        if status.is_some() {
            break;
        }
    }
    let status = status.expect("a worker with that table is there");
    assert!(status.out.contains("served by nobody"), "{status:?}");
    assert_eq!(upstream.counts().requests, sent, "the worker leaves it alone until it is asked");
    let wrong = workdir.windrow(&["batches", "move", "last", "--upstream", "n"]).await;
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(wrong.err.contains("there is no upstream \"n\""), "{wrong:?}");
    let moved = workdir.shell(&status.command_after("to let it run it:"), &[]).await;
    assert_eq!(moved.code, 0, "{moved:?}");
    assert!(moved.out.contains("goes to m now; served by windrow work on "), "{moved:?}");
    let watched = workdir.windrow(&["watch", "last"]).await;
    assert_eq!(watched.code, 0, "{watched:?}");
    assert_eq!(upstream.counts().requests, 40);
    signal(&worker, "TERM").await;
    assert_eq!(ended(worker).await.code, 0);
}
