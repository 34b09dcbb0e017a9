//! `windrow config`: prints the effective configuration and where each value comes from.

use serde_json::{Map, Value, json};

use super::{Config, KEYS, TEXTS, UNROUTED, keys};
use crate::context::Context;
use crate::exit_code::Exit;
use crate::table::Table;

/// Show the effective configuration and where each value comes from, without secrets.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(context: &Context, _: Args) -> anyhow::Result<Exit> {
    let config = &context.config;
    context.print_result(&as_json(config), || as_text(config))?;
    Ok(Exit::Success)
}

/// The value of a text key, without secrets.
fn shown(config: &Config, name: &str) -> String {
    match name {
        "database" => config.database.to_string(),
        "data" => config.data.display().to_string(),
        "owner" => config.owner.to_string(),
        "storage" => config.storage.clone(),
        "log" => config.log.clone(),
        "log_format" => format!("{:?}", config.log_format).to_lowercase(),
        "listen" => config.listen.to_string(),
        "messages.service" => config.service.clone(),
        "messages.unrouted" => {
            let wanted = config.bounds.messages.unrouted;
            let word = UNROUTED.into_iter().find(|(_, unrouted)| *unrouted == wanted);
            word.map_or_else(String::new, |(word, _)| word.to_owned())
        }
        _ => String::new(),
    }
}

fn as_text(config: &Config) -> String {
    let mut table = Table::new(&["key", "value", "from", "description"]);
    for name in TEXTS {
        let origin = config.origin(name).to_string();
        table.row([(*name).to_owned(), shown(config, name), origin, String::new()]);
    }
    for key in KEYS {
        let value = (key.get)(&config.bounds).to_string();
        let origin = config.origin(key.name).to_string();
        table.row([key.name.to_owned(), value, origin, key.about.to_owned()]);
    }
    let file = config.file.as_ref().map_or("none".to_owned(), |path| path.display().to_string());
    let mut output = format!("file: {file}\n\n{table}\n");
    for (name, upstream) in &config.upstreams {
        output.push_str(&format!("\n[upstreams.{name}]\n{upstream:#?}\n"));
    }
    for (name, options) in config.tables.shown() {
        output.push_str(&format!("\n[{name}]\n{options}\n"));
    }
    output.trim_end().to_owned()
}

fn as_json(config: &Config) -> Value {
    let mut entries = Map::new();
    let mut add = |name: &str, value: Value| {
        let origin = config.origin(name).to_string();
        entries.insert(name.to_owned(), json!({ "value": value, "from": origin }));
    };
    for name in TEXTS {
        add(name, shown(config, name).into());
    }
    for key in KEYS {
        add(
            key.name,
            match (key.get)(&config.bounds) {
                keys::Value::Whole(value) => value.into(),
                keys::Value::Decimal(value) => value.into(),
                keys::Value::Switch(value) => value.into(),
                keys::Value::None => Value::Null,
            },
        );
    }
    let upstreams: Vec<&String> = config.upstreams.keys().collect();
    let tables: Vec<String> = config.tables.shown().into_iter().map(|(name, _)| name).collect();
    json!({ "file": config.file, "values": entries, "upstreams": upstreams, "tables": tables })
}
