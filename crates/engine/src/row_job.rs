//! Rows of a table as jobs: how those of a batch are read, and what its recipe makes of them.
//!
//! Holds throughout: a row is asked for by the recipe of its generation; a recipe is compiled once for a
//! batch and generation, and read once from the store. A process keeps so many of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use windrow_domain::BatchId;
use windrow_domain::attempt::Status;
use windrow_recipe::{Cell, Columns, Recipe};
use windrow_store::recipe::JobDefinition;
use windrow_store::{Result, Store};

use crate::bounded_map::BoundedMap;
use crate::rows::{Head, RowError, read_row};

/// Most batches whose definitions a process keeps.
const JOBS_MAX: usize = 1024;
/// A batch pauses when so many rows finished and nothing was found for any of them.
pub const FRUITLESS_ROWS_MAX: u32 = 50;

/// How the rows of a batch are read, and what they are asked for.
#[derive(Debug)]
pub struct RowJob {
    /// How rows of its file are read.
    pub head: Head,
    /// What their cells are called.
    pub columns: Columns,
    /// What they are asked for.
    pub recipe: Recipe,
    found: AtomicU32,
    fruitless: AtomicU32,
}

impl RowJob {
    /// A job of rows that are read so.
    pub fn new(head: Head, recipe: Recipe) -> Self {
        let columns = head.columns();
        Self { head, columns, recipe, found: 0.into(), fruitless: 0.into() }
    }

    /// What a batch does in that generation; none when its lines are requests themselves. The error says
    /// what is wrong, for people.
    pub fn of(definition: &JobDefinition, generation: u32) -> Result<Option<Self>, String> {
        let Some(recipe) = definition.recipe_of(generation) else { return Ok(None) };
        let head = definition.head.as_deref().ok_or("its file has no columns")?;
        let head = Head::from_text(head)
            .map_err(|error| format!("this version cannot read the head of its file: {error}"))?;
        let recipe = Recipe::parse(&recipe.text)
            .map_err(|found| format!("this version cannot read its recipe: {found}"))?;
        Ok(Some(Self::new(head, recipe)))
    }

    /// The cells of a stored row.
    pub fn cells(&self, raw: &[u8]) -> Result<Vec<Cell>, RowError> {
        read_row(&self.head, raw)
    }

    /// Notes how a row ended. True when nothing was found for any of the first
    /// [`FRUITLESS_ROWS_MAX`], once.
    pub(crate) fn is_fruitless(&self, status: Status) -> bool {
        match status {
            Status::Completed => {
                self.found.fetch_add(1, Ordering::Relaxed);
                false
            }
            Status::Skipped => false,
            Status::Failed | Status::NotFound => {
                let ended = self.fruitless.fetch_add(1, Ordering::Relaxed) + 1;
                ended == FRUITLESS_ROWS_MAX && self.found.load(Ordering::Relaxed) == 0
            }
        }
    }
}

/// The definitions that this process knows.
#[derive(Clone, Debug)]
pub(crate) struct RowJobs(Arc<Mutex<BoundedMap<BatchId, Known>>>);

/// What is known of a batch, since that generation.
#[derive(Clone, Debug)]
struct Known {
    generation: u32,
    /// None when its lines are requests; the error says why its rows cannot be run.
    job: Result<Option<Arc<RowJob>>, String>,
}

impl Default for RowJobs {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(BoundedMap::new(JOBS_MAX))))
    }
}

impl RowJobs {
    /// What a batch does in that generation, as [`RowJob::of`]; read when it is not known.
    pub(crate) async fn get(
        &self,
        store: &dyn Store,
        batch: BatchId,
        generation: u32,
    ) -> Result<Result<Option<Arc<RowJob>>, String>> {
        if let Some(known) =
            self.0.lock().get(&batch).filter(|known| known.generation == generation)
        {
            return Ok(known.job.clone());
        }
        let definition = store.job_definition(batch).await?;
        let job = RowJob::of(&definition, generation).map(|job| job.map(Arc::new));
        let known = Known { generation, job: job.clone() };
        // At the bound all are forgotten: reading one again is cheap.
        self.0.lock().insert(batch, known, |_, _| false);
        Ok(job)
    }
}
