//! What an upstream says about itself, and what `windrow run` makes of it: how many requests it bears, that it
//! is asked too much, that the key is wrong, that its certificate is not trusted.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use windrow_testkit::upstream::{ReceivedRequest, Reply, Script, Upstream};

use crate::support::{Workdir, ended, ids, ids_of};

#[expect(clippy::disallowed_methods, reason = "how long a command took is what the test is about")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// So many requests of each of so many models, one model after the other.
fn models(lines: u64, models: u64) -> String {
    let line = |number: u64| {
        format!(
            "{{\"custom_id\":\"r-{number}\",\"method\":\"POST\",\"url\":\"/v1/x\",\"body\":{{\"model\":\
             \"m-{}\",\"n\":{number}}}}}\n",
            number % models
        )
    };
    (1..=lines).map(line).collect()
}

fn model(body: &[u8]) -> String {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap();
    body["model"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn concurrency_bounds_the_upstream_over_all_its_models() {
    let script = Script::always(Reply::Echo.after(Duration::from_millis(50)));
    let (workdir, upstream) = (Workdir::new(), Upstream::start(script).await.unwrap());
    workdir.write("a.jsonl", &models(24, 6));
    let args = ["run", "a.jsonl", "--to", &upstream.url(), "--concurrency", "2"];
    let output = workdir.windrow(&args).await;
    assert_eq!(output.code, 0, "{output:?}");
    let counts = upstream.counts();
    assert_eq!((counts.requests, counts.in_flight_max), (24, 2));
    // Each model has had its first slot before any has its second.
    let first: Vec<_> = upstream.seen().iter().take(6).map(|seen| model(&seen.body)).collect();
    let mut different = first.clone();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), 6, "{first:?}");
}

/// How long two models of 20 ms take for their lines at `--concurrency 8`, by the upstream's clock, from their first
/// request to their last; beside a third model with so many lines that answers 500 to everything, at once.
async fn two_models_take(bad_lines: u64) -> Duration {
    const GOOD: u64 = 500;
    let script = Script::new(|seen| match model(&seen.body).as_str() {
        "m-0" => Reply::error(500, "broken"),
        _ => Reply::Echo.after(Duration::from_millis(20)),
    });
    let (workdir, upstream) = (Workdir::new(), Upstream::start(script).await.unwrap());
    let is_bad = |line: &&str| line.contains("\"m-0\"");
    let (good, bad) = (models(GOOD * 3 / 2, 3), models(bad_lines * 3, 3));
    let good = good.lines().filter(|line| !is_bad(line)).map(str::to_owned);
    let bad = bad.lines().filter(is_bad).map(|line| line.replace("r-", "b-"));
    let all: Vec<_> = bad.chain(good).collect();
    workdir.write("a.jsonl", &(all.join("\n") + "\n"));
    let args = ["run", "a.jsonl", "--to", &upstream.url(), "--concurrency", "8"];
    let child = workdir.spawn(&args);
    let mut good = Vec::new();
    for requests in GOOD.. {
        upstream.saw(requests).await;
        let of_good =
            |seen: &windrow_testkit::upstream::ReceivedRequest| model(&seen.body) != "m-0";
        good = upstream.seen().into_iter().filter(of_good).map(|seen| seen.at).collect();
        if good.len() as u64 >= GOOD {
            break;
        }
    }
    drop(child);
    let (first, last) = (good.iter().min().unwrap(), good.iter().max().unwrap());
    *last - *first
}

/// One model answers 500 to everything; the others lose less than a tenth of their speed. Both of a pair run at the same
/// time, and the middle of several pairs counts: whatever else the machine does, it does to both.
#[tokio::test]
async fn a_model_that_only_fails_costs_the_others_less_than_a_tenth() {
    let mut ratios = Vec::new();
    for _ in 0..5 {
        let (alone, beside) = tokio::join!(two_models_take(0), two_models_take(60));
        ratios.push(beside.as_secs_f64() / alone.as_secs_f64());
        println!("alone {alone:?}, beside a broken model {beside:?}");
    }
    ratios.sort_by(f64::total_cmp);
    println!("ratios {ratios:.2?}");
    assert!(ratios[2] < 1.1, "{ratios:?}");
}

