//! Configuration: one file, then the environment, then flags; each overrides the one before.
//!
//! Holds throughout: every value knows where it came from; an unknown key or a value out of its
//! bounds is an error that names it, never a silent default; no secret is ever shown.

mod file;
mod keys;
mod show;
mod tables;
mod upstream_env;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};

use windrow::domain::Owner;
use windrow::domain::suggest::suggest;

pub(crate) use keys::{Bounds, KEYS};
pub(crate) use show::{Args as ShowArgs, run as show};
pub(crate) use tables::{Outlet, Source, Tables};
use windrow::engine::execute::http::Upstream;
use windrow::engine::messages::Unrouted;

use crate::database::Database;
use crate::error::CliError;
use crate::exit_code::Exit;

/// Keys that are no bounds.
pub(crate) const TEXTS: &[&str] = &[
    "database",
    "data",
    "owner",
    "storage",
    "listen",
    "tls_cert",
    "tls_key",
    "otlp",
    "log",
    "log_format",
    "messages.service",
    "messages.unrouted",
];

/// Where the server listens unless configured: on this machine only.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
/// The file that is read when none is named.
const FILE: &str = "windrow.toml";
/// The service whose instances run messages.
const SERVICE: &str = "windrow";
/// The SQLite file in the data folder.
const DATABASE_FILE: &str = "windrow.db";
/// The folder of outputs in the data folder.
const OUTPUTS: &str = "outputs";

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File { line: usize },
    Environment(String),
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { line } => write!(f, "file, line {line}"),
            Origin::Environment(name) => write!(f, "environment, {name}"),
            Origin::Flag => f.write_str("flag"),
        }
    }
}

/// What the command line says of the configuration.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Flags {
    /// SQLite file, or postgres://user@host/name [default: windrow.db in the data folder]
    #[arg(long, global = true, value_name = "PATH|URL")]
    database: Option<Database>,
    /// Folder for the database and the outputs [default: ~/.local/share/windrow]
    #[arg(long, global = true, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Owner of files, batches and messages [default: local]
    #[arg(long, global = true, value_name = "NAME", value_parser = owner)]
    owner: Option<Owner>,
    /// Configuration file [default: windrow.toml here or in the data folder]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set a key that `windrow config` lists; may be repeated
    #[arg(long, global = true, value_name = "KEY=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    /// Print JSON; errors and progress go to standard error
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// An address to listen on: `host:port`, or `:port` and `port` for this machine only.
pub(crate) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    let port: u16 = port.parse().map_err(|_| {
        "must be an address with a port, for example 127.0.0.1:8080, localhost:8080 or 8080"
            .to_owned()
    })?;
    if host.is_empty() {
        return Ok(SocketAddr::new(LISTEN.ip(), port));
    }
    let found =
        (host, port).to_socket_addrs().map_err(|why| format!("{host} is not known: {why}"))?;
    // The first of IPv4, as the addresses that this program prints.
    let found: Vec<SocketAddr> = found.collect();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first.copied().ok_or_else(|| format!("{host} has no address"))
}

fn owner(name: &str) -> Result<Owner, String> {
    Owner::new(name).map_err(|bad| bad.to_string())
}

pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be KEY=VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// The environment, so that tests can bring their own.
pub(crate) type Environment = BTreeMap<String, String>;

/// The effective configuration.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) bounds: Bounds,
    pub(crate) database: Database,
    pub(crate) data: PathBuf,
    pub(crate) owner: Owner,
    /// Where outputs are kept: a folder or `s3://bucket/prefix`.
    pub(crate) storage: String,
    /// Where the server listens.
    pub(crate) listen: SocketAddr,
    /// Its certificate and key, when it speaks TLS.
    pub(crate) tls: Option<(PathBuf, PathBuf)>,
    /// Where traces are sent, as OTLP over HTTP.
    pub(crate) otlp: Option<String>,
    /// What is logged, as `RUST_LOG` has it.
    pub(crate) log: String,
    pub(crate) log_format: LogFormat,
    pub(crate) upstreams: BTreeMap<String, Upstream>,
    /// The service whose instances run the messages of this database.
    pub(crate) service: String,
    /// Handlers and publishers of messages, and the brokers that more come from.
    pub(crate) tables: Tables,
    /// The file that was read.
    pub(crate) file: Option<PathBuf>,
    origins: BTreeMap<&'static str, Origin>,
}

