//! An S3 server of the tests' own, from PyPI: it keeps its buckets in memory and ends with its test.

use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use windrow_testkit::required;

/// Python with the pinned packages, made by `cargo xtask test`.
const PYTHON: &str = "WINDROW_E2E_PYTHON";

/// An S3 server that runs.
pub struct S3 {
    _server: Child,
    url: String,
}

impl S3 {
    /// Starts one; none where Python's packages are not there and may be missing.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start() -> Option<Self> {
        let python = required(&format!("${PYTHON}"), std::env::var_os(PYTHON))?;
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/s3.py");
        let mut server = Command::new(python)
            .args(["-B".as_ref(), program.as_os_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("Python runs");
        let mut lines = BufReader::new(server.stdout.take().expect("it is piped")).lines();
        let port = lines.next_line().await.expect("it can be read").expect("it says its port");
        Some(Self { _server: server, url: format!("http://127.0.0.1:{port}") })
    }

    /// Where it listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The settings, by the names of the environment, that reach it.
    pub fn settings(&self) -> [(&str, &str); 5] {
        [
            ("AWS_ENDPOINT_URL", &self.url),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", "tests"),
            ("AWS_SECRET_ACCESS_KEY", "tests"),
        ]
    }
}