/// The upstream says nothing but 429 for a while, far more often than a line has attempts.
#[tokio::test]
async fn an_upstream_that_throttles_uses_up_no_attempts() {
    let script = Script::echo().burst(1, 40, Reply::error(429, "slow down"));
    let (workdir, upstream) = (Workdir::new(), Upstream::start(script).await.unwrap());
    workdir.requests("a.jsonl", 3);
    let quick = "backoff_throttled_ms_max=50";
    let args = ["run", "a.jsonl", "--to", &upstream.url(), "--set", quick];
    let output = workdir.windrow(&args).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(ids(&workdir.read("a.results.jsonl")), ids_of(1..=3));
    assert_eq!(upstream.counts().requests, 43);
    // A 429 is a definitive answer: one that replays answers by key must not replay it.
    let mut keys = HashMap::<String, u64>::new();
    for seen in upstream.seen() {
        *keys.entry(seen.key().to_owned()).or_default() += 1;
    }
    assert!(keys.values().all(|times| *times == 1), "{keys:?}");

    let output = workdir.windrow(&["attempts", "last", "r-2"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.out.contains("Attempts of line 2:"), "{output:?}");
    assert!(output.out.contains("http_429"), "{output:?}");
    assert!(output.out.contains("completed"), "{output:?}");
    assert!(output.out.contains("do not count: the upstream throttled"), "{output:?}");
    let json = workdir.windrow(&["attempts", "last", "2", "--json"]).await.json();
    let attempts = json["attempts"].as_array().unwrap();
    assert!(attempts.len() > 5, "{json}");
    assert_eq!(json["uncounted"].as_u64(), Some(attempts.len() as u64));
    assert_eq!(json["result"]["status"], "completed");
    assert_eq!(json["result"]["attempts"].as_u64(), Some(attempts.len() as u64 + 1));
}

#[tokio::test]
async fn a_line_that_is_not_there_has_no_attempts() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(Script::echo()).await.unwrap());
    workdir.requests("a.jsonl", 3);
    assert_eq!(workdir.windrow(&["run", "a.jsonl", "--to", &upstream.url()]).await.code, 0);
    for (line, what) in [("4", "has no line 4"), ("r-9", "no line with the custom_id \"r-9\"")] {
        let output = workdir.windrow(&["attempts", "last", line]).await;
        assert_eq!(output.code, 1, "{output:?}");
        assert!(output.err.contains(what), "{output:?}");
    }
    let output = workdir.windrow(&["attempts", "last", "3"]).await;
    assert!(output.out.contains("completed") && output.out.contains("http_200"), "{output:?}");
}

/// A second of nothing but 429 is too long here: a person is asked, and no line fails.
#[tokio::test]
async fn an_upstream_that_throttles_for_too_long_has_its_batches_paused() {
    let calm = Arc::new(AtomicBool::new(false));
    let script = Script::new({
        let calm = calm.clone();
        move |_| match calm.load(Ordering::SeqCst) {
            true => Reply::Echo,
            false => Reply::error(429, "not today"),
        }
    });
    let (workdir, upstream) = (Workdir::new(), Upstream::start(script).await.unwrap());
    workdir.requests("a.jsonl", 3);
    let url = upstream.url();
    let keys = ["backoff_throttled_ms_max=20", "throttled_secs_max=1"];
    let args = ["run", "a.jsonl", "--to", &url, "--set", keys[0], "--set", keys[1]];
    let child = workdir.spawn(&args);
    let status = loop {
        let output = workdir.windrow(&["status", "last", "--json"]).await;
        if output.code == 0 && output.json()["batch"]["state"] == "paused" {
            break output.json();
        }
    };
    let why = status["batch"]["last_error"].as_str().unwrap();
    assert!(why.contains("nothing but 429 for 1 s"), "{why}");
    assert_eq!(status["batch"]["counts"]["failed"], 0);
    calm.store(true, Ordering::SeqCst);
    assert_eq!(workdir.windrow(&["resume", "last"]).await.code, 0);
    let output = ended(child).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(ids(&workdir.read("a.results.jsonl")), ids_of(1..=3));
}

