//! What a batch makes of its rows.

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use windrow_domain::{BatchId, FileId};
use windrow_store::error::{Error, Kind, Result};
use windrow_store::recipe::{BatchRecipe, JobDefinition};
use windrow_store::{Inspect, Scope};

use crate::db::{Statement, sql};
use crate::{PostgresBackend, rows};

pub(super) async fn list(
    store: &PostgresBackend,
    scope: &Scope,
    batch: BatchId,
) -> Result<Vec<BatchRecipe>> {
    store.batch(scope, batch).await?;
    let params = [(&batch.0 as _, Type::UUID)];
    let found = store.db.rows(sql!("inspect/recipes"), &params).await?;
    Ok(found.iter().map(recipe).collect())
}

pub(super) async fn definition(store: &PostgresBackend, batch: BatchId) -> Result<JobDefinition> {
    let id = [(&batch.0 as _, Type::UUID)];
    let calls = [
        Statement { sql: sql!("inspect/job_definition"), params: &id },
        Statement { sql: sql!("inspect/recipes"), params: &id },
    ];
    let answers = store.db.snapshot(&calls).await?;
    let [found, recipes] = answers.as_slice() else {
        return Err(Error::of(Kind::Corrupt));
    };
    let row = found.first().ok_or_else(|| Error::of(Kind::Missing))?;
    Ok(JobDefinition {
        file: FileId(row.get("file_id")),
        owner: rows::owner(row)?,
        head: row.get("head"),
        recipes: recipes.iter().map(recipe).collect(),
    })
}

pub(super) fn recipe(row: &Row) -> BatchRecipe {
    BatchRecipe { generation: rows::small(row, "generation"), text: row.get("text") }
}