/// How lines of the log look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// A text with its origin.
type Sourced = (String, Origin);

/// The layers, each asked in turn.
struct Layers<'a> {
    flags: &'a Flags,
    environment: &'a Environment,
    file: file::File,
}

impl Config {
    /// Reads every layer. An error has the exit code of a wrong configuration.
    pub(crate) fn load(flags: &Flags, environment: &Environment) -> anyhow::Result<Self> {
        let data = data_folder(flags, environment);
        let path = file_path(flags, environment, data.as_deref())?;
        let file = path.as_deref().map(file::read).transpose()?.unwrap_or_default();
        let layers = Layers { flags, environment, file };
        let mut origins = BTreeMap::new();
        let mut bounds = layers.bounds(&mut origins)?;
        let mut texts = BTreeMap::new();
        for name in TEXTS {
            if let Some((value, origin)) = layers.text(name) {
                texts.insert(*name, value);
                origins.insert(*name, origin);
            }
        }
        let text = |name: &str| texts.get(name).cloned();
        let data = text("data").map(PathBuf::from).or(data).ok_or_else(no_home)?;
        let database = match text("database") {
            Some(value) => value.parse().map_err(|why| bad("database", &origins, why))?,
            None => Database::File(data.join(DATABASE_FILE)),
        };
        let outputs = || data.join(OUTPUTS).display().to_string();
        let file = &layers.file;
        let upstreams = upstream_env::overlay(&file.text, file.upstreams.clone(), environment)?;
        let live_folder = database.live_folder(&data);
        bounds.engine.live_folder.clone_from(&live_folder);
        bounds.messages.live_folder = live_folder;
        bounds.messages.unrouted = unrouted_of(text("messages.unrouted"), &origins)?;
        Ok(Self {
            bounds,
            database,
            owner: Owner::new(text("owner").unwrap_or_else(|| "local".to_owned()))
                .map_err(|why| bad("owner", &origins, why.to_string()))?,
            storage: text("storage").unwrap_or_else(outputs),
            listen: text("listen")
                .map_or(Ok(LISTEN), |value| listen_address(&value))
                .map_err(|why| bad("listen", &origins, why))?,
            tls: match (text("tls_cert"), text("tls_key")) {
                (Some(cert), Some(key)) => Some((cert.into(), key.into())),
                (None, None) => None,
                (Some(_), None) => return Err(half("tls_cert", "tls_key").into()),
                (None, Some(_)) => return Err(half("tls_key", "tls_cert").into()),
            },
            otlp: text("otlp"),
            log: text("log").unwrap_or_else(|| "info".to_owned()),
            log_format: log_format_of(text("log_format"), &origins)?,
            data,
            upstreams,
            service: text("messages.service").unwrap_or_else(|| SERVICE.to_owned()),
            tables: layers.file.tables,
            file: path,
            origins,
        })
    }

    /// Refuses a key that `--set` names and that has no effect in this command, which has only these parts.
    pub(crate) fn refuse_unused(&self, command: &str, parts: &[&str]) -> Result<(), CliError> {
        let unused = |key: &&keys::Key| {
            self.origin(key.name) == Origin::Flag && !parts.contains(&key.part())
        };
        let Some(key) = KEYS.iter().find(unused) else { return Ok(()) };
        let what = format!("--set: `{}` has no effect in `windrow {command}`", key.name);
        let remedy = match (key.name, key.part()) {
            ("requests_per_sec_max", _) => {
                "it limits clients of `windrow serve`; --rate N limits requests to the upstream."
            }
            (_, "server") => "it is a key of `windrow serve`; leave it out here.",
            (_, "messages") => {
                "it is a key of `windrow serve` and `windrow work`; leave it out here."
            }
            _ => "leave it out here.",
        };
        Err(CliError::new(Exit::Config, what, remedy))
    }

    /// Where a value came from.
    pub(crate) fn origin(&self, name: &str) -> Origin {
        self.origins.get(name).cloned().unwrap_or(Origin::Default)
    }
}

