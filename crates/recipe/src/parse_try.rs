//! One `[[try]]`, in its long or its short form.

use toml::de::DeValue;

use crate::body::{Body, BodyReader};
use crate::chat::{self, OWN_KEYS, Parts, Schema};
use crate::expression::Part;
use crate::names::{Level, Names};
use crate::parse::expression;
use crate::path::{Path, check_header_name};
use crate::recipe::{Chat, Missing, Strategy};
use crate::source::{Field, Source, Table};
use crate::template::Template;

/// Pairs of a query, and headers.
const PAIRS_MAX: usize = 50;
/// Pictures of one request.
const IMAGES_MAX: usize = 20;

const METHODS: [(&str, &str); 6] = [
    ("GET", "GET"),
    ("POST", "POST"),
    ("PUT", "PUT"),
    ("PATCH", "PATCH"),
    ("DELETE", "DELETE"),
    ("HEAD", "HEAD"),
];

pub(crate) fn read_try<'t>(
    source: &mut Source<'t>,
    names: &mut Names,
    mut table: Table<'t>,
    index: usize,
) -> Option<Strategy> {
    let at = table.at;
    let name = source.word(&mut table, "name");
    let name = name.map_or_else(|| format!("try {}", index + 1), |text| text.value);
    let upstream = source.word(&mut table, "upstream").map(|text| text.value);
    let is_short = ["prompt", "model", "system", "images", "json"].iter().any(|key| table.has(key));
    let method = source.choice(&mut table, "method", &METHODS);
    let path_text = source.text(&mut table, "path");
    let path = match path_text {
        Some(text) => Path::read(&text, source, names),
        None if is_short => Some(Path::literal(chat::PATH)),
        None => {
            source.complain(at, "a [[try]] has a `path`, or `model` and `prompt`");
            None
        }
    };
    let query = read_query(source, names, &mut table);
    let headers = read_headers(source, names, &mut table);
    let body_at = table.key_at("body");
    let body = table.take("body").and_then(|field| BodyReader { source, names }.body(field));
    let (body, chat) = if is_short {
        read_chat(source, names, &mut table, body, body_at.unwrap_or(at))?
    } else {
        for key in ["model", "prompt", "system", "images", "json"] {
            table.take(key);
        }
        (body, None)
    };
    let default = if body.is_some() { "POST" } else { "GET" };
    let method = method.unwrap_or(default);
    if body.is_some() && matches!(method, "GET" | "HEAD") {
        source.complain(at, format!("a {method} has no body"));
    }
    let mut part = |source: &mut Source<'t>, table: &mut Table<'t>, key: &'static str, level| {
        let text = source.text(table, key)?;
        expression(source, names, &text, Part::back(key, level))
    };
    let pick_at = table.key_at("pick");
    let pick = part(source, &mut table, "pick", Level::Answer);
    if let (Some(at), Some(Chat { schema: Some(_), .. })) = (pick_at, &chat) {
        source.complain(at, "`json` says already what is picked");
    }
    let accept = part(source, &mut table, "accept", Level::It);
    let busy = part(source, &mut table, "busy", Level::Answer);
    let missing = read_missing(source, names, &mut table);
    source.finish(table);
    let path = path?;
    Some(Strategy {
        name,
        at,
        upstream,
        method,
        path,
        query,
        headers,
        body,
        pick,
        accept,
        busy,
        missing,
        chat,
    })
}

/// Which statuses are a miss, or when an answer is one.
fn read_missing<'t>(source: &mut Source<'t>, names: &mut Names, table: &mut Table<'t>) -> Missing {
    let Some(field) = table.take("missing") else { return Missing::Usual };
    let at = field.range.start;
    if field.value.is_str() {
        let text = source.text_of("missing", field);
        let part = Part::back("missing", Level::Answer);
        let made = text.and_then(|text| expression(source, names, &text, part));
        return made.map_or(Missing::Usual, Missing::When);
    }
    let status = |value: &DeValue<'_>| {
        let number = value.as_integer()?.as_str().parse::<u16>().ok()?;
        (100..600).contains(&number).then_some(number)
    };
    let statuses = match &field.value {
        DeValue::Array(values) => values.iter().map(|value| status(value.get_ref())).collect(),
        one => status(one).map(|one| vec![one]),
    };
    match statuses {
        Some(statuses) => Missing::Statuses(statuses),
        None => {
            source.complain(at, "`missing` is a list of statuses, or an expression");
            Missing::Usual
        }
    }
}

