//! The tables of messages: handlers, publishers and consumers.
//!
//! Holds throughout: tables keep the order of the file, since the first that fits takes a message of
//! the inbox; secrets are named here and read when they are used; paths are meant from the file's
//! folder.

use std::borrow::Cow;
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer, ValueDeserializer};
use windrow::domain::Owner;
use windrow::engine::deliver::{Patterns, webhook};
use windrow_brokers::{nats, rabbitmq, redis, status_cache};

use super::file::ConfigText;
use crate::error::CliError;
use crate::exit_code::Exit;

/// The names of the tables.
pub(super) const NAMES: [&str; 5] = ["objects", "inbox", "publish", "consume", "status_cache"];
/// Most that is read of a handler's answer unless it says so: it holds a state, a reply, events and
/// messages.
const ANSWER_BYTES_MAX: u64 = 8 << 20;

/// All tables of the configuration about messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    /// Handlers of objects, by their type.
    pub(crate) objects: Vec<(String, webhook::Options)>,
    /// Handlers of the inbox.
    pub(crate) inbox: Vec<(String, Handler)>,
    /// Publishers of the outbox.
    pub(crate) publish: Vec<(String, Publish)>,
    /// What fills the inbox.
    pub(crate) consume: Vec<(String, Consume)>,
    /// Where the status of closed batches is kept for others, if anywhere.
    pub(crate) status_cache: Option<status_cache::Options>,
}

/// A handler of the inbox, over HTTP.
#[derive(Clone, Debug)]
pub(crate) struct Handler {
    pub(crate) patterns: Patterns,
    pub(crate) to: webhook::Options,
}

/// A publisher.
#[derive(Clone, Debug)]
pub(crate) struct Publish {
    pub(crate) patterns: Patterns,
    pub(crate) to: Outlet,
}

/// Where messages are published.
#[derive(Clone, Debug)]
pub(crate) enum Outlet {
    Webhook(webhook::Options),
    Nats(nats::PublisherOptions),
    Redis(redis::Options),
    Rabbitmq(rabbitmq::PublisherOptions),
}

/// A consumer.
#[derive(Clone, Debug)]
pub(crate) struct Consume {
    /// The owner of the inbox; the configuration's owner unless the table names one.
    pub(crate) owner: Option<Owner>,
    pub(crate) from: Source,
}

/// Where messages come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Nats(nats::ConsumerOptions),
    Rabbitmq(rabbitmq::ConsumerOptions),
}

impl Tables {
    /// Whether there is nothing to do for messages.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { objects, inbox, publish, consume, status_cache: _ } = self;
        objects.is_empty() && inbox.is_empty() && publish.is_empty() && consume.is_empty()
    }

    /// Every table with its options, as they may be shown.
    pub(crate) fn shown(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        let mut add = |kind: &str, name: &str, options: &dyn std::fmt::Debug| {
            all.push((format!("{kind}.{name}"), format!("{options:#?}")));
        };
        self.objects.iter().for_each(|(name, options)| add("objects", name, options));
        self.inbox.iter().for_each(|(name, options)| add("inbox", name, options));
        self.publish.iter().for_each(|(name, options)| add("publish", name, options));
        self.consume.iter().for_each(|(name, options)| add("consume", name, options));
        let cache = self.status_cache.iter();
        all.extend(cache.map(|cache| ("status_cache".to_owned(), format!("{cache:#?}"))));
        all
    }

    /// Takes the tables out of a file.
    pub(super) fn take_from(
        file: &mut DeTable<'_>,
        source: ConfigText<'_>,
    ) -> anyhow::Result<Self> {
        let mut tables = Self::default();
        for mut piece in pieces(file, "objects", source)? {
            tables.objects.push((piece.name.clone(), piece.handler()?));
        }
        for mut piece in pieces(file, "inbox", source)? {
            let patterns = piece.patterns()?;
            tables.inbox.push((piece.name.clone(), Handler { patterns, to: piece.handler()? }));
        }
        for mut piece in pieces(file, "publish", source)? {
            let patterns = piece.patterns()?;
            let to = match piece.kind(&["webhook", "nats", "redis", "rabbitmq"])?.as_str() {
                "webhook" => Outlet::Webhook(piece.rest()?),
                "nats" => Outlet::Nats(piece.rest()?),
                "redis" => Outlet::Redis(piece.rest()?),
                _ => Outlet::Rabbitmq(piece.rest()?),
            };
            tables.publish.push((piece.name, Publish { patterns, to }));
        }
        for mut piece in pieces(file, "consume", source)? {
            let owner = piece.take("owner")?;
            let from = match piece.kind(&["nats", "rabbitmq"])?.as_str() {
                "nats" => Source::Nats(piece.rest()?),
                _ => Source::Rabbitmq(piece.rest()?),
            };
            tables.consume.push((piece.name, Consume { owner, from }));
        }
        if let Some(mut piece) = single(file, "status_cache", source)? {
            tables.status_cache = Some(piece.rest()?);
        }
        Ok(tables)
    }
}

