//! What every command is given: the configuration, and how to open the database and the storage.

use std::sync::Arc;

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use windrow::engine::storage::Storage;
use windrow::store::{Scope, Store};

use crate::clock;
use crate::config::Config;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::text;

/// What a command needs to know before its own arguments.
pub(crate) struct Context {
    pub(crate) config: Config,
    /// Print JSON instead of text (`--json`).
    pub(crate) json: bool,
}

impl Context {
    /// The owner's own files, batches and messages; those of other owners are not found.
    pub(crate) fn scope(&self) -> Scope {
        Scope::Owner(self.config.owner.clone())
    }

    /// When an input file that is loaded now expires; none for one that is kept.
    pub(crate) fn input_expires_at(&self) -> Option<Timestamp> {
        let secs = i64::try_from(self.config.bounds.input_file_secs?).ok()?;
        clock::now().checked_add(SignedDuration::from_secs(secs)).ok()
    }

    /// Opens the database; an SQLite file is created when it does not exist.
    pub(crate) async fn open(&self) -> anyhow::Result<Arc<dyn Store>> {
        self.config.database.open().await
    }

    /// Opens a database that must exist already.
    pub(crate) async fn open_existing(&self) -> anyhow::Result<Arc<dyn Store>> {
        self.config.database.open_existing().await
    }

    /// Opens the storage that the outputs of batches are written to.
    pub(crate) fn open_storage(&self) -> anyhow::Result<Storage> {
        Storage::open(&self.config.storage).with_context(|| {
            let remedy = "name a writable folder with --data, or set `storage` in the \
                          configuration.";
            CliError::new(Exit::Outputs, "could not open the storage for outputs", remedy)
        })
    }

    /// Prints the result of a command: the value with `--json`, otherwise the text.
    pub(crate) fn print_result(
        &self,
        value: &impl Serialize,
        to_text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        let output = if self.json { serde_json::to_string(value)? } else { to_text() };
        Ok(text::print_line(&output)?)
    }
}