fn read_query<'t>(
    source: &mut Source<'t>,
    names: &mut Names,
    table: &mut Table<'t>,
) -> Vec<(String, Template)> {
    let Some(query) = source.table(table, "query") else { return Vec::new() };
    let at = query.at;
    let mut pairs = Vec::new();
    for (key, _, field) in query.into_fields() {
        // A list repeats its key.
        let fields: Vec<_> = match field.value {
            DeValue::Array(values) => values.into_iter().map(Field::new).collect(),
            _ => vec![field],
        };
        for field in fields {
            let made = scalar(source, names, &key, field, "query");
            pairs.extend(made.map(|made| (key.clone(), made)));
        }
    }
    if pairs.len() > PAIRS_MAX {
        source.complain(at, format!("a query has at most {PAIRS_MAX} pairs"));
    }
    pairs
}

fn read_headers<'t>(
    source: &mut Source<'t>,
    names: &mut Names,
    table: &mut Table<'t>,
) -> Vec<(String, Template)> {
    let Some(headers) = source.table(table, "headers") else { return Vec::new() };
    let at = headers.at;
    let mut pairs = Vec::new();
    for (name, at, field) in headers.into_fields() {
        if let Err(what) = check_header_name(&name) {
            source.complain(at, what);
            continue;
        }
        let made = scalar(source, names, &name, field, "headers");
        pairs.extend(made.map(|made| (name, made)));
    }
    if pairs.len() > PAIRS_MAX {
        source.complain(at, format!("a request has at most {PAIRS_MAX} headers"));
    }
    pairs
}

/// A text, number or truth that is printed.
fn scalar<'t>(
    source: &mut Source<'t>,
    names: &mut Names,
    key: &str,
    field: Field<'t>,
    part: &str,
) -> Option<Template> {
    match &field.value {
        DeValue::Integer(number) => Some(Template::literal(number.to_string())),
        DeValue::Float(number) => Some(Template::literal(number.as_str())),
        DeValue::Boolean(truth) => Some(Template::literal(truth.to_string())),
        _ => {
            let text = source.text_of(key, field)?;
            Template::read(&text, source, names, Part::out(part))
        }
    }
}

/// The short form: its body and what is known of its answer.
fn read_chat<'t>(
    source: &mut Source<'t>,
    names: &mut Names,
    table: &mut Table<'t>,
    more: Option<Body>,
    body_at: usize,
) -> Option<(Option<Body>, Option<Chat>)> {
    let at = table.at;
    let has_both = table.has("model") && table.has("prompt");
    let mut template = |source: &mut Source<'t>, key: &'static str| {
        let text = source.text(table, key)?;
        Template::read(&text, source, names, Part::out(key))
    };
    let model = template(source, "model");
    let prompt = template(source, "prompt");
    let system = template(source, "system");
    let images: Vec<_> = source
        .texts(table, "images")
        .unwrap_or_default()
        .iter()
        .filter_map(|text| Template::read(text, source, names, Part::out("images")))
        .collect();
    if images.len() > IMAGES_MAX {
        source.complain(at, format!("a request has at most {IMAGES_MAX} images"));
    }
    let schema = table.take("json").and_then(|field| Schema::read(source, field));
    let more = match more {
        None => Vec::new(),
        Some(Body::Object(pairs)) => pairs,
        Some(_) => {
            source.complain(body_at, "beside `prompt`, `body` is a table of more keys");
            Vec::new()
        }
    };
    if let Some((key, _)) = more.iter().find(|(key, _)| OWN_KEYS.contains(&key.as_str())) {
        source.complain(body_at, format!("`{key}` of the body comes from `prompt` and `model`"));
    }
    let (Some(model), Some(prompt)) = (model, prompt) else {
        if !has_both {
            source.complain(at, "the short form of a [[try]] has `model` and `prompt`");
        }
        return None;
    };
    let chat = Chat {
        model: model.as_literal().map(str::to_owned),
        schema: schema.clone(),
        image_column: images.iter().find_map(|image| image.lone()?.lone_column),
    };
    let body = chat::body(Parts { model, system, prompt, images, schema, more });
    Some((Some(body), Some(chat)))
}