/// One table while it is read: what is taken out of it is gone.
struct Piece<'i, 'p> {
    name: String,
    at: std::ops::Range<usize>,
    table: DeTable<'i>,
    source: ConfigText<'p>,
}

/// The table of that name, of which there is one.
fn single<'i, 'p>(
    file: &mut DeTable<'i>,
    name: &str,
    source: ConfigText<'p>,
) -> Result<Option<Piece<'i, 'p>>, CliError> {
    let Some(found) = file.remove(name) else { return Ok(None) };
    let at = found.span();
    let DeValue::Table(table) = found.into_inner() else {
        let what = format!("{}: {name} is no table", source.line(at.start));
        let remedy = format!("write it as [{name}]; docs/configuration.md has an example.");
        return Err(CliError::new(Exit::Config, what, remedy));
    };
    let mut table = table;
    beside(&mut table, source.path.parent().unwrap_or(Path::new("")));
    Ok(Some(Piece { name: name.to_owned(), at, table, source }))
}

/// The tables below that name, in the order of the file.
fn pieces<'i, 'p>(
    file: &mut DeTable<'i>,
    kind: &str,
    source: ConfigText<'p>,
) -> Result<Vec<Piece<'i, 'p>>, CliError> {
    let Some(all) = file.remove(kind) else { return Ok(Vec::new()) };
    let wrong = |at: usize, what: &str| {
        let what = format!("{}: {what} is no table", source.line(at));
        let remedy = format!("write it as [{kind}.NAME]; docs/configuration.md has an example.");
        CliError::new(Exit::Config, what, remedy)
    };
    let at = all.span().start;
    let DeValue::Table(all) = all.into_inner() else { return Err(wrong(at, kind)) };
    let mut pieces = Vec::new();
    for (name, value) in all {
        let (at, text) = (value.span(), name.get_ref().to_string());
        let DeValue::Table(mut table) = value.into_inner() else {
            return Err(wrong(name.span().start, &format!("{kind}.{text}")));
        };
        beside(&mut table, source.path.parent().unwrap_or(Path::new("")));
        pieces.push((name.span().start, Piece { name: text, at, table, source }));
    }
    pieces.sort_by_key(|(at, _)| *at);
    Ok(pieces.into_iter().map(|(_, piece)| piece).collect())
}

/// Paths are meant from the file's folder.
fn beside(table: &mut DeTable<'_>, folder: &Path) {
    for (name, value) in table.iter_mut() {
        match (name.get_ref().as_ref(), value.get_mut()) {
            ("file" | "ca_file", DeValue::String(path)) => {
                *path = Cow::Owned(folder.join(&**path).display().to_string());
            }
            // Their names are others'.
            ("headers", _) => {}
            (_, DeValue::Table(inner)) => beside(inner, folder),
            (_, DeValue::Array(items)) => {
                for item in items.iter_mut() {
                    if let DeValue::Table(inner) = item.get_mut() {
                        beside(inner, folder);
                    }
                }
            }
            _ => {}
        }
    }
}

impl Piece<'_, '_> {
    /// The value of a key, which is taken out.
    fn take<T: DeserializeOwned>(&mut self, key: &str) -> Result<Option<T>, CliError> {
        let Some(value) = self.table.remove(key) else { return Ok(None) };
        let read = T::deserialize(ValueDeserializer::from(value));
        read.map(Some).map_err(|error| self.source.bad(&error))
    }

    /// Reads the patterns of messages that the table takes.
    fn patterns(&mut self) -> Result<Patterns, CliError> {
        Ok(Patterns {
            owners: self.take("owners")?.unwrap_or_default(),
            streams: self.take("streams")?.unwrap_or_default(),
            kinds: self.take("kinds")?.unwrap_or_default(),
        })
    }

    /// Which of these it is.
    fn kind(&mut self, known: &[&str]) -> Result<String, CliError> {
        let at = self.table.get("type").map_or(self.at.start, |value| value.span().start);
        let kind: Option<String> = self.take("type")?;
        let what = match kind {
            Some(kind) if known.contains(&kind.as_str()) => return Ok(kind),
            Some(kind) => format!("{:?} has the type {kind:?}, which there is not", self.name),
            None => format!("{:?} has no type", self.name),
        };
        let remedy = format!("set its `type` to one of {}.", known.join(", "));
        Err(CliError::new(Exit::Config, format!("{}: {what}", self.source.line(at)), remedy))
    }

