//! Structs of options: every field stands beside its default, and may be set by a method of its name.
//!
//! Holds throughout: such a struct is `#[non_exhaustive]`, so a new option breaks no program.

/// Declares a struct of options with its `Default`, and a method for each field that gives the same options
/// with another value: `Options::default().grace(Duration::from_secs(2))`.
#[macro_export]
macro_rules! options {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $($(#[$field_meta:meta])* $field:ident: $type:ty = $default:expr,)*
        }
    ) => {
        $(#[$meta])*
        #[non_exhaustive]
        $vis struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        $crate::option_setters! { $name { $($field: $type,)* } }
    };
}

/// The methods of [`options!`] for a struct that is declared by hand, because it has no default.
#[macro_export]
macro_rules! option_setters {
    ($name:ident { $($field:ident: $type:ty,)* }) => {
        impl $name {
            $(
                #[doc = concat!("The same with another [`", stringify!($name), "::", stringify!($field), "`].")]
                #[must_use]
                pub fn $field(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}