impl Layers<'_> {
    fn bounds(&self, origins: &mut BTreeMap<&'static str, Origin>) -> Result<Bounds, CliError> {
        let mut bounds = Bounds::default();
        for (name, _) in &self.flags.set {
            if keys::find(name).is_none() && !TEXTS.contains(&name.as_str()) {
                return Err(unknown_flag(name));
            }
        }
        for key in KEYS {
            let Some((value, origin)) = self.text(key.name) else { continue };
            let read = key.read(&value).map_err(|expected| {
                let what = format!(
                    "{} is {value:?} ({}), but must be {expected}",
                    key.name,
                    self.describe(&origin)
                );
                CliError::new(
                    Exit::Config,
                    what,
                    "correct the value; `windrow config` describes every key.",
                )
            })?;
            (key.set)(&mut bounds, read);
            origins.insert(key.name, origin);
        }
        Ok(bounds)
    }

    /// The value that counts: of a flag, else of the environment, else of the file.
    fn text(&self, name: &'static str) -> Option<Sourced> {
        let flag = match name {
            "data" => self.flags.data.as_ref().map(|path| path.display().to_string()),
            "database" => self.flags.database.as_ref().map(Database::text),
            "owner" => self.flags.owner.as_ref().map(ToString::to_string),
            _ => None,
        };
        let set = || self.flags.set.iter().rev().find(|(key, _)| key == name);
        let flag = flag.or_else(|| set().map(|(_, value)| value.clone()));
        flag.map(|value| (value, Origin::Flag))
            .or_else(|| self.in_environment(name))
            .or_else(|| self.in_file(name))
    }

    fn in_environment(&self, name: &str) -> Option<Sourced> {
        let upper = name.to_uppercase().replace('.', "_");
        let own = match name {
            "database" => "WINDROW_DATABASE_URL".to_owned(),
            _ => format!("WINDROW_{upper}"),
        };
        let bare = keys::find(name).is_some_and(|key| key.bare).then_some(upper);
        // An empty variable is how many shells unset one.
        let mut names = [Some(own), bare].into_iter().flatten();
        names.find_map(|name| {
            let value = self.environment.get(&name).filter(|value| !value.is_empty())?;
            Some((value.clone(), Origin::Environment(name)))
        })
    }

    fn in_file(&self, name: &str) -> Option<Sourced> {
        let entry = self.file.entries.get(name)?;
        let value = match name {
            "data" | "database" | "storage" | "tls_cert" | "tls_key" => {
                self.beside_file(&entry.value)
            }
            _ => entry.value.clone(),
        };
        Some((value, Origin::File { line: entry.line }))
    }

    /// A path in the file is relative to the folder of the file; a URL is not changed.
    fn beside_file(&self, value: &str) -> String {
        let folder = self.file.path.parent().unwrap_or(Path::new(""));
        if value.contains("://") || value.starts_with(':') || folder.as_os_str().is_empty() {
            value.to_owned()
        } else {
            folder.join(value).display().to_string()
        }
    }

    fn describe(&self, origin: &Origin) -> String {
        match origin {
            Origin::File { line } => format!("{}:{line}", self.file.path.display()),
            Origin::Environment(name) => format!("environment variable {name}"),
            Origin::Flag => "from --set".to_owned(),
            Origin::Default => "default".to_owned(),
        }
    }
}

fn unknown_flag(name: &str) -> CliError {
    let known = || KEYS.iter().map(|key| key.name).chain(TEXTS.iter().copied());
    let in_messages = format!("messages.{name}");
    let in_messages = known().find(|known| *known == in_messages);
    let place = file::place_of(name).filter(|_| in_messages.is_none());
    let remedy = match (place, in_messages.or_else(|| suggest(name, known()))) {
        (Some(place), _) => format!("it is no key for --set: {place}, in the configuration file."),
        (None, Some(found)) => format!("did you mean `{found}`? `windrow config` lists every key."),
        (None, None) => "`windrow config` lists every key.".to_owned(),
    };
    CliError::new(Exit::Config, format!("--set: unknown key `{name}`"), remedy)
}

fn bad(name: &str, origins: &BTreeMap<&'static str, Origin>, why: String) -> CliError {
    let origin = origins.get(name).cloned().unwrap_or(Origin::Default);
    let what = format!("`{name}` ({origin}) is not valid: {why}");
    CliError::new(Exit::Config, what, "correct it; `windrow config` shows the effective values.")
}

