//! What answers say they cost, added up over a batch.

use serde::{Deserialize, Serialize};
use windrow_recipe::Meta;

use crate::execute::http::Price;

/// Tokens of a batch, with the names that OpenAI's batches give them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens sent.
    pub input_tokens: u64,
    /// Of those, read from a cache.
    pub input_tokens_details: Cached,
    /// Tokens received.
    pub output_tokens: u64,
    /// Of those, spent on thinking.
    pub output_tokens_details: Reasoning,
    /// Tokens sent and received together.
    pub total_tokens: u64,
}

/// Tokens that a cache had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cached {
    /// Tokens that came from a cache.
    pub cached_tokens: u64,
}

/// Tokens spent on thinking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reasoning {
    /// Tokens that were used for reasoning.
    pub reasoning_tokens: u64,
}

/// What one answer says; chat completions and responses have different names for the same.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ReportedUsage {
    prompt_tokens: Option<u64>,
    input_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    output_tokens: Option<u64>,
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<Cached>,
    input_tokens_details: Option<Cached>,
    completion_tokens_details: Option<Reasoning>,
    output_tokens_details: Option<Reasoning>,
}

impl ReportedUsage {
    /// Tokens of an answer, and what they cost by that price.
    pub(crate) fn meta(&self, price: Option<&Price>) -> Meta {
        let tokens_in = self.input_tokens.or(self.prompt_tokens);
        let tokens_out = self.output_tokens.or(self.completion_tokens);
        let millions = |tokens: Option<u64>| tokens.unwrap_or(0) as f64 / 1e6;
        let known = price.filter(|_| tokens_in.is_some() || tokens_out.is_some());
        let cost = known
            .map(|price| millions(tokens_in) * price.input + millions(tokens_out) * price.output);
        Meta { tokens_in, tokens_out, cost }
    }
}

impl Usage {
    pub(super) fn add(&mut self, told: &ReportedUsage) {
        let input = told.input_tokens.or(told.prompt_tokens).unwrap_or(0);
        let output = told.output_tokens.or(told.completion_tokens).unwrap_or(0);
        let total = told.total_tokens.unwrap_or(input.saturating_add(output));
        let cached = told.input_tokens_details.or(told.prompt_tokens_details).unwrap_or_default();
        let reasoning =
            told.output_tokens_details.or(told.completion_tokens_details).unwrap_or_default();
        // A target may claim any number; a wrong sum must not stop a batch from being closed.
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.input_tokens, input);
        add(&mut self.output_tokens, output);
        add(&mut self.total_tokens, total);
        add(&mut self.input_tokens_details.cached_tokens, cached.cached_tokens);
        add(&mut self.output_tokens_details.reasoning_tokens, reasoning.reasoning_tokens);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::put_body;

    fn usage_of(bodies: &[&str]) -> (u64, u64, u64, u64, u64) {
        let mut sum = Usage::default();
        bodies.iter().for_each(|b| put_body(&mut Vec::new(), Some(b.as_bytes()), Some(&mut sum)));
        let (cached, thought) = (sum.input_tokens_details, sum.output_tokens_details);
        let (input, output, total) = (sum.input_tokens, sum.output_tokens, sum.total_tokens);
        (input, output, total, cached.cached_tokens, thought.reasoning_tokens)
    }

    #[test]
    fn both_dialects_are_added_up() {
        let chat = r#"{"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,
            "prompt_tokens_details":{"cached_tokens":3,"audio_tokens":0},
            "completion_tokens_details":{"reasoning_tokens":1}}}"#;
        let response = r#"{"usage":{"input_tokens":10,"output_tokens":20,
            "input_tokens_details":{"cached_tokens":1},"output_tokens_details":null}}"#;
        assert_eq!(usage_of(&[chat, response]), (15, 22, 37, 4, 1));
    }

    #[test]
    fn what_cannot_be_understood_counts_nothing() {
        let bodies =
            [r#"{"usage":"much"}"#, r#"{"text":"\"usage\""}"#, r#"{"usage":null}"#, "\"usage\""];
        assert_eq!(usage_of(&bodies), (0, 0, 0, 0, 0));
        let huge = format!(r#"{{"usage":{{"total_tokens":{}}}}}"#, u64::MAX);
        assert_eq!(usage_of(&[&huge, &huge]).2, u64::MAX);
    }
}
