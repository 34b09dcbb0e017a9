//! Layers: code that runs around every call of a store, such as a timer, a gate, a counter or a
//! fault.
//!
//! Holds throughout: every verb is passed on as it came, and its reply comes back as it was.

use std::sync::Arc;

use crate::verbs::names::*;
use crate::{Kind, each_stage};

/// What happens around every call.
#[async_trait]
pub trait StoreLayer: Send + Sync + 'static {
    /// What is known of a call between its beginning and its end.
    type Span: Send;

    /// A call of this verb is about to be passed on, and is when this returns.
    async fn begin(&self, verb: &'static str) -> Self::Span;

    /// It has ended; with what went wrong, if it did.
    fn end(&self, call: Self::Span, verb: &'static str, failed: Option<Kind>);

    /// Passes a call on. A layer that overrides it may lose the call, or its reply.
    async fn pass<T: Send>(
        &self,
        verb: &'static str,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let begun = self.begin(verb).await;
        let reply = call.await;
        self.end(begun, verb, failure(&reply));
        reply
    }

    /// A turn, which says more than other calls do.
    async fn turn(&self, inner: &dyn Store, turn: Turn) -> Result<Reply> {
        self.pass("turn", inner.turn(turn)).await
    }
}

/// What went wrong with a call.
pub fn failure<T>(reply: &Result<T>) -> Option<Kind> {
    reply.as_ref().err().map(|error| error.kind)
}

/// A store whose calls go through a layer.
pub struct LayeredStore<A> {
    inner: Arc<dyn Store>,
    layer: A,
}

impl<A: StoreLayer> LayeredStore<A> {
    /// Passes on to `inner`.
    pub fn new(inner: Arc<dyn Store>, layer: A) -> Self {
        Self { inner, layer }
    }

    /// The layer that every call passes through.
    pub fn layer(&self) -> &A {
        &self.layer
    }
}

macro_rules! delegate {
    // A layer may say more about turns than about other calls.
    ([] Record { $($row:tt)* }) => {
        #[async_trait]
        impl<A: StoreLayer> Record for LayeredStore<A> {
            async fn turn(&self, turn: Turn) -> Result<Reply> {
                self.layer.turn(&*self.inner, turn).await
            }
        }
    };
    ([] $stage:ident {
        $($verb:ident($($name:ident: $kind:ty),*) -> $reply:ty { $($named:tt)* })*
    }) => {
        #[async_trait]
        impl<A: StoreLayer> $stage for LayeredStore<A> {
            $(async fn $verb(&self, $($name: $kind),*) -> Result<$reply> {
                self.layer.pass(stringify!($verb), self.inner.$verb($($name),*)).await
            })*
        }
    };
}

each_stage! { [delegate] [] }

impl<A: StoreLayer> MessageStore for LayeredStore<A> {}

impl<A: StoreLayer> Store for LayeredStore<A> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn gauges(&self) -> Gauges {
        self.inner.gauges()
    }
}
