//! What every command is given: the configuration in force, and the way to the store.

use std::sync::Arc;

use serde::Serialize;
use windrow::prelude::*;

use crate::config::Config;
use crate::text;

/// The surroundings of a command.
pub(crate) struct Context {
    pub(crate) config: Config,
    /// Machines read what it says.
    pub(crate) json: bool,
}

impl Context {
    /// Only what belongs to the owner exists.
    pub(crate) fn scope(&self) -> Scope {
        Scope::Owner(self.config.owner.clone())
    }

    /// Opens the database, and makes it if it is not there.
    pub(crate) async fn open(&self) -> anyhow::Result<Arc<dyn Store>> {
        self.config.database.open().await
    }

    /// Opens a database that must be there already.
    pub(crate) async fn open_existing(&self) -> anyhow::Result<Arc<dyn Store>> {
        self.config.database.open_existing().await
    }

    /// Says something: a value for machines, or a text for people.
    pub(crate) fn print_result(
        &self,
        value: &impl Serialize,
        to_text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        match self.json {
            true => text::print_line(&serde_json::to_string(value)?)?,
            false => text::print_line(&to_text())?,
        }
        Ok(())
    }
}
