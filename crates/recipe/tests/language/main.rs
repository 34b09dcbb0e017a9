//! The language of recipes as tables and properties: one binary, so that it links once.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod complaints;
mod escaping;
mod examples;
mod expressions;
mod flags;

mod properties;
mod rules;
mod support;
