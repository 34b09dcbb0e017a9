//! Acts: who did what with a batch, from which address.

use windrow_domain::{AuditEntryId, BatchId};
use windrow_store::audit_log::NewAuditEntry;

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
    let entry = NewAuditEntry {
        id: AuditEntryId::new(),
        actor: format!("{} ({})", caller.owner, caller.key),
        address: caller.source_address(),
        action: action.as_str().to_owned(),
    };
    if let Err(error) = app.store.add_audit_entry(&caller.scope(), batch, entry).await {
        tracing::warn!(batch.id = %batch, error = %windrow_store::error::chain(&error), "act not kept");
    }
}
