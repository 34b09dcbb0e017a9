//! Listening: what other instances tell this one.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use windrow_store::wake::Wake;

use crate::signal::Stop;
use windrow_store::error::chain;

use super::actor::Core;
use super::shared::Told;

/// The wait before listening again.
const AGAIN: Duration = Duration::from_secs(1);
/// How often the id is looked at: one that joined again listens under its new id.
const LOOK: Duration = Duration::from_secs(5);

/// Listens until it is stopped.
pub(super) async fn run(core: Arc<Core>, stop: &Stop) {
    while !stop.is_given() {
        tokio::select! {
            () = listen(&core) => {}
            () = stop.given() => return,
        }
        // Something may have been missed meanwhile.
        core.shared.poke_all();
    }
}

async fn listen(core: &Core) {
    let instance = core.shared.instance();
    let mut wakes = match core.store.listen(instance).await {
        Ok(wakes) => wakes,
        Err(error) => {
            tracing::debug!(error = %chain(&error), "nobody can tell this runner anything");
            return core.clock.sleep(AGAIN).await;
        }
    };
    loop {
        tokio::select! {
            wake = wakes.next() => match wake {
                Some(Wake::Work(any)) if any.is_empty() => core.shared.poke_all(),
                Some(Wake::Work(partitions)) => core.shared.poke(partitions),
                Some(Wake::Answered(key)) => core.shared.tell(&key, &Told::Look),
                None => return core.clock.sleep(AGAIN).await,
            },
            () = core.clock.sleep(LOOK) => {
                if core.shared.instance() != instance {
                    return;
                }
            }
        }
    }
}
