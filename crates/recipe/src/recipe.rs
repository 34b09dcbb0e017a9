//! A recipe that was read: what it does with rows and answers.
//!
//! Holds throughout: compiled once, shared by cloning, and never changed; the same row gives the same
//! request.

use std::sync::Arc;

use minijinja::value::Value;
use sha2::{Digest, Sha256};

use crate::allow::{self, Allow};
use crate::body::Body;
use crate::budget;
use crate::chat::Schema;
use crate::complaint::{Complaints, similar};
use crate::context::{Context, Meta, Vocabulary};
use crate::expression::Expression;
use crate::fault::RowFault;
use crate::json::{Pictures, Writer};
use crate::names::{Level, RESERVED};
use crate::path::{self, Path};
use crate::settings::{Input, RetryBounds, Show};
use crate::table::{Columns, Row};
use crate::template::{self, Template};

/// What a row's `[let]` names have as JSON; what is more is left out.
const NORMALISED_BYTES_MAX: usize = 1 << 20;

/// A recipe, compiled.
#[derive(Debug, Clone)]
pub struct Recipe(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) text: String,
    pub(crate) upstream: Option<String>,
    pub(crate) job_type: Option<String>,
    pub(crate) input: Input,
    pub(crate) skip: Option<Expression>,
    pub(crate) vocabulary: Arc<Vocabulary>,
    pub(crate) strategies: Vec<Strategy>,
    pub(crate) columns: Vec<(String, Expression)>,
    pub(crate) column_names: Vec<String>,
    pub(crate) show: Show,
    pub(crate) retry: RetryBounds,
    /// Names of input columns outside of expressions, with their places.
    pub(crate) mentioned: Vec<(String, usize)>,
}

/// One `[[try]]`.
#[derive(Debug)]
pub(crate) struct Strategy {
    pub(crate) name: String,
    pub(crate) at: usize,
    pub(crate) upstream: Option<String>,
    pub(crate) method: &'static str,
    pub(crate) path: Path,
    pub(crate) query: Vec<(String, Template)>,
    pub(crate) headers: Vec<(String, Template)>,
    pub(crate) body: Option<Body>,
    pub(crate) pick: Option<Expression>,
    pub(crate) accept: Option<Expression>,
    pub(crate) busy: Option<Expression>,
    pub(crate) missing: Missing,
    /// The short form: what is picked is the model's text.
    pub(crate) chat: Option<Chat>,
}

/// What the short form knows.
#[derive(Debug)]
pub(crate) struct Chat {
    /// The model, unless it is a template.
    pub(crate) model: Option<String>,
    pub(crate) schema: Option<Schema>,
    /// The column that names the picture, if `images` is nothing but one column.
    pub(crate) image_column: Option<usize>,
}

/// Which answers say that there is nothing.
#[derive(Debug)]
pub(crate) enum Missing {
    /// A 404, for methods that ask for something.
    Usual,
    Statuses(Vec<u16>),
    When(Expression),
}

/// What is sent for a row. A body is always JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// In capitals.
    pub method: &'static str,
    /// With the query.
    pub path: String,
    /// Names as the recipe has them.
    pub headers: Vec<(String, String)>,
    /// JSON.
    pub body: Option<Vec<u8>>,
    /// The upstream of this strategy; the job's own when it is left out.
    pub upstream: Option<String>,
}

/// What came back for a row.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The HTTP status.
    pub status: u16,
    /// Without the upstream's key in it.
    pub body: &'a [u8],
    /// What it cost.
    pub meta: Meta,
}

impl Recipe {
    /// Reads and compiles a recipe, or says everything that is wrong with it.
    pub fn parse(text: &str) -> Result<Self, Complaints> {
        crate::parse::parse(text)
    }

