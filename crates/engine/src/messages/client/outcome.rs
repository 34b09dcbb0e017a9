//! What a client learns of a call.

use bytes::Bytes;
use windrow_domain::CallState;
use windrow_store::call::{Answer, Call};

/// The result of waiting for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// The handler replied.
    Reply(Bytes),
    /// The call failed with this error, which stays its answer.
    Failed(String),
    /// The call had an answer, which is not kept any more.
    Expired,
    /// The call has no answer yet: wait again.
    Pending,
}

impl CallOutcome {
    /// The outcome of a call as it is stored.
    pub fn of(call: &Call) -> Self {
        match call.state {
            CallState::Pending | CallState::Processing => CallOutcome::Pending,
            CallState::Completed => CallOutcome::Reply(call.reply.clone().unwrap_or_default()),
            CallState::Failed => CallOutcome::Failed(call.error.clone().unwrap_or_default()),
            CallState::Expired => CallOutcome::Expired,
        }
    }

    pub(super) fn answered(answer: Answer) -> Self {
        match answer {
            Answer::Reply(reply) => CallOutcome::Reply(reply),
            Answer::Error(error) => CallOutcome::Failed(error),
        }
    }
}
