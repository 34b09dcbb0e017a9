//! The seam: the public store of a database checks every call and names every error, in one place for
//! all databases, before and after its backend does the work.
//!
//! Holds throughout: what a backend is asked has passed the checks of [`crate::verbs`]; an error that
//! leaves it carries the verb and the subject of the call, whatever the database; nothing else changes.
//! The backend is a private field, so no caller goes past the seam.
//!
//! This is where `impl Sweep for SqliteStore` and those of the other stages come from; the work is
//! in `impl Sweep for SqliteBackend` and its neighbours, one file for each stage.

/// Implements [`crate::Store`] for a public type by its field `backend`, with checks and names.
///
/// ```ignore
/// pub struct SqliteStore { backend: SqliteBackend }
/// windrow_store::checked_store!(SqliteStore);
/// ```
#[macro_export]
macro_rules! checked_store {
    ($store:ty) => {
        const _: () = {
            use $crate::verbs::names::*;

            $crate::each_stage! { [$crate::checked_stage] [$store] }

            impl MessageStore for $store {}

            impl Store for $store {
                fn capabilities(&self) -> Capabilities {
                    self.backend.capabilities()
                }

                fn gauges(&self) -> Gauges {
                    self.backend.gauges()
                }
            }
        };
    };
}

/// One stage of [`checked_store`].
#[doc(hidden)]
#[macro_export]
macro_rules! checked_stage {
    ([$store:ty] $stage:ident {
        $($verb:ident($($name:ident: $kind:ty),*) -> $reply:ty {
            $words:literal, $subject:expr, $check:expr
        })*
    }) => {
        #[async_trait]
        impl $stage for $store {
            $(async fn $verb(&self, $($name: $kind),*) -> Result<$reply> {
                let subject = $subject;
                let checked: Result<()> = $check;
                let reply = match checked {
                    Ok(()) => $stage::$verb(&self.backend, $($name),*).await,
                    Err(wrong) => Err(wrong),
                };
                reply.map_err(|error| error.named($words, subject))
            })*
        }
    };
}
