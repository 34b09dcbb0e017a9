//! A connection that is made when it is needed, shared, and made anew when it failed; and the failures
//! that all brokers share.

use std::future::Future;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::timeout;
use windrow_domain::attempt::{Class, Failure};

/// A connection, or the place of one.
#[derive(Debug)]
pub(crate) struct SharedConnection<T> {
    current: Mutex<Current<T>>,
}

#[derive(Debug)]
struct Current<T> {
    /// Rises with every connection, so that a failure on an old one does not end a new one.
    number: u64,
    connection: Option<T>,
}

impl<T: Clone> SharedConnection<T> {
    pub(crate) fn new() -> Self {
        Self { current: Mutex::new(Current { number: 0, connection: None }) }
    }

    /// The connection there is, or a new one; with the number to fail it by. Others wait meanwhile,
    /// so that there is one attempt at a time.
    pub(crate) async fn get<F>(&self, connect: impl FnOnce() -> F) -> Result<(u64, T), Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let mut current = self.current.lock().await;
        if let Some(connection) = &current.connection {
            return Ok((current.number, connection.clone()));
        }
        let connection = connect().await?;
        current.number += 1;
        current.connection = Some(connection.clone());
        Ok((current.number, connection))
    }

    /// Gives a connection up, if it is still the one with that number.
    pub(crate) async fn fail(&self, number: u64) -> Option<T> {
        let mut current = self.current.lock().await;
        if current.number == number { current.connection.take() } else { None }
    }
}

/// A message that is larger than it may be.
pub(crate) fn too_large(bytes: usize, bytes_max: u64) -> Option<Failure> {
    let message = format!("The message has {bytes} bytes, and at most {bytes_max} are sent.");
    let large = bytes as u64 > bytes_max;
    large.then(|| Failure::permanent("payload_too_large", message))
}

/// A broker that did not answer in time. It is unavailable: it says nothing about the message.
pub(crate) fn timed_out(message: String) -> Failure {
    Failure::new(Class::Timeout, "timeout", message).with_unavailable(true)
}

/// Waits for it so long, else says what did not happen.
pub(crate) async fn within<T>(
    ms: u64,
    what: &str,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match timeout(Duration::from_millis(ms), work).await {
        Ok(result) => result,
        Err(_) => Err(timed_out(format!("{what} within {ms} ms."))),
    }
}
