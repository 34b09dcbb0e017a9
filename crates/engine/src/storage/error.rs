//! What went wrong with an output, for callers to decide on and for people to act on.

use std::error::Error as StdError;
use std::fmt;
use std::io;

/// What a storage call gives.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A cause, kept as it came.
type Cause = Box<dyn StdError + Send + Sync>;

/// A storage call that did not happen.
#[derive(Debug)]
pub struct Error {
    /// What was attempted: `write`, `read`.
    pub verb: &'static str,
    /// What it was attempted on.
    pub name: String,
    /// The kind of the error.
    pub kind: Kind,
    source: Option<Cause>,
}

/// The kind of an error of the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// No room is left, or a quota is used up.
    Full,
    /// It may be read and not written.
    ReadOnly,
    /// There is no such output, folder or bucket.
    Missing,
    /// This user, or these credentials, may not.
    Denied,
    /// It cannot be reached right now.
    Unavailable,
    /// Anything else; the cause says what.
    Other,
}

impl Kind {
    /// What happened and what to do about it, for people.
    pub fn sentence(self) -> &'static str {
        match self {
            Kind::Full => "no space is left; make room there, or choose another place",
            Kind::ReadOnly => "it is read-only; make it writable, or choose another place",
            Kind::Missing => "it is not there",
            Kind::Denied => {
                "permission is denied; check who owns the folder, or the credentials of the bucket"
            }
            Kind::Unavailable => "the storage does not answer; check that it runs and its address",
            Kind::Other => "it did not work",
        }
    }
}

impl Error {
    pub(crate) fn new(verb: &'static str, name: impl fmt::Display, kind: Kind) -> Self {
        Self { verb, name: name.to_string(), kind, source: None }
    }

    pub(crate) fn because(mut self, cause: impl Into<Cause>) -> Self {
        self.source = Some(cause.into());
        self
    }

    /// What a file, a pipe or a terminal said.
    pub fn of_io(verb: &'static str, name: impl fmt::Display, source: io::Error) -> Self {
        let kind = of_chain(&source).unwrap_or(Kind::Other);
        Self::new(verb, name, kind).because(source)
    }

    pub(crate) fn of_object(
        verb: &'static str,
        name: impl fmt::Display,
        source: object_store::Error,
    ) -> Self {
        use object_store::Error as E;
        let kind = match &source {
            E::NotFound { .. } => Kind::Missing,
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => Kind::Denied,
            // The bucket's client has tried several times before it says so.
            E::Generic { store: "S3", .. } => of_chain(&source).unwrap_or(Kind::Unavailable),
            _ => of_chain(&source).unwrap_or(Kind::Other),
        };
        Self::new(verb, name, kind).because(source)
    }
}

/// The first word of the operating system in a chain of causes that means something to us.
fn of_chain(error: &(dyn StdError + 'static)) -> Option<Kind> {
    let mut next = Some(error);
    while let Some(error) = next {
        let found = error.downcast_ref::<io::Error>().and_then(|error| of_system(error.kind()));
        if found.is_some() {
            return found;
        }
        next = error.source();
    }
    None
}

fn of_system(kind: io::ErrorKind) -> Option<Kind> {
    use io::ErrorKind as K;
    match kind {
        K::StorageFull | K::QuotaExceeded | K::FileTooLarge => Some(Kind::Full),
        K::ReadOnlyFilesystem => Some(Kind::ReadOnly),
        K::PermissionDenied => Some(Kind::Denied),
        K::NotFound => Some(Kind::Missing),
        K::ConnectionRefused | K::ConnectionReset | K::ConnectionAborted | K::NotConnected => {
            Some(Kind::Unavailable)
        }
        K::HostUnreachable | K::NetworkUnreachable | K::NetworkDown | K::TimedOut => {
            Some(Kind::Unavailable)
        }
        _ => None,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not {} {}: {}", self.verb, self.name, self.kind.sentence())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|cause| cause.as_ref() as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(kind: io::ErrorKind) -> Kind {
        let source = Box::new(io::Error::from(kind));
        let error = object_store::Error::Generic { store: "LocalFileSystem", source };
        Error::of_object("write", "a", error).kind
    }

    #[test]
    fn the_systems_word_is_found_behind_other_errors() {
        assert_eq!(local(io::ErrorKind::StorageFull), Kind::Full);
        assert_eq!(local(io::ErrorKind::QuotaExceeded), Kind::Full);
        assert_eq!(local(io::ErrorKind::ReadOnlyFilesystem), Kind::ReadOnly);
        assert_eq!(local(io::ErrorKind::PermissionDenied), Kind::Denied);
        assert_eq!(local(io::ErrorKind::NotADirectory), Kind::Other);
    }

    #[test]
    fn a_bucket_that_fails_without_a_reason_is_unavailable() {
        let error = object_store::Error::Generic { store: "S3", source: "500".into() };
        assert_eq!(Error::of_object("read", "a", error).kind, Kind::Unavailable);
    }

    #[test]
    fn the_text_says_what_to_do() {
        let error = Error::of_io("write", "out", io::ErrorKind::StorageFull.into());
        let text =
            "could not write out: no space is left; make room there, or choose another place";
        assert_eq!(error.to_string(), text);
        assert!(error.source().is_some());
    }
}
