//! What an answer means for its row, and which columns it gives.

use minijinja::value::Value;

use crate::answer;
use crate::budget;
use crate::chat;
use crate::context::{Answered, Context};
use crate::recipe::{Answer, Missing, Recipe, Strategy, object};
use crate::table::Row;

/// The columns of one row as JSON.
const SHAPED_BYTES_MAX: usize = 1 << 20;

/// What an answer means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// Something was found.
    Found {
        /// A JSON object of the recipe's columns, in their order.
        shaped: String,
        /// The columns that stayed empty: their expression failed or gave nothing.
        empty: Vec<usize>,
    },
    /// There is nothing: the next strategy is asked.
    Missed,
    /// Something was found that is not good enough, and why.
    Unacceptable(String),
    /// The upstream has no time now, as if it had answered 429.
    Busy,
    /// The recipe has nothing to say about this status: it is judged as for any other request.
    Unjudged,
}

impl Recipe {
    /// Judges an answer to this strategy's request.
    pub fn judge(&self, row: &Row<'_>, strategy: usize, answer: &Answer<'_>) -> Judgement {
        let strategy = self.strategy(strategy);
        let good = (200..300).contains(&answer.status);
        let by_expression = strategy.busy.is_some() || matches!(strategy.missing, Missing::When(_));
        if !good && !by_expression {
            return if is_missing_status(strategy, answer.status) {
                Judgement::Missed
            } else {
                Judgement::Unjudged
            };
        }
        budget::begin(self.0.input.decimal_sign());
        let parsed = answer::parse(answer.body)
            .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(answer.body)));
        let answered = Answered { answer: parsed, status: answer.status, meta: answer.meta };
        let context = Context::new(&self.0.vocabulary, row, &strategy.name, Some(answered));
        if strategy.busy.as_ref().is_some_and(|busy| busy.is_true(&context)) {
            return Judgement::Busy;
        }
        let missed = match &strategy.missing {
            Missing::When(missing) => missing.is_true(&context),
            _ => is_missing_status(strategy, answer.status),
        };
        if missed {
            return Judgement::Missed;
        }
        if !good {
            return Judgement::Unjudged;
        }
        match picked(strategy, &context) {
            Err(why) => return Judgement::Unacceptable(why),
            Ok(None) => return Judgement::Missed,
            Ok(Some(it)) => context.picked(it),
        }
        if let Some(accept) = &strategy.accept
            && !accept.is_true(&context)
        {
            return Judgement::Unacceptable(format!("not accepted: {}", accept.source));
        }
        let values = self.0.columns.iter().map(|(name, column)| {
            (name.as_str(), column.eval(&context).unwrap_or(Value::UNDEFINED))
        });
        let (shaped, empty) = object(values, SHAPED_BYTES_MAX);
        Judgement::Found { shaped, empty }
    }
}

fn is_missing_status(strategy: &Strategy, status: u16) -> bool {
    match &strategy.missing {
        Missing::Usual => status == 404 && matches!(strategy.method, "GET" | "HEAD"),
        Missing::Statuses(statuses) => statuses.contains(&status),
        Missing::When(_) => false,
    }
}

/// What was found; nothing is a miss.
fn picked(strategy: &Strategy, context: &std::sync::Arc<Context>) -> Result<Option<Value>, String> {
    match (&strategy.pick, &strategy.chat) {
        (Some(pick), _) => {
            let it = pick.eval(context).unwrap_or(Value::UNDEFINED);
            Ok((!is_nothing(&it)).then_some(it))
        }
        (None, Some(chat)) => chat::content(context.answer(), chat.schema.as_ref()).map(Some),
        (None, None) => Ok(Some(context.answer().clone())),
    }
}

/// Undefined, none, or an empty text, list or map.
fn is_nothing(value: &Value) -> bool {
    value.is_undefined() || value.is_none() || value.len() == Some(0)
}