    /// The recipe as it was written.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// Identifies its text.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0.text.as_bytes()).into()
    }

    /// How the input is to be read.
    pub fn input(&self) -> &Input {
        &self.0.input
    }

    /// Whether a file with these columns has every column that the recipe names.
    pub fn check(&self, columns: &Columns) -> Result<(), Complaints> {
        let inner = &*self.0;
        let mut complaints = Complaints::default();
        let used = inner.vocabulary.columns.iter().map(|used| (&used.name, used.at));
        let mentioned = inner.mentioned.iter().map(|(name, at)| (name, *at));
        for (name, at) in used.chain(mentioned) {
            if columns.position(name).is_some() || inner.input.optional.contains(name) {
                continue;
            }
            let lets = inner.vocabulary.lets.iter().map(|(name, _)| name.as_str());
            let known = columns.names().chain(lets).chain(RESERVED);
            let what = format!("the file has no column `{name}`");
            complaints.add(&inner.text, at, what, similar(name, known));
        }
        complaints.or_ok()
    }

    /// The upstream that the recipe names.
    pub fn upstream(&self) -> Option<&str> {
        self.0.upstream.as_deref()
    }

    /// The upstream of one strategy: its own, or the recipe's.
    pub fn upstream_of(&self, strategy: usize) -> Option<&str> {
        self.strategy(strategy).upstream.as_deref().or(self.upstream())
    }

    /// The model that the first strategy asks, unless it differs by row.
    pub fn model(&self) -> Option<&str> {
        self.0.strategies.first()?.chat.as_ref()?.model.as_deref()
    }

    /// The type of jobs of this recipe.
    pub fn job_type(&self) -> Option<&str> {
        self.0.job_type.as_deref()
    }

    /// How many strategies there are; at least one.
    pub fn strategies(&self) -> usize {
        self.0.strategies.len()
    }

    /// What a strategy is called.
    pub fn strategy_name(&self, strategy: usize) -> &str {
        &self.strategy(strategy).name
    }

    /// The method of a strategy, in capitals.
    pub fn method(&self, strategy: usize) -> &'static str {
        self.strategy(strategy).method
    }

    /// The headers that some strategy sends, in lower case; the upstream has to allow each.
    pub fn header_names(&self) -> Vec<String> {
        let headers = self.0.strategies.iter().flat_map(|strategy| &strategy.headers);
        let mut names: Vec<_> = headers.map(|(name, _)| name.to_ascii_lowercase()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// The column that names a row's picture, if there is one.
    pub fn image_column(&self) -> Option<&str> {
        let chats = self.0.strategies.iter().filter_map(|strategy| strategy.chat.as_ref());
        let slot = chats.filter_map(|chat| chat.image_column).next();
        let used = slot.map(|slot| self.0.vocabulary.columns[slot].name.as_str());
        self.0.input.image.as_deref().or(used)
    }

    /// The names of the output columns, in order.
    pub fn columns(&self) -> &[String] {
        &self.0.column_names
    }

    /// What the grid and lists show.
    pub fn show(&self) -> &Show {
        &self.0.show
    }

    /// How often and how slowly a row is repeated.
    pub fn retry(&self) -> &RetryBounds {
        &self.0.retry
    }

    /// Why the row is not to be asked for, if it is not.
    pub fn skip(&self, row: &Row<'_>) -> Result<Option<String>, RowFault> {
        let Some(skip) = &self.0.skip else { return Ok(None) };
        budget::begin(self.0.input.decimal_sign());
        let context = Context::new(&self.0.vocabulary, row, "", None);
        let value = template::value("skip", skip, &context)?;
        Ok(value.is_true().then(|| skip.source.clone()))
    }

    /// The names of `[let]` that need no answer, as a JSON object; nothing when there are none.
    pub fn normalised(&self, row: &Row<'_>) -> Option<String> {
        let lets = &self.0.vocabulary.lets;
        if !lets.iter().any(|(_, expression)| expression.level == Level::Row) {
            return None;
        }
        budget::begin(self.0.input.decimal_sign());
        let context = Context::new(&self.0.vocabulary, row, "", None);
        let values = lets.iter().enumerate().filter(|(_, (_, let_))| let_.level == Level::Row);
        let values = values.map(|(slot, (name, _))| {
            (name.as_str(), context.named(slot).unwrap_or(Value::UNDEFINED))
        });
        Some(object(values, NORMALISED_BYTES_MAX).0)
    }

    /// What this strategy sends for a row.
    pub fn render(&self, row: &Row<'_>, strategy: usize) -> Result<Request, RowFault> {
        let number = strategy;
        let strategy = self.strategy(strategy);
        budget::begin(self.0.input.decimal_sign());
        let context = Context::new(&self.0.vocabulary, row, &strategy.name, None);
        let headers = strategy.headers.iter().map(|(name, template)| {
            Ok((name.clone(), path::header_value(name, template, &context)?))
        });
        Ok(Request {
            method: strategy.method,
            path: strategy.path.render(&strategy.query, &context)?,
            headers: headers.collect::<Result<_, _>>()?,
            body: strategy.body.as_ref().map(|body| body.render(&context)).transpose()?,
            upstream: self.upstream_of(number).map(str::to_owned),
        })
    }

    /// Whether every request of this recipe is one that the rules allow.
    pub fn allowed_by(&self, rules: &[Allow]) -> Result<(), Complaints> {
        let mut complaints = Complaints::default();
        for (number, strategy) in self.0.strategies.iter().enumerate() {
            let upstream = self.upstream_of(number);
            if !allow::allows(rules, upstream, strategy.method, &strategy.path.segments) {
                let to = upstream.unwrap_or("this upstream");
                let what = format!(
                    "`{} {}` is not allowed for recipes on {to}",
                    strategy.method,
                    strategy.path.outline()
                );
                complaints.add(&self.0.text, strategy.at, what, None);
            }
        }
        complaints.or_ok()
    }

    /// Whether the other recipe gives the same columns in the same order.
    pub fn same_columns(&self, other: &Self) -> bool {
        self.columns() == other.columns()
    }

    /// Strategies are counted on: one behind the last is the first again.
    pub(crate) fn strategy(&self, strategy: usize) -> &Strategy {
        let strategies = &self.0.strategies;
        &strategies[strategy % strategies.len()]
    }
}

/// A JSON object of these values. A value that is too large for what is left is `null`. Says which
/// values are empty.
pub(crate) fn object<'a>(
    values: impl Iterator<Item = (&'a str, Value)>,
    bytes_max: usize,
) -> (String, Vec<usize>) {
    /// Kept free for the `null`s and keys behind a value that is too large.
    const RESERVE: usize = 128 << 10;
    let mut writer = Writer::new(bytes_max, Pictures::Name);
    let mut inner = String::from("{");
    let mut empty = Vec::new();
    for (index, (name, value)) in values.enumerate() {
        inner.push_str(if index > 0 { "," } else { "" });
        inner.push_str(&serde_json::to_string(name).unwrap_or_default());
        inner.push(':');
        let room = bytes_max.saturating_sub(RESERVE).saturating_sub(inner.len());
        writer.restart(room);
        let written = writer.value(&value).is_ok();
        let text =
            if written { std::str::from_utf8(&writer.out).unwrap_or("null") } else { "null" };
        if text == "null" {
            empty.push(index);
        }
        inner.push_str(text);
    }
    inner.push('}');
    (inner, empty)
}