#[tokio::test]
async fn a_wrong_key_stops_the_run_and_uses_up_nothing() {
    for status in [401, 403] {
        let script = Script::always(Reply::error(status, "no such key"));
        let (workdir, upstream) = (Workdir::new(), Upstream::start(script).await.unwrap());
        workdir.requests("a.jsonl", 200);
        let args = ["run", "a.jsonl", "--to", &upstream.url()];
        let output = workdir.windrow(&args).await;
        assert_eq!(output.code, 9, "{output:?}");
        assert!(output.err.contains(&format!("answered {status}: no such key")), "{output:?}");
        assert!(output.err.contains("--api-key-env"), "{output:?}");
        let sent = upstream.counts().requests;
        assert!(sent <= 8, "{sent}");
        let counts = workdir.windrow(&["status", "last", "--json"]).await.json();
        assert_eq!(counts["batch"]["counts"]["failed"], 0, "{counts}");
        let json = workdir.windrow(&["attempts", "last", "1", "--json"]).await.json();
        assert_eq!(json["attempts"].as_array().unwrap().len(), 0, "{json}");

        upstream.set(Script::echo());
        let output = workdir.windrow(&args).await;
        assert_eq!(output.code, 0, "{output:?}");
        assert_eq!(upstream.counts().requests, sent + 200);
    }
}

/// A run with another key must not make the lines of others be sent with it: a worker that has that key would
/// take them.
#[tokio::test]
async fn a_run_with_another_key_leaves_the_batches_of_others_alone() {
    let refuse = Script::always(Reply::error(401, "no such key"));
    let (workdir, upstream) = (Workdir::new(), Upstream::start(refuse).await.unwrap());
    workdir.requests("a.jsonl", 20);
    workdir.requests("b.jsonl", 5);
    let keys = [("K1", "sk-one"), ("K2", "sk-two")];
    let run = async |file: &str, key: &str| {
        let args = ["run", file, "--to", &upstream.url(), "--api-key-env", key];
        workdir.windrow_with(&args, &keys).await
    };
    assert_eq!(run("a.jsonl", "K1").await.code, 9, "it stays open");
    upstream.set(Script::echo());
    let sent = upstream.counts().requests;
    let refused = run("b.jsonl", "K2").await;
    assert_eq!(refused.code, 9, "{refused:?}");
    assert!(refused.err.contains("the database knows another key for"), "{refused:?}");
    assert_eq!(upstream.counts().requests, sent, "nothing was sent");
    // The key that the database knows goes on with its own.
    assert_eq!(run("a.jsonl", "K1").await.code, 0);
    let of_one = |seen: &ReceivedRequest| seen.header("authorization") == "Bearer sk-one";
    assert!(upstream.seen().iter().all(of_one));

    // Nothing of it is left to be sent: the person's word suffices.
    assert_eq!(run("b.jsonl", "K2").await.code, 0);
    let counts = upstream.counts().requests;
    assert_eq!(counts, sent + 25);

    // A key that was rotated in the middle of two runs is accepted by a command, which is printed whole.
    upstream.set(Script::always(Reply::error(401, "no such key")));
    workdir.requests("c.jsonl", 20);
    workdir.requests("d.jsonl", 21);
    assert_eq!((run("c.jsonl", "K2").await.code, run("d.jsonl", "K2").await.code), (9, 9));
    upstream.set(Script::echo());
    let refused = run("c.jsonl", "K1").await;
    let accept = refused.command_after("right for all of them: ");
    assert!(accept.starts_with("windrow upstreams accept http"), "{accept}");
    assert_eq!(workdir.shell(&accept, &keys).await.code, 0, "{accept}");
    assert_eq!((run("c.jsonl", "K1").await.code, run("d.jsonl", "K1").await.code), (0, 0));
}

/// A refusal among other answers is the line's own; so are a few 403 in a small file.
#[tokio::test]
async fn lines_that_are_refused_by_themselves_fail_as_before() {
    let refuse = |status: u16, first: u64| {
        Script::new(move |seen| match seen.number <= first {
            true => Reply::error(status, "not yours"),
            false => Reply::Echo,
        })
    };
    for (script, lines, failed) in
        [(refuse(401, 2), 20, 2), (refuse(403, 3), 3, 3), (refuse(403, 7), 20, 7)]
    {
        let (workdir, upstream) = (Workdir::new(), Upstream::start(script).await.unwrap());
        workdir.requests("a.jsonl", lines);
        let output = workdir.windrow(&["run", "a.jsonl", "--to", &upstream.url()]).await;
        assert_eq!(output.code, 5, "{output:?}");
        assert_eq!(ids(&workdir.read("a.errors.jsonl")).len(), failed, "{output:?}");
        assert_eq!(upstream.counts().requests, lines);
    }
}