fn log_format_of(
    text: Option<String>,
    origins: &BTreeMap<&'static str, Origin>,
) -> Result<LogFormat, CliError> {
    match text.as_deref() {
        None | Some("text") => Ok(LogFormat::Text),
        Some("json") => Ok(LogFormat::Json),
        Some(other) => {
            Err(bad("log_format", origins, format!("{other:?} is neither text nor json")))
        }
    }
}

/// The values of `messages.unrouted`: what happens to a message that no publisher or handler takes.
pub(crate) const UNROUTED: [(&str, Unrouted); 3] =
    [("dead_letter", Unrouted::DeadLetter), ("keep", Unrouted::Keep), ("drop", Unrouted::Drop)];

fn unrouted_of(
    text: Option<String>,
    origins: &BTreeMap<&'static str, Origin>,
) -> Result<Unrouted, CliError> {
    let Some(text) = text else { return Ok(Unrouted::default()) };
    let found = UNROUTED.into_iter().find(|(word, _)| *word == text);
    found.map(|(_, unrouted)| unrouted).ok_or_else(|| {
        let why = format!("{text:?} is not one of dead_letter, keep and drop");
        bad("messages.unrouted", origins, why)
    })
}

fn half(given: &str, missing: &str) -> CliError {
    let what = format!("`{given}` is set, but `{missing}` is not");
    CliError::new(Exit::Config, what, "set both or neither.")
}

fn no_home() -> CliError {
    let what = "there is no data folder: neither HOME nor XDG_DATA_HOME is set";
    CliError::new(Exit::Config, what, "name one with --data.")
}

/// The data folder as far as it is known before the file is read.
fn data_folder(flags: &Flags, environment: &Environment) -> Option<PathBuf> {
    let variable = |name: &str| environment.get(name).filter(|value| !value.is_empty());
    let named = flags.data.clone().or_else(|| variable("WINDROW_DATA").map(PathBuf::from));
    let home = || variable("HOME").map(|home| Path::new(home).join(".local/share"));
    let user = || variable("XDG_DATA_HOME").map(PathBuf::from).or_else(home);
    named.or_else(|| user().map(|folder| folder.join("windrow")))
}

