//! Calls of this build's functions: the text is written from a function's name and the number of its
//! parameters, so that a parameter is said once, where its value is.
//!
//! Holds throughout: the name of the function's file follows the first word, where the server's
//! statistics keep it.

use std::fmt::Write as _;

use crate::migrate::functions_schema;

/// Asks for the one value of the function in `sql/<name>.sql`, as the column `answer`.
pub(crate) fn value_call(name: &str, params: usize) -> String {
    let mut text = format!("SELECT /* {name} */ ");
    write_call(&mut text, name, params);
    text.push_str(" AS answer");
    text
}

/// Asks for the rows of the function in `sql/<name>.sql`, with the columns that it names.
pub(crate) fn rows_call(name: &str, params: usize) -> String {
    let mut text = format!("SELECT /* {name} */ * FROM ");
    write_call(&mut text, name, params);
    text
}

/// Adds `schema.function($1, $2, …)`.
fn write_call(text: &mut String, name: &str, params: usize) {
    let function = name.rsplit('/').next().unwrap_or(name);
    // Writing to a string cannot fail.
    let _ = write!(text, "{}.{function}(", functions_schema());
    for no in 1..=params {
        let comma = if no == 1 { "" } else { ", " };
        let _ = write!(text, "{comma}${no}");
    }
    text.push(')');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_carries_its_name_and_a_place_for_every_parameter() {
        let schema = functions_schema();
        assert_eq!(
            value_call("claim/set_limit", 2),
            format!("SELECT /* claim/set_limit */ {schema}.set_limit($1, $2) AS answer")
        );
        assert_eq!(
            rows_call("sweep/reap", 1),
            format!("SELECT /* sweep/reap */ * FROM {schema}.reap($1)")
        );
    }
}
