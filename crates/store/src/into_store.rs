//! How a store is handed to an engine, a runner or a client: by value or in an [`Arc`], whichever the
//! program has at hand.

use std::sync::Arc;

use crate::{MessageStore, Store};

/// What can be shared as an `Arc<S>`, where `S` is `dyn Store` or `dyn MessageStore`: any store by value
/// (those of this workspace are cheap to clone), an [`Arc`] of one, or an `Arc` of the trait object.
///
/// ```
/// # use std::sync::Arc;
/// # use windrow_store::{IntoStore, MessageStore, Store};
/// fn share(store: impl IntoStore<dyn MessageStore>) -> Arc<dyn MessageStore> {
///     store.into_store()
/// }
///
/// fn run(by_value: impl Store, in_arc: Arc<impl Store>, dynamic: Arc<dyn Store>) {
///     share(by_value);
///     share(in_arc);
///     share(dynamic);
/// }
/// ```
pub trait IntoStore<S: ?Sized> {
    /// The store, shared.
    fn into_store(self) -> Arc<S>;
}

impl<T: Store> IntoStore<dyn Store> for T {
    fn into_store(self) -> Arc<dyn Store> {
        Arc::new(self)
    }
}

impl<T: Store> IntoStore<dyn Store> for Arc<T> {
    fn into_store(self) -> Arc<dyn Store> {
        self
    }
}

impl IntoStore<dyn Store> for Arc<dyn Store> {
    fn into_store(self) -> Arc<dyn Store> {
        self
    }
}

impl<T: MessageStore> IntoStore<dyn MessageStore> for T {
    fn into_store(self) -> Arc<dyn MessageStore> {
        Arc::new(self)
    }
}

impl<T: MessageStore> IntoStore<dyn MessageStore> for Arc<T> {
    fn into_store(self) -> Arc<dyn MessageStore> {
        self
    }
}

impl IntoStore<dyn MessageStore> for Arc<dyn MessageStore> {
    fn into_store(self) -> Arc<dyn MessageStore> {
        self
    }
}

impl IntoStore<dyn MessageStore> for Arc<dyn Store> {
    fn into_store(self) -> Arc<dyn MessageStore> {
        self
    }
}
