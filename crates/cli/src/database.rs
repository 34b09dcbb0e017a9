//! Opens the database: a path is SQLite, a `postgres://` URL is PostgreSQL.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::Context as _;
use windrow::store::Store;
use windrow::store::error::NotMigrated;
use windrow::{postgres, sqlite};

use crate::error::CliError;
use crate::exit_code::Exit;
use crate::hint;

/// Where a database is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Database {
    Memory,
    File(PathBuf),
    Postgres(String),
}

impl FromStr for Database {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = text.strip_prefix("sqlite://").or_else(|| text.strip_prefix("sqlite:"));
        match text.split_once("://") {
            Some(("postgres" | "postgresql", _)) => Ok(Self::Postgres(text.to_owned())),
            Some((scheme, _)) if path.is_none() => {
                Err(format!("{scheme}:// is not supported; use a path or postgres://"))
            }
            Some(_) | None => match path.unwrap_or(text) {
                "" => Err("the path is empty".to_owned()),
                ":memory:" => Ok(Self::Memory),
                path => Ok(Self::File(path.into())),
            },
        }
    }
}

/// For people: without user and password.
impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("SQLite in memory"),
            Self::File(path) => write!(f, "SQLite {}", path.display()),
            Self::Postgres(url) => {
                let rest = url.split_once("://").map_or("", |(_, rest)| rest);
                let host = rest.split(['?', '#']).next().unwrap_or(rest);
                let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
                write!(f, "PostgreSQL {host}")
            }
        }
    }
}

impl Database {
    /// As `--database` takes it. Holds a password if the URL has one.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Memory => ":memory:".to_owned(),
            Self::File(path) => path.display().to_string(),
            Self::Postgres(url) => url.clone(),
        }
    }

    /// The folder in which the processes of this machine that use it hold their locks. Beside an SQLite file,
    /// so that all of them agree on it; in the data folder otherwise.
    pub(crate) fn live_folder(&self, data: &Path) -> Option<PathBuf> {
        match self {
            Self::Memory => None,
            Self::File(path) => {
                let mut folder = path.clone().into_os_string();
                folder.push("-live");
                Some(folder.into())
            }
            Self::Postgres(_) => Some(data.join("live")),
        }
    }

    /// Whether opening it would find something, as far as that is known without opening it.
    pub(crate) fn may_exist(&self) -> bool {
        match self {
            Self::Memory => false,
            Self::File(path) => path.exists(),
            Self::Postgres(_) => true,
        }
    }

    /// Opens it and brings its schema up to date; an SQLite file is made when it is not there.
    pub(crate) async fn open(&self) -> anyhow::Result<Arc<dyn Store>> {
        if let Self::File(path) = self {
            make_folder(path.parent())?;
        }
        let opened: anyhow::Result<Arc<dyn Store>> = match self {
            Self::Memory => open_sqlite(sqlite::Options::default()).await,
            Self::File(path) => open_sqlite(sqlite::Options::file(path)).await,
            Self::Postgres(url) => open_postgres(url, true).await,
        };
        opened.with_context(|| format!("could not open the database ({self})"))
    }

    /// Opens one that must be there already, with a schema that this program knows. Nothing is created
    /// and nothing is migrated.
    pub(crate) async fn open_existing(&self) -> anyhow::Result<Arc<dyn Store>> {
        if let Self::File(path) = self
            && !path.exists()
        {
            let what = format!("there is no database at {}", path.display());
            let remedy = "give its path with --database, or its folder with --data; `windrow run`, \
                          `ingest`, `serve`, `work` and `migrate` create one.";
            return Err(CliError::new(Exit::Failed, what, remedy).into());
        }
        let opened: anyhow::Result<Arc<dyn Store>> = match self {
            Self::Memory => open_sqlite(sqlite::Options::default()).await,
            Self::File(path) => open_sqlite(sqlite::Options::file(path).migrate(false)).await,
            Self::Postgres(url) => open_postgres(url, false).await,
        };
        opened
            .map_err(not_migrated_error)
            .with_context(|| format!("could not open the database ({self})"))
    }
}

/// Explains how a schema that is not current becomes so.
fn not_migrated_error(error: anyhow::Error) -> anyhow::Error {
    let is_behind = error.chain().any(|cause| cause.is::<NotMigrated>());
    if !is_behind {
        return error;
    }
    let remedy =
        format!("create the schema, or bring it up to date: {}", hint::command(&["migrate"]));
    error.context(CliError::new(Exit::Failed, "its schema is not that of this program", remedy))
}

/// Creates a folder that only its user may read: it holds requests and responses.
pub(crate) fn make_folder(folder: Option<&Path>) -> anyhow::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let Some(folder) = folder.filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.with_context(|| {
        let what = format!("could not create the folder {}", folder.display());
        CliError::new(Exit::Failed, what, "name a writable folder with --data.")
    })
}

async fn open_sqlite(options: sqlite::Options) -> anyhow::Result<Arc<dyn Store>> {
    Ok(Arc::new(sqlite::SqliteStore::open(options).await?))
}

async fn open_postgres(url: &str, migrates: bool) -> anyhow::Result<Arc<dyn Store>> {
    let store = postgres::PostgresStore::connect(postgres::Options::new(url)).await?;
    let ready = if migrates { store.migrate().await } else { store.check_schema().await };
    match ready {
        Ok(()) => Ok(Arc::new(store)),
        Err(error) => Err(no_rights_error(error)),
    }
}

/// Explains what a role without the right to migrate can do.
fn no_rights_error(error: windrow::store::Error) -> anyhow::Error {
    let is_refused =
        std::error::Error::source(&error).is_some_and(|cause| cause.is::<postgres::NoRight>());
    let error = anyhow::Error::new(error);
    if is_refused {
        let remedy = "as the role that owns the schema, run `windrow migrate`, then `windrow grants \
                      … --apply` for this role.";
        let what = "the schema is not up to date, or this role may not use it";
        error.context(CliError::new(Exit::Failed, what, remedy))
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_sqlite_and_a_url_is_postgres() {
        let file = |path: &str| Ok(Database::File(path.into()));
        let postgres = |url: &str| Ok(Database::Postgres(url.to_owned()));
        assert_eq!("a/b.db".parse(), file("a/b.db"));
        assert_eq!("sqlite:x.db".parse(), file("x.db"));
        assert_eq!("sqlite:///tmp/x.db".parse(), file("/tmp/x.db"));
        assert_eq!(":memory:".parse(), Ok(Database::Memory));
        assert_eq!("postgres://h/d".parse(), postgres("postgres://h/d"));
        assert_eq!("postgresql://h/d".parse(), postgres("postgresql://h/d"));
        assert!("mysql://h/d".parse::<Database>().is_err());
        assert!("".parse::<Database>().is_err());
    }

    #[test]
    fn a_password_is_never_shown() {
        let database: Database = "postgres://ann:s@cret@db:5432/w?sslmode=x".parse().unwrap();
        assert_eq!(database.to_string(), "PostgreSQL db:5432/w");
    }
}
