//! Acts: who did what with a batch, from which address.

use windrow_domain::{ActId, BatchId};
use windrow_store::act::NewAct;

use crate::app::App;
use crate::auth::Caller;

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Create,
    Cancel,
    Pause,
    Resume,
    Reprocess,
    Kickoff,
    Export,
}

impl Action {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Action::Create => "create",
            Action::Cancel => "cancel",
            Action::Pause => "pause",
            Action::Resume => "resume",
            Action::Reprocess => "reprocess",
            Action::Kickoff => "kickoff",
            Action::Export => "export",
        }
    }
}

/// Keeps it with the batch. What was done is done: trouble with the note is only logged.
pub(crate) async fn note(app: &App, caller: &Caller, batch: BatchId, action: Action) {
    let act = NewAct {
        id: ActId::new(),
        actor: format!("{} ({})", caller.owner, caller.key),
        address: caller.source_address(),
        action: action.as_str().to_owned(),
    };
    if let Err(error) = app.store.add_act(&caller.scope(), batch, act).await {
        tracing::warn!(batch.id = %batch, error = %windrow_engine::causes(&error), "act not kept");
    }
}
