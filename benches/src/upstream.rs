//! An upstream that answers at once, in a process of its own, so that it costs every client alike.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use tokio::io::AsyncReadExt;
use windrow_testkit::upstream::{Reply, Script};

use crate::load;

/// A running upstream; ends when dropped.
pub(crate) struct Upstream {
    child: Child,
    pub(crate) url: String,
}

impl Upstream {
    pub(crate) fn start() -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("upstream")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("could not start the upstream")?;
        let mut url = String::new();
        let out = child.stdout.take().context("the upstream's output is a pipe")?;
        BufReader::new(out).read_line(&mut url)?;
        Ok(Self { child, url: url.trim().to_owned() })
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        // Its end of standard input; killing is for one that is stuck.
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The upstream's process.
pub(crate) async fn serve() -> Result<()> {
    let answer = Reply::json(200, load::response());
    let upstream = windrow_testkit::upstream::Upstream::start(Script::always(answer)).await?;
    upstream.forget();
    println!("{}", upstream.url());
    // Ends with whoever started it, also when that one was killed.
    let mut rest = Vec::new();
    tokio::io::stdin().read_to_end(&mut rest).await?;
    Ok(())
}