    /// A handler over HTTP.
    fn handler(&mut self) -> Result<webhook::Options, CliError> {
        let answer_bytes_max = self.take("answer_bytes_max")?.unwrap_or(ANSWER_BYTES_MAX);
        let options: webhook::Options = self.rest()?;
        Ok(options.answer_bytes_max(answer_bytes_max))
    }

    /// Everything that is left, which must be known.
    fn rest<T: DeserializeOwned>(&mut self) -> Result<T, CliError> {
        let table = std::mem::take(&mut self.table);
        let rest = Spanned::new(self.at.clone(), table);
        T::deserialize(Deserializer::from(rest)).map_err(|error| self.source.bad(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> anyhow::Result<Tables> {
        let mut file = DeTable::parse(text).unwrap().into_inner();
        Tables::take_from(&mut file, ConfigText { path: Path::new("etc/w.toml"), text })
    }

    fn complaint(text: &str) -> String {
        let error = read(text).unwrap_err();
        assert_eq!(crate::error::exit_code(&error), Exit::Config);
        crate::error::to_text(&error)
    }

    const ALL: &str = r#"
        [objects.wallet]
        url = "http://h/wallet"
        secrets = [{ file = "secret" }]
        total_ms_max = 5

        [inbox.second]
        url = "http://h/all"
        [inbox.first]
        kinds = ["order.*"]
        url = { env = "HOOK" }

        [publish.hook]
        type = "webhook"
        kinds = ["batch.*"]
        url = "http://h/hush-hush"
        headers = { file = "hush-hush" }
        ca_file = "/abs/ca.pem"
        [publish.bus]
        type = "nats"
        server = { url = "nats://me:hush-hush@h" }
        [publish.cache]
        type = "redis"
        [publish.queue]
        type = "rabbitmq"
        exchange = "x"

        [consume.orders]
        type = "nats"
        owner = "shop"
        stream = "ORDERS"
        [consume.more]
        type = "rabbitmq"
    "#;

    #[test]
    fn tables_are_read_in_the_order_of_the_file_and_never_show_a_secret() {
        let tables = read(ALL).unwrap();
        let names = |names: &[(String, Handler)]| -> Vec<String> {
            names.iter().map(|(name, _)| name.clone()).collect()
        };
        assert_eq!(names(&tables.inbox), ["second", "first"]);
        let (name, wallet) = &tables.objects[0];
        assert_eq!((name.as_str(), wallet.total_ms_max), ("wallet", 5));
        assert_eq!(wallet.answer_bytes_max, ANSWER_BYTES_MAX);
        assert!(matches!(tables.publish[1].1.to, Outlet::Nats(_)));
        assert!(matches!(tables.publish[3].1.to, Outlet::Rabbitmq(_)));
        assert_eq!(tables.consume[0].1.owner.as_ref().unwrap().as_str(), "shop");
        let shown = format!("{:?}", tables.shown());
        assert!(!shown.contains("hush-hush"), "{shown}");
        assert!(shown.contains("etc/secret") && shown.contains("/abs/ca.pem"), "{shown}");
        assert!(!tables.is_empty() && Tables::default().is_empty());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, words) in [
            (
                "[publish.a]\ntype = \"webhook\"\nurl = \"http://h\"\ntotal_ms_mx = 3\n",
                ["etc/w.toml:4: unknown key `total_ms_mx`", "did you mean `total_ms_max`?"],
            ),
            ("[publish.a]\nurl = \"u\"\n", ["etc/w.toml:1: \"a\" has no type", "webhook, nats"]),
            (
                "[publish.a]\ntype = \"kafka\"\n",
                ["etc/w.toml:2: \"a\" has the type \"kafka\"", "redis, rabbitmq"],
            ),
            ("[objects.a]\nurl = 3\n", ["etc/w.toml:2: ", "docs/configuration.md"]),
            ("[inbox.a]\nkinds = \"x\"\n", ["etc/w.toml:2: ", "docs/configuration.md"]),
            ("inbox = 3\n", ["etc/w.toml:1: inbox is no table", "[inbox.NAME]"]),
            ("[consume]\na = 1\n", ["etc/w.toml:2: consume.a is no table", "[consume.NAME]"]),
        ] {
            let output = complaint(text);
            assert!(words.iter().all(|word| output.contains(word)), "{output}");
        }
    }
}
