//! Opening: the connections, their settings, and the schema.
//!
//! Holds throughout: what a reply promised is on disk (`synchronous=FULL`) unless the options say
//! otherwise; caches, the log and waits for other processes have bounds.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use windrow_store::{Error, Kind, Result, Time};

use crate::readers::Readers;
use crate::writer::{Log, Writer};
use crate::{SqliteBackend, error, schema};

/// Prepared statements kept for each connection; there are fewer files under `sql/`.
const STATEMENTS_MAX: usize = 256;
/// Pages in the log (16 MiB) after which a commit moves them to the database.
const WAL_CHECKPOINT_PAGES: u32 = 4096;
/// What is kept of the log's file when it starts over.
const WAL_KEPT_BYTES: u32 = 64 << 20;

/// How often opening is repeated while another process sets the file up.
const OPEN_TRIES_MAX: u32 = 100;
const OPEN_PAUSE: Duration = Duration::from_millis(20);

/// Where the database is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Location {
    /// In a file, with its log beside it.
    File(PathBuf),
    /// In this process only, gone with the store.
    #[default]
    Memory,
}

/// What a reply promises about a loss of power. A crash of the process loses nothing either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// What was answered is on disk.
    #[default]
    Full,
    /// The last moments before a loss of power may be missing, never torn.
    Normal,
}

windrow_domain::options! {
    /// How to open a store.
    #[derive(Clone, Debug)]
    pub struct Options {
        /// Where the database is.
        location: Location = Location::default(),
        /// Which clock decides.
        time: Time = Time::default(),
        /// What a reply promises.
        durability: Durability = Durability::default(),
        /// How long to wait for another process before a call is `Busy`.
        busy_timeout: Duration = Duration::from_secs(5),
        /// Connections that read beside the writer.
        readers: usize = 2,
        /// Whether to create the schema or bring it up to date. Without, one that is not current is
        /// refused, with [`windrow_store::error::NotMigrated`] as the cause.
        migrate: bool = true,
        /// Page cache of the writer's connection, in KiB; a reader's has a quarter of it.
        cache_kib_max: u32 = 16 << 10,
    }
}

impl Options {
    /// The usual settings for a database in that file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { location: Location::File(path.into()), ..Self::default() }
    }
}

/// Opens on a thread of its own: migrating may take a while, and waits for other processes.
pub(crate) async fn open(options: Options) -> Result<SqliteBackend> {
    let (reply, opened) = tokio::sync::oneshot::channel();
    let start = move || {
        let _ = reply.send(start(&options));
    };
    let thread = std::thread::Builder::new().name("windrow-open".to_owned()).spawn(start);
    thread.map_err(no_thread)?;
    opened.await.unwrap_or_else(|_| Err(Error::new(Kind::Corrupt, "open", "database")))
}

fn start(options: &Options) -> Result<SqliteBackend> {
    let time = &options.time;
    let Location::File(path) = &options.location else {
        let conn = connect(options, None)?;
        let writer = Writer::start(conn, time.clone(), None).map_err(no_thread)?;
        return Ok(SqliteBackend { writer, readers: None });
    };
    let conn = connect(options, Some(path))?;
    let readers = (0..options.readers.max(1))
        .map(|_| connect_reader(options, path))
        .collect::<Result<Vec<_>>>()?;
    let mut wal = path.clone().into_os_string();
    wal.push("-wal");
    let log = Log { path: wal.into(), busy: options.busy_timeout };
    let writer = Writer::start(conn, time.clone(), Some(log)).map_err(no_thread)?;
    let readers = Readers::start(readers, time).map_err(no_thread)?;
    Ok(SqliteBackend { writer, readers: Some(readers) })
}

fn no_thread(cause: std::io::Error) -> Error {
    Error::new(Kind::Unavailable, "open", "database").because(cause)
}

/// The writer's connection, with the schema up to date. A new file that others open at the same
/// moment is busy while one of them sets it up, and SQLite does not wait for that by itself.
fn connect(options: &Options, path: Option<&Path>) -> Result<Connection> {
    let mut attempts = 1;
    loop {
        match connect_once(options, path) {
            Err(busy) if busy.kind == Kind::Busy && attempts < OPEN_TRIES_MAX => attempts += 1,
            done => return done,
        }
        // Another process gives no signal that could be waited on.
        std::thread::park_timeout(OPEN_PAUSE);
    }
}

fn connect_once(options: &Options, path: Option<&Path>) -> Result<Connection> {
    let subject = path.map_or_else(|| "memory".to_owned(), |path| path.display().to_string());
    let failed = |cause| error::from_driver(cause).named("open", &subject);
    let opened = match path {
        Some(path) => Connection::open(path),
        None => Connection::open_in_memory(),
    };
    let mut conn = opened.map_err(failed)?;
    if !options.migrate {
        // Before anything is set: that would write to an empty file.
        conn.pragma_query_value(None, "schema_version", |row| row.get::<_, i64>(0))
            .map_err(failed)?;
        schema::check(&mut conn, &subject)?;
    }
    configure(&conn, options).map_err(failed)?;
    if options.migrate {
        schema::migrate(&mut conn, &subject)?;
    }
    Ok(conn)
}

fn connect_reader(options: &Options, path: &Path) -> Result<Connection> {
    let open = || {
        let conn = Connection::open(path)?;
        configure(&conn, options)?;
        // What is read here is mostly read once.
        conn.pragma_update(None, "cache_size", -i64::from(options.cache_kib_max / 4))?;
        conn.pragma_update(None, "query_only", true)?;
        Ok(conn)
    };
    open().map_err(|cause| error::from_driver(cause).named("open", path.display()))
}

fn configure(conn: &Connection, options: &Options) -> rusqlite::Result<()> {
    conn.busy_timeout(options.busy_timeout)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Answers with the mode it really is: in memory there is no log, and none is needed.
    conn.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    let synchronous = match options.durability {
        Durability::Full => "full",
        Durability::Normal => "normal",
    };
    conn.pragma_update(None, "synchronous", synchronous)?;
    conn.pragma_update(None, "foreign_keys", false)?;
    conn.pragma_update(None, "temp_store", "memory")?;
    conn.pragma_update(None, "cache_size", -i64::from(options.cache_kib_max))?;
    // Not mapped: a disk that fails would end the process, and the pages would count as its memory.
    conn.pragma_update(None, "mmap_size", 0)?;
    conn.pragma_update(None, "wal_autocheckpoint", WAL_CHECKPOINT_PAGES)?;
    conn.pragma_update(None, "journal_size_limit", WAL_KEPT_BYTES)?;
    Ok(())
}
