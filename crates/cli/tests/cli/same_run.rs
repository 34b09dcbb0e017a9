//! The same input is not paid for twice, however the database, the input or the URL is written.

use windrow_testkit::upstream::{Script, Upstream};

use crate::support::Workdir;

async fn desk() -> (Workdir, Upstream, String) {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(Script::echo()).await.unwrap());
    workdir.requests("a.jsonl", 3);
    let slightly = upstream.url().replace("127.0.0.1", "localhost");
    (workdir, upstream, slightly)
}

#[tokio::test]
async fn a_removed_run_is_known_however_the_path_of_the_database_is_written() {
    let (workdir, upstream, _) = desk().await;
    let to = upstream.url();
    std::fs::create_dir(workdir.path("sub")).unwrap();
    let crooked = ["--database", "sub/../x.db", "--data", "d"];
    let run = [&["run", "a.jsonl", "--to", &to][..], &crooked].concat();
    assert_eq!(workdir.windrow(&run).await.code, 0);
    let output = workdir.windrow(&[&["delete", "last", "--yes"][..], &crooked].concat()).await;
    assert_eq!(output.code, 0, "{output:?}");
    let straight = workdir.path("x.db").display().to_string();
    let run = ["run", "a.jsonl", "--to", &to, "--database", &straight, "--data", "d"];
    let output = workdir.windrow(&run).await;
    assert_eq!((output.code, upstream.counts().requests), (1, 3), "{output:?}");
    assert!(output.err.contains("was removed since then"), "{output:?}");
}

#[tokio::test]
async fn a_removed_run_is_known_under_a_slightly_different_url() {
    let (workdir, upstream, slightly) = desk().await;
    assert_eq!(workdir.windrow(&["run", "a.jsonl", "--to", &upstream.url()]).await.code, 0);
    assert_eq!(workdir.windrow(&["delete", "last", "--yes"]).await.code, 0);
    let output = workdir.windrow(&["run", "a.jsonl", "--to", &slightly]).await;
    assert_eq!((output.code, upstream.counts().requests), (1, 3), "{output:?}");
    assert!(output.err.contains("was removed since then"), "{output:?}");
    let fresh = output.command_after("to send every line again: ");
    assert_eq!(workdir.shell(&fresh, &[]).await.code, 0, "{fresh}");
    assert_eq!(upstream.counts().requests, 6);
}

#[tokio::test]
async fn standard_input_under_a_slightly_different_url_is_not_paid_for_twice() {
    let (workdir, upstream, slightly) = desk().await;
    let run = |to: &str| format!("windrow run - --to {to} --out r.jsonl < a.jsonl");
    let output = workdir.shell(&run(&upstream.url()), &[]).await;
    assert_eq!(output.code, 0, "{output:?}");
    let output = workdir.shell(&run(&slightly), &[]).await;
    assert_eq!((output.code, upstream.counts().requests), (1, 3), "{output:?}");
    assert!(output.err.contains("would send every line again"), "{output:?}");
    // Other lines are another run.
    workdir.requests("a.jsonl", 2);
    let output = workdir.shell(&run(&slightly), &[]).await;
    assert_eq!((output.code, upstream.counts().requests), (0, 5), "{output:?}");
}
