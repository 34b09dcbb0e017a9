//! The format of recipes as a JSON Schema, for editors.

use serde_json::{Value, json};

/// The JSON Schema of a recipe.
pub fn json_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Windrow recipe",
        "type": "object",
        "additionalProperties": false,
        "required": ["try"],
        "properties": {
            "upstream": text("The name of an upstream of windrow.toml"),
            "type": text("The type of the job, for lists and filters"),
            "input": input(),
            "let": {
                "description": "Names, from top to bottom",
                "type": "object",
                "additionalProperties": expression("A value that other parts may use by this name"),
            },
            "try": {
                "description": "Strategies: the next one is asked after a miss",
                "type": "array",
                "minItems": 1,
                "items": strategy(),
            },
            "columns": {
                "description": "The columns of the result, behind those of the input",
                "type": "object",
                "additionalProperties": expression("The value of this column"),
            },
            "show": {
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "keep": texts("Input columns in the grid; all when left out"),
                    "summary": texts("Input columns in lists of pending rows"),
                    "answer": {"type": "boolean", "description": "Whether raw answers are kept"},
                },
            },
            "retry": {
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "attempts": whole("Attempts of one strategy", 1),
                    "wait_secs": whole("Seconds between two attempts, at least", 0),
                },
            },
        },
    })
}

fn text(what: &str) -> Value {
    json!({"type": "string", "description": what})
}

fn template(what: &str) -> Value {
    text(&format!("{what}; a text with {{{{ }}}} in it"))
}

fn expression(what: &str) -> Value {
    text(&format!("{what}; an expression"))
}

fn texts(what: &str) -> Value {
    json!({"type": "array", "items": {"type": "string"}, "description": what})
}

fn whole(what: &str, least: u32) -> Value {
    json!({"type": "integer", "minimum": least, "description": what})
}

fn input() -> Value {
    json!({
        "description": "How the input is read; all of it may be left out",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "format": {"enum": ["csv", "xlsx", "jsonl", "images"]},
            "delimiter": text("One letter, or `tab`"),
            "encoding": text("The name of an encoding"),
            "sheet": text("The name of a sheet"),
            "header": whole("The row of the header; 0 when there is none", 0),
            "decimal": {"enum": [".", ","]},
            "id": text("The column that labels rows"),
            "optional": texts("Columns that may be missing"),
            "image": text("The column that names a row's picture"),
            "side_max": whole("Pictures are scaled to at most that many pixels a side", 16),
            "skip": expression("Rows for which this is true are not asked for"),
        },
    })
}

fn strategy() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "name": text("What the strategy is called"),
            "upstream": text("Another upstream than the recipe's"),
            "method": {"enum": ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]},
            "path": template("The path of the request"),
            "query": {
                "type": "object",
                "additionalProperties": {"type": ["string", "number", "boolean", "array"]},
            },
            "headers": {
                "type": "object",
                "additionalProperties": {"type": ["string", "number", "boolean"]},
            },
            "body": {"type": ["object", "string"], "description": "A table, or JSON in a text"},
            "model": template("The model to ask"),
            "prompt": template("What it is asked"),
            "system": template("What it is told before"),
            "images": texts("Pictures that are sent with the prompt"),
            "json": {
                "description": "The fields of the answer: a kind, or the words that it may be",
                "type": "object",
                "additionalProperties": {"type": ["string", "array", "object"]},
            },
            "pick": expression("What was found; nothing is a miss"),
            "accept": expression("Whether what was found is good enough"),
            "busy": expression("Whether the upstream has no time now, as if it were a 429"),
            "missing": {
                "description": "The statuses that are a miss, or an expression",
                "type": ["array", "integer", "string"],
            },
        },
    })
}
