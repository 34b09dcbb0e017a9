//! From the text of a recipe to the recipe, or to everything that is wrong with it.

use std::sync::Arc;

use toml::de::DeValue;

use crate::complaint::Complaints;
use crate::context::Vocabulary;
use crate::expression::{Expression, Part};
use crate::names::{Level, Names, RESERVED};
use crate::parse_try::read_try;
use crate::recipe::{Inner, Recipe, Strategy};
use crate::settings::{Format, Input, RetryBounds, Show};
use crate::source::{Field, Source, Table, Text};
use crate::table::Columns;

/// A whole recipe.
pub const RECIPE_BYTES_MAX: usize = 256 << 10;
/// Strategies of one recipe.
const STRATEGIES_MAX: usize = 20;
/// Names of `[let]`: each that uses another is a step deeper.
const LETS_MAX: usize = 50;
/// Output columns of one recipe.
const COLUMNS_MAX: usize = 256;
/// The longest name of an output column.
const COLUMN_NAME_BYTES_MAX: usize = 200;
/// Words that expressions have for themselves.
const KEYWORDS: [&str; 12] =
    ["and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "loop", "self"];

pub(crate) fn parse(text: &str) -> Result<Recipe, Complaints> {
    if text.len() > RECIPE_BYTES_MAX {
        return Err(Complaints::one(format!("a recipe has at most {RECIPE_BYTES_MAX} bytes")));
    }
    let mut source = Source::new(text);
    let mut names = Names::default();
    let inner = source.document().and_then(|table| read(&mut source, &mut names, table));
    source.complaints.or_ok()?;
    match inner {
        Some(inner) => Ok(Recipe(Arc::new(inner))),
        None => Err(Complaints::one("this is no recipe")),
    }
}

fn read<'t>(source: &mut Source<'t>, names: &mut Names, mut table: Table<'t>) -> Option<Inner> {
    let upstream = source.word(&mut table, "upstream").map(|text| text.value);
    let job_type = source.word(&mut table, "type").map(|text| text.value);
    let mut mentioned = Vec::new();
    let input_table = source.table(&mut table, "input");
    let (input, skip_text) = read_input(source, input_table, &mut mentioned);
    let let_table = source.table(&mut table, "let");
    let lets = let_table.map(|table| read_lets(source, names, table)).unwrap_or_default();
    let skip = skip_text.and_then(|text| {
        let part = Part { level_max: Level::Row, ..Part::out("skip") };
        expression(source, names, &text, part)
    });
    let strategies = read_tries(source, names, table.take("try"));
    let columns = match source.table(&mut table, "columns") {
        Some(table) => read_columns(source, names, table),
        None => usual_columns(names, &strategies),
    };
    let show_table = source.table(&mut table, "show");
    let show = show_table.map(|table| read_show(source, table, &mut mentioned)).unwrap_or_default();
    let retry_table = source.table(&mut table, "retry");
    let retry = retry_table.map(|table| read_retry(source, table)).unwrap_or_default();
    source.finish(table);
    if strategies.is_empty() {
        return None;
    }
    let whole_row = names.whole_row;
    let used = std::mem::take(names).into_columns();
    let optional = used.iter().map(|used| input.optional.contains(&used.name)).collect();
    Some(Inner {
        text: source.text.to_owned(),
        upstream,
        job_type,
        input,
        skip,
        vocabulary: Arc::new(Vocabulary { columns: used, optional, lets, whole_row }),
        strategies,
        column_names: columns.iter().map(|(name, _)| name.clone()).collect(),
        columns,
        show,
        retry,
        mentioned,
    })
}

/// Compiles an expression; what is wrong with it becomes complaints.
pub(crate) fn expression(
    source: &mut Source<'_>,
    names: &mut Names,
    text: &Text,
    part: Part<'_>,
) -> Option<Expression> {
    let places = text.places(0);
    names.at(places.clone());
    if text.value.contains("{{") {
        let what = format!("{}: this is computed, and needs no `{{{{ }}}}`", part.name);
        source.complain(text.place(0), what);
        return None;
    }
    match Expression::compile(&text.value, names, part) {
        Ok(expression) => Some(expression),
        Err(faults) => {
            source.faults(&places, part.name, faults);
            None
        }
    }
}

