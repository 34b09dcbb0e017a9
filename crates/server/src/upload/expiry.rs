//! `expires_after`: how long a file lives, as OpenAI's clients write it.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Number;
use utoipa::ToSchema;

use crate::error::{Error, Result};

/// Shortest and longest life of a file, in seconds.
const LIFE_SECS: std::ops::RangeInclusive<u64> = 3600..=2_592_000;

/// How long a file is kept after its creation.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub(crate) struct ExpiresAfter {
    #[schema(value_type = Anchor, inline)]
    anchor: String,
    #[schema(minimum = 3600, maximum = 2592000)]
    #[serde(deserialize_with = "whole")]
    seconds: u64,
}

/// The time from which the life of a file is counted.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "it is read as text, to name it in errors; here it is only described")]
pub(crate) enum Anchor {
    CreatedAt,
}

/// A whole number, also as `3600.0`: JSON has only one kind of number.
fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let number = Number::deserialize(from)?;
    let float = || number.as_f64().filter(|float| float.fract() == 0.0 && *float >= 0.0);
    // Beyond the limit it does not matter by how much.
    let bounded = |float: f64| format!("{:.0}", float.min(1e15)).parse().ok();
    let read = number.as_u64().or_else(|| float().and_then(bounded));
    read.ok_or_else(|| D::Error::custom("it must be a whole number of seconds"))
}

impl ExpiresAfter {
    pub(crate) fn new(anchor: &str, seconds: u64) -> Self {
        Self { anchor: anchor.to_owned(), seconds }
    }

    /// The seconds, when anchor and range are valid. `param` is its name in errors.
    pub(crate) fn secs(&self, param: &str) -> Result<u64> {
        if self.anchor != "created_at" {
            let message = format!("`{param}[anchor]` must be `created_at`.");
            return Err(Error::invalid(format!("{param}[anchor]"), message));
        }
        if !LIFE_SECS.contains(&self.seconds) {
            let (least, most) = (LIFE_SECS.start(), LIFE_SECS.end());
            let message = format!("`{param}[seconds]` must be between {least} and {most}.");
            return Err(Error::invalid(format!("{param}[seconds]"), message));
        }
        Ok(self.seconds)
    }
}
