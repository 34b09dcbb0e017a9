//! The audit log of a batch: which key did what with it, from which address.

use windrow_domain::{AuditEntryId, BatchId};
use windrow_store::audit_log::NewAuditEntry;

use crate::app::App;
use crate::auth::Caller;

/// An action on a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Create,
    Cancel,
    Pause,
    Resume,
    Continue,
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
            Action::Continue => "continue",
            Action::Reprocess => "reprocess",
            Action::Kickoff => "kickoff",
            Action::Export => "export",
        }
    }
}

/// Adds an entry to the audit log of a batch. The action has happened: a failure here is only
/// logged.
pub(crate) async fn note(app: &App, caller: &Caller, batch: BatchId, action: Action) {
    let entry = NewAuditEntry {
        id: AuditEntryId::new(),
        actor: format!("{} ({})", caller.owner, caller.key),
        address: caller.source_address(),
        action: action.as_str().to_owned(),
    };
    if let Err(error) = app.store.add_audit_entry(&caller.scope(), batch, entry).await {
        tracing::warn!(batch.id = %batch, error = %windrow_store::error::chain(&error), "could not write the audit log");
    }
}
