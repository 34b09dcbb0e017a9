//! Keys of upstreams from the environment: `WINDROW_UPSTREAMS_<NAME>_<KEY>`.
//!
//! Holds throughout: a variable stands over the file; it may name an upstream that the file does not have; one
//! that names no key is refused. In names, everything but letters and digits is written as `_`.

use std::collections::BTreeMap;

use serde::Deserialize as _;
use toml::{Table, Value};
use windrow::domain::suggest::suggest;
use windrow::engine::execute::http::Upstream;

use super::Environment;
use super::file::upstream_names;
use crate::error::CliError;
use crate::exit_code::Exit;

/// What all their names begin with.
const PREFIX: &str = "WINDROW_UPSTREAMS_";

/// The upstreams of the file's text, with what the environment says in its place.
pub(super) fn overlay(
    text: &str,
    upstreams: BTreeMap<String, Upstream>,
    environment: &Environment,
) -> Result<BTreeMap<String, Upstream>, CliError> {
    let set = || environment.iter().filter(|(_, value)| !value.is_empty());
    let mut variables = set().filter_map(|(name, value)| Some((name.strip_prefix(PREFIX)?, value)));
    let mut tables = match text.parse::<Table>().map(|mut file| file.remove("upstreams")) {
        Ok(Some(Value::Table(tables))) => tables,
        Ok(_) | Err(_) => Table::new(),
    };
    let known = upstream_names();
    let mut changed = BTreeMap::<String, Vec<String>>::new();
    variables.try_for_each(|(rest, value)| {
        let (upstream, key) = place(rest, &tables, &known)?;
        let table = tables.entry(upstream.clone()).or_insert_with(|| Value::Table(Table::new()));
        if let Value::Table(table) = table {
            table.insert(key, read(value));
        }
        changed.entry(upstream).or_default().push(format!("{PREFIX}{rest}"));
        Ok::<_, CliError>(())
    })?;
    let mut upstreams = upstreams;
    for (upstream, variables) in changed {
        let read = tables.remove(&upstream).map(Upstream::deserialize);
        let read = read.unwrap_or_else(|| Ok(Upstream::default()));
        let read = read.map_err(|error| {
            let what = format!("{}: {}", variables.join(", "), error.message().trim_end());
            let remedy = "correct the value; docs/configuration.md describes every key.";
            CliError::new(Exit::Config, what, remedy)
        })?;
        upstreams.insert(upstream, read);
    }
    Ok(upstreams)
}

/// The upstream and the key that a variable means: an upstream of the file, or else a new one.
fn place(rest: &str, tables: &Table, known: &[String]) -> Result<(String, String), CliError> {
    let key_of = |rest: &str| known.iter().find(|key| key.to_uppercase() == rest);
    let in_file = tables.keys().filter_map(|name| {
        let key = rest.strip_prefix(&variable(name))?.strip_prefix('_')?;
        Some((name.clone(), key_of(key)?.clone()))
    });
    // The longest name: `A_B` stands over `A`.
    if let Some(found) = in_file.max_by_key(|(name, _)| name.len()) {
        return Ok(found);
    }
    let new = known.iter().filter_map(|key| {
        let name = rest.strip_suffix(&key.to_uppercase())?.strip_suffix('_')?;
        (!name.is_empty()).then(|| (name.to_lowercase(), key.clone()))
    });
    new.max_by_key(|(_, key)| key.len()).ok_or_else(|| unknown(rest, known))
}

/// A name as it is written in a variable.
fn variable(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    name.chars().map(letter).collect()
}

/// A value as the file would have it: a number, a switch or a list, or else the text itself.
fn read(text: &str) -> Value {
    let parsed = format!("value = {text}").parse::<Table>().ok();
    let parsed =
        parsed.filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
    parsed.unwrap_or_else(|| Value::String(text.to_owned()))
}

fn unknown(rest: &str, known: &[String]) -> CliError {
    let what = format!("environment variable {PREFIX}{rest} names no key of an upstream");
    let tail = rest.split_once('_').map_or(rest, |(_, tail)| tail).to_lowercase();
    let remedy = match suggest(&tail, known.iter().map(String::as_str)) {
        Some(found) => {
            format!("write it as {PREFIX}NAME_{}, for example; or unset it.", found.to_uppercase())
        }
        None => format!("write it as {PREFIX}NAME_KEY, or unset it."),
    };
    CliError::new(Exit::Config, what, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "[upstreams.shop-eu]\nbase_url = \"http://h\"\nconcurrency_max = 3\n";

    fn overlaid(pairs: &[(&str, &str)]) -> Result<BTreeMap<String, Upstream>, CliError> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let before = toml::from_str::<Table>(FILE).unwrap()["upstreams"]["shop-eu"].clone();
        let before = [("shop-eu".to_owned(), Upstream::deserialize(before).unwrap())];
        overlay(FILE, before.into(), &pairs.iter().map(own).collect())
    }

    #[test]
    fn a_variable_stands_over_the_file_and_may_add_an_upstream() {
        let upstreams = overlaid(&[
            ("WINDROW_UPSTREAMS_SHOP_EU_CONCURRENCY_MAX", "7"),
            ("WINDROW_UPSTREAMS_SHOP_EU_REQUESTS_PER_SEC_MAX", "2.5"),
            ("WINDROW_UPSTREAMS_SHOP_EU_BACKOFF_MS_MIN", ""),
            ("WINDROW_UPSTREAMS_LLM_BASE_URL", "http://llm:8000"),
            ("WINDROW_UPSTREAMS_LLM_TARGETS", "[\"m\"]"),
            ("WINDROW_UPSTREAMS_LLM_API_KEY", "{ env = \"LLM_KEY\" }"),
        ])
        .unwrap();
        let shop = &upstreams["shop-eu"];
        assert_eq!((shop.concurrency_max, shop.requests_per_sec_max), (7, Some(2.5)));
        assert_eq!((shop.base_url.as_str(), shop.backoff_ms_min), ("http://h", None));
        let llm = &upstreams["llm"];
        assert_eq!((llm.base_url.as_str(), llm.targets.len()), ("http://llm:8000", 1));
        assert!(llm.api_key.is_some());
    }

    #[test]
    fn a_variable_that_cannot_be_meant_is_refused_by_its_name() {
        for (name, value, wanted) in [
            ("WINDROW_UPSTREAMS_SHOP_EU_CONCURENCY_MAX", "7", "names no key"),
            ("WINDROW_UPSTREAMS_X", "7", "names no key"),
            ("WINDROW_UPSTREAMS_SHOP_EU_CONCURRENCY_MAX", "many", "WINDROW_UPSTREAMS_SHOP_EU_CONC"),
        ] {
            let output = crate::error::to_text(&overlaid(&[(name, value)]).unwrap_err().into());
            assert!(output.contains(name) && output.contains(wanted), "{output}");
        }
    }
}
