//! A server is killed while it runs a call: the same command takes its partitions over at once, and the call
//! goes on.

use std::fs;
use std::time::Duration;

use windrow::domain::call::CallState;
use windrow::domain::{Owner, RequestId};
use windrow::engine::clock::Clock;
use windrow::store::call::{CallKey, NewCall};
use windrow_fault::program::windrow;
use windrow_fault::{Backend, Fixture, Program, wait};
use windrow_testkit::upstream::{Reply, Script, Upstream};

use crate::{WITHIN, on_both_stores};

/// Two seconds are promised on a machine that is not busy; silence would take ten minutes here.
const AT_ONCE: Duration = Duration::from_secs(6);

on_both_stores!(a_call_of_a_killed_server_goes_on_at_once);

async fn a_call_of_a_killed_server_goes_on_at_once(backend: Backend) {
    let fixture = Fixture::on(backend).await;
    let reply = Reply::json(200, r#"{"reply":{"balance":5}}"#);
    let upstream = Upstream::start(Script::sequence([Reply::Hang, reply])).await.unwrap();
    let config = format!(
        "[messages]\npartitions = 8\nheartbeat_ms = 60000\nstale_ms = 600000\n\
         [objects.wallet]\nurl = \"{}/wallet\"\ntotal_ms_max = 600000\n",
        upstream.url()
    );
    fs::write(fixture.folder().join("windrow.toml"), config).unwrap();
    let start = || {
        let mut command = windrow(&fixture, "serve");
        command
            .args(["--listen", "127.0.0.1:0"])
            .env("WINDROW_ADMIN_KEY", "wr_admin_key_of_a_test");
        Program::start(&fixture, "serve", command)
    };
    let first = start();
    let owned = || async {
        let partitions = fixture.store().partitions().await.ok()?;
        let all = partitions.len() == 8 && partitions.iter().all(|one| one.is_owner_live);
        all.then_some(())
    };
    wait::until(WITHIN, owned, || async { "the partitions have no owner".to_owned() }).await;
    let (owner, request_id) = (Owner::new("local").unwrap(), RequestId::new("r1").unwrap());
    let key = CallKey { owner, request_id };
    let call = NewCall::new(key.clone(), "wallet", "7", "deposit").args("{}");
    fixture.store().submit_call(call).await.unwrap();
    tokio::time::timeout(WITHIN, upstream.saw(1)).await.expect("the handler is called");
    first.kill();
    let clock = Clock::machine();
    let again = start();
    let called = tokio::time::timeout(AT_ONCE, upstream.saw(2)).await;
    assert!(called.is_ok(), "not called again within {AT_ONCE:?}: {}", again.said());
    println!("{backend:?}: called again after {} ms", clock.elapsed().as_millis());
    let answered = || async {
        let call = fixture.store().call(&key).await.ok()?;
        (call.state == CallState::Completed).then_some(())
    };
    wait::until(WITHIN, answered, || async { "the call has no answer".to_owned() }).await;
}
