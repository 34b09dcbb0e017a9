//! What a batch makes of its rows.

use rusqlite::params;
use windrow_domain::{BatchId, FileId};
use windrow_store::recipe::{BatchRecipe, JobDefinition};
use windrow_store::{Error, Kind, Result, Scope};

use crate::tx::{Tx, sql};
use crate::{batch, rows};

pub(super) fn list(tx: &Tx<'_>, scope: &Scope, id: BatchId) -> Result<Vec<BatchRecipe>> {
    batch::find(tx, scope, id)?;
    of(tx, id)
}

pub(super) fn of(tx: &Tx<'_>, id: BatchId) -> Result<Vec<BatchRecipe>> {
    tx.all(sql!("inspect/recipes"), [id.0.into_bytes()], |row| {
        Ok(BatchRecipe { generation: row.get(0)?, text: row.get(1)? })
    })
}

pub(super) fn definition(tx: &Tx<'_>, id: BatchId) -> Result<JobDefinition> {
    let recipes = of(tx, id)?;
    let found = tx.one(sql!("inspect/job_definition"), params![id.0.into_bytes()], |row| {
        let (file, owner) = (FileId(rows::uuid(row, 0)?), rows::name(row, 1)?);
        Ok(JobDefinition { file, owner, head: row.get(2)?, recipes })
    })?;
    found.ok_or_else(|| Error::of(Kind::Missing))
}
