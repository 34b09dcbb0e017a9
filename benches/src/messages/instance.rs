//! An instance that answers with what it was asked, in this process or in one of its own.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use bytes::Bytes;
use windrow_domain::{CrashPolicy, RequestId};
use windrow_engine::messages::{Context, Effects, HandlerError, Object, Options, Runner, Running};
use windrow_store::MessageStore;
use windrow_store::call::{CallKey, NewCall};
use windrow_store_postgres::PostgresStore;

use crate::load::owner;

/// Answers with its arguments, and keeps them as its state.
struct Echo;

#[async_trait]
impl Object for Echo {
    const TYPE: &'static str = "echo";

    async fn call(&self, _: Context, _: &str, args: Bytes) -> Result<Effects, HandlerError> {
        Ok(Effects::reply(args.clone()).put(args))
    }
}

pub(super) async fn start(store: Arc<dyn MessageStore>, options: Options) -> Result<Running> {
    let runner = Runner::builder(store, "bench").options(options).object(Echo);
    runner.start().await.context("starting an instance")
}

/// The n-th question.
pub(super) fn question(n: u64) -> NewCall {
    let request_id = format!("{}-{n}", std::process::id());
    NewCall {
        key: CallKey {
            owner: owner(),
            request_id: RequestId::new(request_id).expect("a short name"),
        },
        object_type: "echo".to_owned(),
        object_id: (n % 100).to_string(),
        method: "say".to_owned(),
        args: Bytes::from_static(b"{\"text\":\"hello\"}"),
        policy: CrashPolicy::Retry,
        caller_object: None,
        caller_client: None,
        expires_at: None,
        waiter: None,
    }
}

/// Runs one in this process until standard input ends.
pub(crate) async fn serve(database: &str, heartbeat_ms: u64) -> Result<()> {
    let options = windrow_store_postgres::Options::new(database);
    let store: Arc<dyn MessageStore> = Arc::new(PostgresStore::connect(options).await?);
    let stale_ms = 3 * heartbeat_ms;
    let runner = start(
        store,
        Options::default()
            .heartbeat_every(Duration::from_millis(heartbeat_ms))
            .stale_after(Duration::from_millis(stale_ms)),
    )
    .await?;
    tokio::task::spawn_blocking(|| std::io::stdin().lines().count()).await?;
    runner.stop().await;
    Ok(())
}

/// One in a process of its own; killed when dropped.
pub(crate) struct Instance(pub(crate) Child);

impl Instance {
    pub(crate) fn spawn(database: &str, heartbeat_ms: u64) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["instance", "--database", database]);
        command.args(["--heartbeat-ms", &heartbeat_ms.to_string()]).stdin(Stdio::piped());
        Ok(Self(command.spawn().context("could not start an instance")?))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}
