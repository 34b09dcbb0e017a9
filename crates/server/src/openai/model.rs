//! The model of a batch: the one that every line names, when they all name the same.
//!
//! Holds throughout: it is read from the lanes, and no line is read; the lanes of a batch never change,
//! so its model is looked up once.

use parking_lot::Mutex;
use windrow_domain::BatchId;
use windrow_domain::ids::NO_MODEL;
use windrow_engine::bounded_map::BoundedMap;
use windrow_store::batch::Batch;
use windrow_store::{Kind, Scope, Store};

use crate::error::Result;

/// Batches whose model is cached; beyond that the cache starts anew.
const KNOWN_MAX: usize = 10_000;

/// The one model of each batch, as far as it was looked up.
#[derive(Debug)]
pub(crate) struct Models(Mutex<BoundedMap<BatchId, Option<String>>>);

impl Default for Models {
    fn default() -> Self {
        Self(Mutex::new(BoundedMap::new(KNOWN_MAX)))
    }
}

impl Models {
    /// The model of a batch that the caller may see; none for several, or when lines name none.
    pub(super) async fn of(&self, store: &dyn Store, batch: &Batch) -> Result<Option<String>> {
        if let Some(known) = self.0.lock().get(&batch.id) {
            return Ok(known.clone());
        }
        let lanes = match store.lanes(&Scope::Owner(batch.owner.clone()), batch.id).await {
            Ok(lanes) => lanes,
            // The batch was deleted in between.
            Err(error) if error.kind == Kind::Missing => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let targets: Vec<&str> = lanes.iter().map(|lane| lane.target.as_str()).collect();
        let model = only_model(&targets, &batch.endpoint);
        self.0.lock().insert(batch.id, model.clone(), |_, _| false);
        Ok(model)
    }
}

/// Lines without a model have a target that is not a model; in older files it is their URL.
fn only_model(targets: &[&str], endpoint: &str) -> Option<String> {
    let [target] = targets else { return None };
    if *target == NO_MODEL {
        return None;
    }
    let path = target.split('?').next().unwrap_or_default();
    (path != endpoint).then(|| (*target).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_given_when_it_is_the_only_one() {
        let (chat, is) = ("/v1/chat/completions", |name: &str| Some(name.to_owned()));
        assert_eq!(only_model(&["gpt-4o"], chat), is("gpt-4o"));
        assert_eq!(only_model(&["/models/llama"], chat), is("/models/llama"));
        assert_eq!(only_model(&["a", "b"], chat), None);
        assert_eq!(only_model(&[], chat), None);
        assert_eq!(only_model(&[chat], chat), None);
        assert_eq!(only_model(&["/v1/x?a=b"], "/v1/x"), None);
    }
}
