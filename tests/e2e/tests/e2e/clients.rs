//! What the official clients say of the server.

use windrow::domain::{BatchId, FileId, Owner, UpstreamId};
use windrow::engine::ingest::{Options as IngestOptions, ingest};
use windrow::store::batch::NewBatch;
use windrow::store::ingest::NewFile;
use windrow_e2e::Server;
use windrow_e2e::client::Client;

/// Makes a test of each: who calls, which program, on which server.
macro_rules! programs {
    ($($name:ident: $client:ident, $program:literal, $server:expr;)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            if Client::$client.is_there() {
                let server = $server.await;
                Client::$client.run(&server, $program, &[]).await;
                server.check();
            }
        })*
    };
}

programs! {
    python_uploads_lists_reads_and_deletes_files: Python, "files.py", Server::start();
    python_runs_batches_to_their_outputs: Python, "batches.py", Server::start();
    python_of_the_readme_works_as_it_stands: Python, "readme.py", Server::start();
    python_is_told_what_is_wrong_with_a_file: Python, "failed.py", Server::start();
    python_is_told_which_models_there_are:
        Python, "models.py", Server::for_model("known", "/v1/chat/completions");
    python_cancels_a_batch: Python, "cancel.py", Server::start();
    python_sees_only_its_own: Python, "access.py", Server::start();
    python_is_told_that_a_file_is_too_large:
        Python, "large.py", Server::with(&["upload_bytes_max=1000"]);
    node_uploads_lists_reads_and_deletes_files: Node, "files.mjs", Server::start();
    node_runs_batches_to_their_outputs: Node, "batches.mjs", Server::start();
    python_runs_batches_where_others_work: Python, "batches.py", Server::apart();
    python_cancels_a_batch_where_others_work: Python, "cancel.py", Server::apart();
    node_runs_batches_where_others_work: Node, "batches.mjs", Server::apart();
}

/// The shortest window that the API takes is a minute: this batch is made past it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_reads_what_an_expired_batch_has() {
    if !Client::Python.is_there() {
        return;
    }
    let server = Server::start().await;
    let batch = short_lived(&server, 40).await.to_string();
    Client::Python.run(&server, "expired.py", &[("WINDROW_BATCH", &batch)]).await;
    server.check();
}

/// A batch that ends within two seconds, of whose lines only the first five are answered by then.
async fn short_lived(server: &Server, lines: u64) -> BatchId {
    let gate = |n| if n < 5 { "" } else { r#","gate":"expire""# };
    let line = |n| {
        let body = format!(r#"{{"model":"m","n":{n}{}}}"#, gate(n));
        format!(r#"{{"custom_id":"r-{n}","method":"POST","url":"/v1/x","body":{body}}}"#) + "\n"
    };
    let text: String = (0..lines).map(line).collect();
    let owner = Owner::new("ann").unwrap();
    let file = NewFile {
        id: FileId::new(),
        owner: owner.clone(),
        name: "in.jsonl".to_owned(),
        purpose: "batch".to_owned(),
        expires_at: None,
    };
    let store = server.fixture().store();
    let taken = ingest(store, text.as_bytes(), file, IngestOptions::default()).await.unwrap();
    let id = BatchId::new();
    let new = NewBatch::over(taken.file.id, owner, "/v1/x");
    let upstreams = UpstreamId::unknown().into();
    let batch = NewBatch { id, upstreams, window_secs: Some(2), ..new };
    store.create_batch(batch).await.unwrap();
    id
}