fn read_input<'t>(
    source: &mut Source<'t>,
    table: Option<Table<'t>>,
    mentioned: &mut Vec<(String, usize)>,
) -> (Input, Option<Text>) {
    const HEADER_ROW_MAX: u32 = 1_000;
    const SIDE_MAX: u32 = 8_192;
    let Some(mut table) = table else { return (Input::default(), None) };
    let mut column = |source: &mut Source<'t>, table: &mut Table<'t>, key: &'static str| {
        let text = source.word(table, key)?;
        mentioned.push((text.value.clone(), text.place(0)));
        Some(text.value)
    };
    let input = Input {
        format: source.choice(&mut table, "format", &Format::ALL),
        delimiter: letter(source, &mut table, "delimiter"),
        encoding: source.word(&mut table, "encoding").map(|text| text.value),
        sheet: source.word(&mut table, "sheet").map(|text| text.value),
        header: source.whole(&mut table, "header", 0..=HEADER_ROW_MAX),
        decimal: source.choice(&mut table, "decimal", &[(".", '.'), (",", ',')]),
        id: column(source, &mut table, "id"),
        optional: source
            .texts(&mut table, "optional")
            .unwrap_or_default()
            .into_iter()
            .map(|text| text.value)
            .collect(),
        image: column(source, &mut table, "image"),
        side_max: source.whole(&mut table, "side_max", 16..=SIDE_MAX),
    };
    let skip = source.text(&mut table, "skip");
    source.finish(table);
    (input, skip)
}

fn letter<'t>(source: &mut Source<'t>, table: &mut Table<'t>, key: &'static str) -> Option<char> {
    let text = source.text(table, key)?;
    let letter = if text.value == "tab" { Some('\t') } else { text.value.parse::<char>().ok() };
    let good = letter.filter(|letter| letter.is_ascii() && !"\"\r\n\0".contains(*letter));
    if good.is_none() {
        source.complain(text.place(0), format!("`{key}` is one letter, or `tab`"));
    }
    good
}

fn read_lets<'t>(
    source: &mut Source<'t>,
    names: &mut Names,
    table: Table<'t>,
) -> Vec<(String, Expression)> {
    let at = table.at;
    let fields = table.into_fields();
    if fields.len() > LETS_MAX {
        source.complain(at, format!("[let] has at most {LETS_MAX} names"));
        return Vec::new();
    }
    names.declare(fields.iter().map(|(name, _, _)| name.clone()).collect());
    let mut lets = Vec::new();
    for (name, at, field) in fields {
        // A name is written as the names of columns are.
        let folded = Columns::fold(&[&name]);
        if folded.position(&name).is_none() {
            let folded = folded.names().next().map(str::to_owned);
            source.complaints.add(source.text, at, format!("`{name}` is no name"), folded);
        }
        if RESERVED.contains(&name.as_str()) || KEYWORDS.contains(&name.as_str()) {
            source.complain(at, format!("`{name}` has its own meaning already"));
        }
        let Some(text) = source.text_of(&name, field) else { continue };
        names.define(&name);
        let part = Part { name: &name, level_max: Level::It, mode: None };
        let made = expression(source, names, &text, part);
        // Of a name that is wrong nothing more is said: it counts as if the row gave it.
        names.defined(&name, made.as_ref().map_or(Level::Row, |made| made.level));
        lets.extend(made.map(|made| (name, made)));
    }
    lets
}