#[tokio::test]
async fn an_upstream_without_tls_is_told_at_once() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(Script::echo()).await.unwrap());
    workdir.requests("a.jsonl", 3);
    let to = upstream.url().replace("http:", "https:");
    let output = workdir.windrow(&["run", "a.jsonl", "--to", &to]).await;
    assert_eq!(output.code, 9, "{output:?}");
    assert!(output.err.contains("does not speak TLS"), "{output:?}");
    assert!(output.err.contains("use http://"), "{output:?}");
    assert_eq!(upstream.counts().requests, 0);
}

/// A server of TLS answers what is no TLS with an alert.
#[tokio::test]
async fn an_upstream_that_speaks_tls_on_a_plain_url_is_told_at_once() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = format!("http://{}", listener.local_addr().unwrap());
    let mut server = tokio::task::JoinSet::new();
    server.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 5];
            let _ = stream.read_exact(&mut head).await;
            let _ = stream.write_all(&[0x15, 3, 3, 0, 2, 2, 50]).await;
        }
    });
    let workdir = Workdir::new();
    workdir.requests("a.jsonl", 3);
    let started = now();
    let output = workdir.windrow(&["run", "a.jsonl", "--to", &to]).await;
    assert_eq!(output.code, 9, "{output:?}");
    assert!(output.err.contains("speaks TLS on this port"), "{output:?}");
    assert!(output.err.contains("use https:// in --to"), "{output:?}");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[tokio::test]
async fn pace_time_and_retries_have_options() {
    let script = Script::new(|seen| match seen.number {
        1 | 2 => Reply::error(500, "no"),
        3 => Reply::Hang,
        _ => Reply::Echo,
    });
    let (workdir, upstream) = (Workdir::new(), Upstream::start(script).await.unwrap());
    workdir.requests("a.jsonl", 1);
    let url = upstream.url();
    let run = async |more: &[&str]| {
        let args = ["run", "a.jsonl", "--to", &url, "--set", "backoff_ms_min=1"];
        workdir.windrow(&[&args, more].concat()).await
    };
    let output = run(&["--retries", "1"]).await;
    assert_eq!((output.code, upstream.counts().requests), (5, 2), "{output:?}");
    let output = run(&["--fresh", "--retries", "0", "--timeout", "200ms"]).await;
    assert_eq!((output.code, upstream.counts().requests), (5, 3), "{output:?}");
    assert!(output.out.contains("within 200 ms"), "{output:?}");

    workdir.requests("b.jsonl", 10);
    let started = now();
    let output = workdir.windrow(&["run", "b.jsonl", "--to", &url, "--rate", "10"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert!(started.elapsed() >= Duration::from_millis(900), "{:?}", started.elapsed());

    let server = ["run", "b.jsonl", "--to", &url, "--set", "requests_per_sec_max=5"];
    let output = workdir.windrow(&server).await;
    assert_eq!(output.code, 9, "{output:?}");
    assert!(output.err.contains("has no effect in `windrow run`"), "{output:?}");
    assert!(output.err.contains("--rate N"), "{output:?}");
}

#[tokio::test]
async fn the_upstream_of_the_configuration_needs_no_to_and_another_is_told() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(Script::echo()).await.unwrap());
    workdir.requests("a.jsonl", 3);
    let output = workdir.windrow(&["run", "a.jsonl"]).await;
    assert_eq!(output.code, 2, "{output:?}");
    assert!(output.err.contains("--to URL"), "{output:?}");
    for table in ["default", "only"] {
        let url = upstream.url();
        let text = format!(
            "[upstreams.{table}]\nbase_url = \"{url}\"\nheaders = {{ x-team = \"hay\" }}\n"
        );
        workdir.write("windrow.toml", &text);
        let output = workdir.windrow(&["run", "a.jsonl", "--fresh"]).await;
        assert_eq!(output.code, 0, "{output:?}");
        assert_eq!(upstream.seen().last().unwrap().header("x-team"), "hay");
    }
    let text = format!("[upstreams.default]\nbase_url = \"{}\"\n", upstream.url());
    workdir.write("windrow.toml", &text);
    let other = upstream.url().replace("127.0.0.1", "localhost");
    let output = workdir.windrow(&["run", "a.jsonl", "--fresh", "--to", &other]).await;
    assert!(output.err.contains("[upstreams.default] is for http://127.0.0.1"), "{output:?}");
    assert!(output.err.contains("its settings are not used"), "{output:?}");
}
