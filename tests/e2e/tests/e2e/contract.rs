//! The server does what its description says, whatever it is asked: schemathesis makes the requests.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use windrow_e2e::Server;
use windrow_e2e::client::Client;
use windrow_e2e::server::ADMIN_KEY;
use windrow_fault::Backend;

/// Longest that all requests may take, on a machine that is busy.
const WITHIN: Duration = Duration::from_secs(240);
/// Requests of each kind for every call.
const EXAMPLES: &str = "20";
/// So that a failure is found again.
const SEED: &str = "7";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_keeps_to_its_description() {
    if !Client::Python.is_there() {
        return;
    }
    // With an object, so that messages are set up; nobody listens there.
    let tables = "requests_per_sec_max = 100000\nrequests_burst = 100000\npending_dashboard = true\n\
                  [objects.wallet]\nurl = \"http://127.0.0.1:9/wallet\"\n";
    let server = Server::with_tables(Backend::Sqlite, tables, &[]).await;
    // Once it has seen the list of keys, it would revoke its own.
    hold_against(&server, &["--exclude-operation-id", "revokeKey"]).await;
    let alone = ["--include-operation-id", "revokeKey", "--phases", "coverage,fuzzing"];
    hold_against(&server, &alone).await;
    server.check();
}

async fn hold_against(server: &Server, more: &[&str]) {
    let python = std::env::var_os("WINDROW_E2E_PYTHON").map(PathBuf::from);
    let program = python.expect("it is there").with_file_name("schemathesis");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
    let mut command = Command::new(program);
    command
        .env("SCHEMATHESIS_HOOKS", folder.join("refusals.py"))
        // No compiled files beside the sources.
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg("--config-file")
        .arg(folder.join("schemathesis.toml"))
        .args(["run", &format!("http://{}/openapi.json", server.address())])
        .args(["--header", &format!("Authorization: Bearer {ADMIN_KEY}")])
        .args(["--checks", "all", "--max-examples", EXAMPLES, "--seed", SEED])
        .args(["--request-timeout", "30", "--no-color"])
        .args(more)
        // It leaves files where it runs.
        .current_dir(server.fixture().folder())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(WITHIN, command.output()).await;
    let output = output.expect("it ends in time").expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
}
