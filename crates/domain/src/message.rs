//! Messages: what may be in one, and which queue it waits in.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::ids::Stream;

/// Longest payload of a message, an event or a call, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;
/// Longest message id, in bytes.
pub const MESSAGE_ID_BYTES_MAX: usize = 256;
/// Longest kind of a message or an event, in bytes.
pub const KIND_BYTES_MAX: usize = 256;
/// Longest headers of a message or an event, names and values together, in bytes.
pub const HEADERS_BYTES_MAX: usize = 16 * 1024;
/// Most consumers that a message waits for.
pub const CONSUMERS_MAX: usize = 8;

/// Where a message waits. The same stream is another one in another queue: what cannot be published
/// does not hold up what can be handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Queue {
    /// Came from outside and is to be handled here.
    Inbox,
    /// Is to be published.
    Outbox,
    /// Is a call of an object's method, and is answered.
    Calls,
}

impl Queue {
    /// Every queue there is, in the order of [`Queue::code`].
    pub const ALL: [Queue; 3] = [Queue::Inbox, Queue::Outbox, Queue::Calls];

    /// The number that databases store.
    pub fn code(self) -> i16 {
        match self {
            Queue::Inbox => 0,
            Queue::Outbox => 1,
            Queue::Calls => 2,
        }
    }

    /// The queue with that number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|queue| queue.code() == code)
    }

    /// The word people read.
    pub fn as_str(self) -> &'static str {
        match self {
            Queue::Inbox => "inbox",
            Queue::Outbox => "outbox",
            Queue::Calls => "calls",
        }
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Queue {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Queue::ALL.into_iter().find(|queue| queue.as_str() == word);
        found.ok_or_else(|| format!("{word:?} is not a queue: inbox, outbox or calls"))
    }
}

/// What tells two messages with the same id apart: SHA-256 over queue, stream, kind and payload, with a
/// zero byte after the first three. Databases compute the same.
pub fn digest(queue: Queue, stream: &Stream, kind: &str, payload: &[u8]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(queue.as_str().as_bytes());
    hasher.update([0]);
    hasher.update(stream.as_str().as_bytes());
    hasher.update([0]);
    hasher.update(kind.as_bytes());
    hasher.update([0]);
    hasher.update(payload);
    hasher.finalize().into()
}
