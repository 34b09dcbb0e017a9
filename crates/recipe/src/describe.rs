//! A recipe in plain words.

use std::fmt::Write;

use crate::names::Level;
use crate::recipe::{Missing, Recipe, Strategy};

impl Recipe {
    /// What the recipe does, for people.
    pub fn describe(&self) -> String {
        let mut out = String::new();
        let inner = &*self.0;
        let upstream = self.upstream().unwrap_or("the upstream of the command");
        let kind = self.job_type().map(|kind| format!(" (type {kind})")).unwrap_or_default();
        let _ = writeln!(out, "Sends to {upstream}{kind}.");
        let columns: Vec<&str> =
            inner.vocabulary.columns.iter().map(|used| used.name.as_str()).collect();
        if !columns.is_empty() {
            let _ = writeln!(out, "Reads the columns {}.", columns.join(", "));
        }
        if let Some(skip) = &inner.skip {
            let _ = writeln!(out, "Skips a row when: {}", skip.source);
        }
        for (name, expression) in &inner.vocabulary.lets {
            let when = if expression.level >= Level::Answer { " (from the answer)" } else { "" };
            let _ = writeln!(out, "Calls {name}{when}: {}", expression.source);
        }
        for (number, strategy) in inner.strategies.iter().enumerate() {
            describe_strategy(&mut out, number, strategy);
        }
        let _ = writeln!(out, "Adds the columns:");
        for (name, expression) in &inner.columns {
            let _ = writeln!(out, "  {name} = {}", expression.source);
        }
        if !inner.show.answer {
            let _ = writeln!(out, "Does not keep the raw answers.");
        }
        out
    }
}

fn describe_strategy(out: &mut String, number: usize, strategy: &Strategy) {
    let order = if number == 0 { "First" } else { "After a miss" };
    let to = strategy.upstream.as_ref().map(|to| format!(" of {to}")).unwrap_or_default();
    let path = strategy.path.outline();
    let _ = writeln!(out, "{order}, {}: {} {path}{to}", strategy.name, strategy.method);
    for (key, value) in &strategy.query {
        let value = value.lone().map_or_else(
            || value.as_literal().unwrap_or("a text with values").to_owned(),
            |lone| format!("{{{{ {} }}}}", lone.source),
        );
        let _ = writeln!(out, "  with {key} = {value}");
    }
    if let Some(chat) = &strategy.chat {
        let model = chat.model.as_deref().unwrap_or("of the row");
        let _ = writeln!(out, "  asks the model {model}");
        if let Some(schema) = &chat.schema {
            let fields: Vec<&str> = schema.0.iter().map(|(name, _)| name.as_str()).collect();
            let _ = writeln!(out, "  for the fields {}", fields.join(", "));
        }
    }
    let parts =
        [("picks", &strategy.pick), ("accepts", &strategy.accept), ("busy when", &strategy.busy)];
    for (what, expression) in parts {
        if let Some(expression) = expression {
            let _ = writeln!(out, "  {what}: {}", expression.source);
        }
    }
    match &strategy.missing {
        Missing::Usual => {}
        Missing::Statuses(statuses) => {
            let statuses: Vec<_> = statuses.iter().map(u16::to_string).collect();
            let _ = writeln!(out, "  nothing found when the status is {}", statuses.join(", "));
        }
        Missing::When(when) => {
            let _ = writeln!(out, "  nothing found when: {}", when.source);
        }
    }
}