fn read_tries<'t>(
    source: &mut Source<'t>,
    names: &mut Names,
    field: Option<Field<'t>>,
) -> Vec<Strategy> {
    let Some(field) = field else {
        source.complain(0, "a recipe has at least one [[try]]");
        return Vec::new();
    };
    let at = field.range.start;
    let fields: Vec<_> = match field.value {
        DeValue::Array(values) => values.into_iter().map(Field::new).collect(),
        DeValue::Table(_) => vec![field],
        _ => {
            source.complain(at, "write [[try]], in two brackets");
            return Vec::new();
        }
    };
    if fields.is_empty() || fields.len() > STRATEGIES_MAX {
        source.complain(at, format!("a recipe has 1 to {STRATEGIES_MAX} [[try]]"));
        return Vec::new();
    }
    let mut strategies: Vec<Strategy> = Vec::new();
    for (index, field) in fields.into_iter().enumerate() {
        let Some(table) = source.table_of("[[try]]", "try", field) else { continue };
        let Some(strategy) = read_try(source, names, table, index) else { continue };
        if strategies.iter().any(|other| other.name == strategy.name) {
            let what = format!("there are two [[try]] with the name `{}`", strategy.name);
            source.complain(strategy.at, what);
        }
        strategies.push(strategy);
    }
    strategies
}

fn read_columns<'t>(
    source: &mut Source<'t>,
    names: &mut Names,
    table: Table<'t>,
) -> Vec<(String, Expression)> {
    let at = table.at;
    let fields = table.into_fields();
    if fields.is_empty() || fields.len() > COLUMNS_MAX {
        source.complain(at, format!("[columns] has 1 to {COLUMNS_MAX} columns"));
        return Vec::new();
    }
    let mut columns = Vec::new();
    for (name, at, field) in fields {
        let good = !name.trim().is_empty()
            && name.len() <= COLUMN_NAME_BYTES_MAX
            && !name.contains(char::is_control);
        if !good {
            let what = "the name of a column is one line of 1 to 200 bytes";
            source.complain(at, what);
        }
        let Some(text) = source.text_of(&name, field) else { continue };
        let part = Part::back(&name, Level::It);
        let made = expression(source, names, &text, part);
        columns.extend(made.map(|made| (name, made)));
    }
    columns
}

/// Without `[columns]`: the fields of `json`, or all that was found.
fn usual_columns(names: &mut Names, strategies: &[Strategy]) -> Vec<(String, Expression)> {
    let mut columns: Vec<(String, Expression)> = Vec::new();
    let mut add = |name: &str, expression: &str| {
        if columns.iter().all(|(known, _)| known != name) {
            let part = Part::back("columns", Level::It);
            let made = Expression::compile(expression, names, part).ok();
            columns.extend(made.map(|made| (name.to_owned(), made)));
        }
    };
    for strategy in strategies {
        match strategy.chat.as_ref().and_then(|chat| chat.schema.as_ref()) {
            Some(schema) => {
                for (name, _) in &schema.0 {
                    let quoted = serde_json::to_string(name).unwrap_or_default();
                    add(name, &format!("it[{quoted}]"));
                }
            }
            None => add("answer", "it"),
        }
    }
    columns
}

fn read_show<'t>(
    source: &mut Source<'t>,
    mut table: Table<'t>,
    mentioned: &mut Vec<(String, usize)>,
) -> Show {
    let mut columns = |source: &mut Source<'t>, table: &mut Table<'t>, key: &'static str| {
        let texts = source.texts(table, key)?;
        mentioned.extend(texts.iter().map(|text| (text.value.clone(), text.place(0))));
        Some(texts.into_iter().map(|text| text.value).collect())
    };
    let show = Show {
        keep: columns(source, &mut table, "keep"),
        summary: columns(source, &mut table, "summary"),
        answer: source.boolean(&mut table, "answer").unwrap_or(true),
    };
    source.finish(table);
    show
}

fn read_retry<'t>(source: &mut Source<'t>, mut table: Table<'t>) -> RetryBounds {
    const ATTEMPTS_MAX: u32 = 1_000;
    const WAIT_SECS_MAX: u32 = 86_400;
    let retry = RetryBounds {
        attempts: source.whole(&mut table, "attempts", 1..=ATTEMPTS_MAX),
        wait_secs: source.whole(&mut table, "wait_secs", 0..=WAIT_SECS_MAX),
    };
    source.finish(table);
    retry
}
