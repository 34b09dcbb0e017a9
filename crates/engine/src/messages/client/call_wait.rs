//! What a call without an answer waits for, and since when.

use jiff::Timestamp;
use serde::Serialize;
use windrow_domain::message::Queue;
use windrow_domain::{CallState, RequestId};
use windrow_store::call::{Call, object_stream_of};
use windrow_store::message::MessagesQuery;
use windrow_store::{MessageStore, Result, Scope};

/// Why a call has no answer yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallWait {
    /// Since when it waits.
    pub since: Timestamp,
    /// Why the last attempt gave no answer; none before the first attempt.
    pub reason: Option<String>,
    /// Before this time it is not attempted again.
    pub not_before: Option<Timestamp>,
    /// The earlier call of the same object that it waits behind: the reason is that one's.
    pub behind: Option<RequestId>,
}

/// What a pending call waits for; none for one that runs or has its answer.
pub async fn call_wait(store: &dyn MessageStore, call: &Call) -> Result<Option<CallWait>> {
    if call.state != CallState::Pending {
        return Ok(None);
    }
    // The calls of an object are one stream, and only its first message is attempted.
    let query = MessagesQuery {
        queue: Some(Queue::Calls),
        stream: Some(object_stream_of(call)?),
        limit: 1,
        ..MessagesQuery::default()
    };
    let owner = Scope::Owner(call.key.owner.clone());
    let Some(head) = store.messages(&owner, query).await?.rows.pop() else { return Ok(None) };
    let is_head = head.id == call.key.request_id.as_str();
    Ok(Some(CallWait {
        since: call.created_at,
        reason: head.error,
        not_before: head.not_before,
        behind: if is_head { None } else { RequestId::new(head.id).ok() },
    }))
}
