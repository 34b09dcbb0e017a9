//! The simple cases that need no file: flags of a command, written as the recipe that they mean.

use crate::chat::Kind;
use crate::complaint::Complaints;
use crate::recipe::Recipe;

/// What the flags of `windrow run` say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    /// The upstream by name, where there is one.
    pub upstream: Option<String>,
    /// `--prompt`.
    pub prompt: Option<String>,
    /// `--model`.
    pub model: Option<String>,
    /// `--system`.
    pub system: Option<String>,
    /// `--fields 'sentiment=positive|negative, confidence=number'`.
    pub fields: Option<String>,
    /// `--get '/search?q={{ title }}'`.
    pub get: Option<String>,
    /// `--post /path`.
    pub post: Option<String>,
    /// The body of `--post`, JSON with `{{ }}` in its texts; the whole row when it is left out.
    pub body: Option<String>,
    /// `--column price=/results/0/price`: an expression, or a pointer into what was found.
    pub columns: Vec<String>,
    /// The input is pictures, and each is sent with its prompt.
    pub images: bool,
}

impl Flags {
    /// Whether they ask for anything.
    pub fn is_empty(&self) -> bool {
        *self == Self { upstream: self.upstream.clone(), images: self.images, ..Self::default() }
    }

    /// The recipe that the flags mean, which can be read.
    pub fn recipe_text(&self) -> Result<String, Complaints> {
        let ways = [&self.prompt, &self.get, &self.post].into_iter().flatten().count();
        if ways != 1 {
            return Err(Complaints::one("give one of --prompt, --get, --post"));
        }
        let mut out = String::new();
        let mut line =
            |key: &str, value: &str| out.push_str(&format!("{key} = {}\n", quoted(value)));
        if let Some(upstream) = &self.upstream {
            line("upstream", upstream);
        }
        if self.images {
            out.push_str("\n[input]\nformat = \"images\"\n");
        }
        out.push_str(if out.is_empty() { "[[try]]\n" } else { "\n[[try]]\n" });
        match (&self.prompt, &self.get, &self.post) {
            (Some(prompt), _, _) => self.chat(prompt, &mut out)?,
            (_, Some(get), _) => out.push_str(&format!("path = {}\n", quoted(get))),
            (_, _, Some(post)) => {
                out.push_str(&format!("method = \"POST\"\npath = {}\n", quoted(post)));
                let body = self.body.as_deref().unwrap_or("{{ row }}");
                out.push_str(&format!("body = {}\n", quoted(body)));
            }
            (None, None, None) => {}
        }
        let chat_only =
            [(&self.model, "--model"), (&self.system, "--system"), (&self.fields, "--fields")];
        for (given, flag) in chat_only {
            if self.prompt.is_none() && given.is_some() {
                return Err(Complaints::one(format!("{flag} belongs to --prompt")));
            }
        }
        if self.post.is_none() && self.body.is_some() {
            return Err(Complaints::one("--body belongs to --post"));
        }
        self.write_columns(&mut out)?;
        Recipe::parse(&out).map(|_| out)
    }

    fn chat(&self, prompt: &str, out: &mut String) -> Result<(), Complaints> {
        let Some(model) = &self.model else {
            return Err(Complaints::one("--prompt needs --model"));
        };
        out.push_str(&format!("model = {}\n", quoted(model)));
        if let Some(system) = &self.system {
            out.push_str(&format!("system = {}\n", quoted(system)));
        }
        out.push_str(&format!("prompt = {}\n", quoted(prompt)));
        if self.images {
            out.push_str("images = [\"{{ image }}\"]\n");
        }
        if let Some(fields) = &self.fields {
            out.push_str(&format!("json = {{ {} }}\n", written_fields(fields)?));
        }
        Ok(())
    }

    fn write_columns(&self, out: &mut String) -> Result<(), Complaints> {
        if self.columns.is_empty() {
            return Ok(());
        }
        out.push_str("\n[columns]\n");
        for column in &self.columns {
            let Some((name, value)) = column.split_once('=') else {
                return Err(Complaints::one(format!("--column is NAME=/pointer, not `{column}`")));
            };
            let value = value.trim();
            let value = if value.starts_with('/') { pointer(value) } else { value.to_owned() };
            out.push_str(&format!("{} = {}\n", quoted(name.trim()), quoted(&value)));
        }
        Ok(())
    }
}

/// `a=x|y, b=number` as the pairs of a table.
fn written_fields(fields: &str) -> Result<String, Complaints> {
    let mut pairs = Vec::new();
    for field in fields.split(',').map(str::trim).filter(|field| !field.is_empty()) {
        let (name, kind) = field.split_once('=').unwrap_or((field, "text"));
        let (name, kind) = (name.trim(), kind.trim());
        let words: Vec<&str> = kind.split('|').map(str::trim).collect();
        let value = if words.len() > 1 {
            let words: Vec<_> = words.into_iter().map(quoted).collect();
            format!("[{}]", words.join(", "))
        } else if Kind::named(kind).is_some() {
            quoted(kind)
        } else {
            let what =
                format!("--fields: `{name}` is text, number, integer, boolean, list or a|b|c");
            return Err(Complaints::one(what));
        };
        pairs.push(format!("{} = {value}", quoted(name)));
    }
    Ok(pairs.join(", "))
}

/// A JSON pointer as an expression over what was found.
fn pointer(pointer: &str) -> String {
    let parts = pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~"));
    let steps = parts.map(|part| match part.parse::<usize>() {
        Ok(index) => format!("[{index}]"),
        Err(_) => format!("[{}]", serde_json::to_string(&part).unwrap_or_default()),
    });
    std::iter::once("it".to_owned()).chain(steps).collect()
}

/// A text as TOML has it. JSON's way of writing texts is also TOML's, but for one letter.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default().replace('\u{7f}', "\\u007f")
}
