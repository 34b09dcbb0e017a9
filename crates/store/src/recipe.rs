//! Recipes: what a batch makes of the rows of its file, kept by generation.
//!
//! Holds throughout: the store reads no recipe and no head, it keeps their exact texts; a recipe that was
//! set is never changed, a later generation has its own.
//! Absent on purpose: what the texts mean, which is `windrow-recipe`'s and the engine's.

use serde::Serialize;
use windrow_domain::{FileId, Owner};

/// Longest recipe.
pub const RECIPE_BYTES_MAX: usize = 256 << 10;

/// The recipe of a batch from a generation on, until a later one has another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BatchRecipe {
    /// The first generation that it is for.
    pub generation: u32,
    /// Its exact text.
    pub text: String,
}

/// What the engine needs to run the rows of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDefinition {
    /// The file that the batch runs over.
    pub file: FileId,
    /// The owner of the batch.
    pub owner: Owner,
    /// How the rows of its file are read ([`crate::ingest::File::head`]); none when nothing was said, or the
    /// file was dropped.
    pub head: Option<String>,
    /// Its recipes, oldest first; empty when its lines are requests themselves.
    pub recipes: Vec<BatchRecipe>,
}

impl JobDefinition {
    /// The recipe that results of a generation were made with.
    pub fn recipe_of(&self, generation: u32) -> Option<&BatchRecipe> {
        self.recipes.iter().rev().find(|recipe| recipe.generation <= generation)
    }
}

/// The hash by which two recipes are compared ([`crate::batch::Batch::recipe_hash`]).
pub fn recipe_hash(text: &str) -> [u8; 32] {
    *blake3::hash(text.as_bytes()).as_bytes()
}
