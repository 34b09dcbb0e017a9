//! Which database: a path is SQLite, a `postgres://` URL is PostgreSQL.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use windrow::store::Store;
use windrow::{postgres, sqlite};

/// The SQLite file that commands use when nothing is said.
const FILE: &str = "windrow.db";

/// Where a database is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Database {
    Memory,
    File(PathBuf),
    Postgres(String),
}

impl Default for Database {
    fn default() -> Self {
        Self::File(FILE.into())
    }
}

impl FromStr for Database {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = text.strip_prefix("sqlite://").or_else(|| text.strip_prefix("sqlite:"));
        match text.split_once("://") {
            Some(("postgres" | "postgresql", _)) => Ok(Self::Postgres(text.to_owned())),
            Some((scheme, _)) if path.is_none() => Err(format!(
                "{scheme}:// is no database this program knows; use a path or postgres://"
            )),
            Some(_) | None => match path.unwrap_or(text) {
                "" => Err("an empty path names no database".to_owned()),
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
    /// Opens it and brings its schema up to date; an SQLite file is made when it is not there.
    pub(crate) async fn open(&self) -> anyhow::Result<Arc<dyn Store>> {
        let opened: anyhow::Result<Arc<dyn Store>> = match self {
            Self::Memory => open_sqlite(sqlite::Options::default()).await,
            Self::File(path) => open_sqlite(sqlite::Options::file(path)).await,
            Self::Postgres(url) => open_postgres(url).await,
        };
        opened.with_context(|| format!("could not open the database ({self})"))
    }

    /// Opens one that must be there already.
    pub(crate) async fn open_existing(&self) -> anyhow::Result<Arc<dyn Store>> {
        if let Self::File(path) = self
            && !path.exists()
        {
            bail!("there is no database at {}; give its path with --database", path.display());
        }
        self.open().await
    }
}

async fn open_sqlite(options: sqlite::Options) -> anyhow::Result<Arc<dyn Store>> {
    Ok(Arc::new(sqlite::SqliteStore::open(options).await?))
}

async fn open_postgres(url: &str) -> anyhow::Result<Arc<dyn Store>> {
    let store = postgres::PostgresStore::connect(postgres::Options::new(url)).await?;
    store.migrate().await?;
    Ok(Arc::new(store))
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