/// The file that is to be read. One that was named must be there.
fn file_path(
    flags: &Flags,
    environment: &Environment,
    data: Option<&Path>,
) -> Result<Option<PathBuf>, CliError> {
    let variable = environment.get("WINDROW_CONFIG").filter(|value| !value.is_empty());
    if let Some(named) = flags.config.clone().or_else(|| variable.map(PathBuf::from)) {
        return if named.is_file() {
            Ok(Some(named))
        } else {
            let what = format!("there is no configuration file at {}", named.display());
            let remedy = "check the path given with --config or WINDROW_CONFIG.";
            Err(CliError::new(Exit::Config, what, remedy))
        };
    }
    let usual = [Some(PathBuf::from(FILE)), data.map(|data| data.join(FILE))];
    Ok(usual.into_iter().flatten().find(|path| path.is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(own).collect()
    }

    fn config_in(folder: &Path, text: &str) -> Flags {
        let path = folder.join("w.toml");
        std::fs::write(&path, text).unwrap();
        Flags { config: Some(path), ..Flags::default() }
    }

    #[test]
    fn a_flag_stands_over_the_environment_and_that_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut flags = config_in(folder.path(), "claim_max = 10\nclaim_min = 2\npoll_ms = 500\n");
        flags.set = vec![("claim_max".to_owned(), "30".to_owned())];
        let environment =
            environment(&[("HOME", "h"), ("CLAIM_MAX", "20"), ("WINDROW_CLAIM_MIN", "3")]);
        let config = Config::load(&flags, &environment).unwrap();
        let slice = &config.bounds.engine.slice;
        assert_eq!((slice.claim_max, slice.claim_min), (30, 3));
        assert_eq!(config.bounds.engine.poll_every.as_millis(), 500);
        assert_eq!(config.origin("claim_max"), Origin::Flag);
        assert_eq!(config.origin("claim_min"), Origin::Environment("WINDROW_CLAIM_MIN".to_owned()));
        assert_eq!(config.origin("poll_ms"), Origin::File { line: 3 });
        assert_eq!(config.origin("grace_ms"), Origin::Default);
        assert_eq!(config.data, Path::new("h/.local/share/windrow"));
        assert_eq!(config.storage, "h/.local/share/windrow/outputs");
    }

    #[test]
    fn the_bare_name_counts_only_for_the_names_of_the_seed_and_below_our_own() {
        let environment = environment(&[
            ("HOME", "h"),
            ("CLAIM_MAX", "20"),
            ("WINDROW_CLAIM_MAX", "21"),
            ("POLL_MS", "77"),
        ]);
        let config = Config::load(&Flags::default(), &environment).unwrap();
        assert_eq!(config.bounds.engine.slice.claim_max, 21);
        assert_eq!(config.origin("poll_ms"), Origin::Default);
    }

    /// The names that deployments of the seed have set: each one reaches the bound of its controller.
    #[test]
    fn every_variable_of_the_seed_reaches_its_controller() {
        let environment = environment(&[
            ("HOME", "h"),
            ("INGEST_MIN_ROWS", "101"),
            ("INGEST_MAX_ROWS", "102"),
            ("INGEST_MAX_BATCH_BYTES", "103"),
            ("DB_P50_MS", "104"),
            ("DB_P95_MS", "105"),
            ("WORKER_TARGET_SLICE_MS", "106"),
            ("CLAIM_MIN", "107"),
            ("CLAIM_MAX", "108"),
            ("SAFETY_FACTOR", "0.65"),
            ("LOCK_FLOOR_MS", "109"),
            ("LOCK_CAP_MS", "110"),
            ("MAX_ATTEMPTS_ERROR", "111"),
            ("MAX_ATTEMPTS_NOT_FOUND", "112"),
        ]);
        let bounds = Config::load(&Flags::default(), &environment).unwrap().bounds;
        let (ingest, slice, retry) = (&bounds.ingest, &bounds.engine.slice, &bounds.engine.retry);
        assert_eq!(
            (ingest.rows_min, ingest.chunk_lines_max, ingest.chunk_bytes_max),
            (101, 102, 103)
        );
        assert_eq!((ingest.db_p50.as_millis(), ingest.db_p95.as_millis()), (104, 105));
        assert_eq!((slice.slice_ms, slice.claim_min, slice.claim_max), (106, 107, 108));
        assert_eq!(slice.safety_factor, 0.65);
        assert_eq!((slice.lock_floor_ms, slice.lock_cap_ms), (109, 110));
        assert_eq!((retry.attempts_max, retry.attempts_not_found_max), (111, Some(112)));
    }

    #[test]
    fn a_value_out_of_bounds_names_itself_and_its_bounds() {
        let environment = environment(&[("HOME", "h"), ("SAFETY_FACTOR", "7")]);
        let error = Config::load(&Flags::default(), &environment).unwrap_err();
        let output = crate::error::to_text(&error);
        let wanted = "error: safety_factor is \"7\" (environment variable SAFETY_FACTOR), but must be \
                      a number from 0.01 to 1\n";
        assert!(output.starts_with(wanted), "{output}");
        assert_eq!(crate::error::exit_code(&error), Exit::Config);
    }

    #[test]
    fn paths_in_the_file_are_meant_from_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let flags = config_in(folder.path(), "data = \"d\"\nstorage = \"s3://b/p\"\n");
        let config = Config::load(&flags, &Environment::new()).unwrap();
        assert_eq!(config.data, folder.path().join("d"));
        assert_eq!(config.storage, "s3://b/p");
        assert_eq!(config.database, Database::File(folder.path().join("d/windrow.db")));
    }

    #[test]
    fn an_address_may_be_short() {
        let address = |text: &str| listen_address(text).map(|address| address.to_string());
        for short in ["127.0.0.1:8081", "localhost:8081", ":8081", "8081"] {
            assert_eq!(address(short), Ok("127.0.0.1:8081".to_owned()), "{short}");
        }
        assert_eq!(address("[::1]:80"), Ok("[::1]:80".to_owned()));
        assert!(address("localhost").is_err() && address("h:99999").is_err());
    }

    #[test]
    fn without_a_home_a_folder_must_be_named() {
        let error = Config::load(&Flags::default(), &Environment::new()).unwrap_err();
        assert!(crate::error::to_text(&error).contains("name one with --data"));
    }
}
