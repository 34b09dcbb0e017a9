//! `instance DATABASE HEARTBEAT_MS STALE_MS ATTEMPTS_MAX`: runs messages until it is killed, or asked
//! to end.

use std::error::Error;

use windrow_fault::instance::{Bounds, serve};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [database, heartbeat, stale, attempts] = words[..] else {
        return Err("instance DATABASE HEARTBEAT_MS STALE_MS ATTEMPTS_MAX".into());
    };
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
    serve(database, &Bounds::parse([heartbeat, stale, attempts])?).await
}
