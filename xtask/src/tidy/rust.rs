//! What a Rust file holds, read from its tokens: exact about strings and comments, and much
//! quicker to build than a full parser.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use super::Complaint;

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) lines: usize,
}

/// `mod name;`, with the inline modules around it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Module {
    pub(super) name: String,
    pub(super) within: Vec<String>,
    pub(super) path: Option<String>,
}

/// A string that is not an attribute's or a comment's.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) value: String,
    pub(super) line: usize,
    pub(super) in_tests: bool,
}

#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) functions: Vec<Function>,
    pub(super) modules: Vec<Module>,
    pub(super) texts: Vec<Text>,
    /// Every word of the code, attributes and what they say included.
    pub(super) words: BTreeSet<String>,
    /// Identifiers of the code alone, each with its first line.
    pub(super) identifiers: BTreeMap<String, usize>,
    /// Names of types and modules, with their lines.
    pub(super) names: Vec<(String, usize)>,
    /// Lines in the file.
    pub(super) lines: usize,
}

/// Where the walk stands.
#[derive(Clone, Default)]
struct Scope {
    within: Vec<String>,
    in_tests: bool,
}

/// What the attributes before an item say.
#[derive(Default)]
struct Attributes {
    test: bool,
    path: Option<String>,
}

impl Facts {
    pub(super) fn read(path: &str, text: &str) -> Result<Self, Complaint> {
        let stream: TokenStream = text.parse().map_err(|error: proc_macro2::LexError| {
            let line = error.span().start().line;
            Complaint::new(path, line, "is not Rust: no token can be read here")
        })?;
        let mut facts = Facts { lines: text.lines().count(), ..Facts::default() };
        facts.walk(stream, &Scope::default());
        Ok(facts)
    }

    fn walk(&mut self, stream: TokenStream, scope: &Scope) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        let mut attributes = Attributes::default();
        let mut at = 0;
        while at < trees.len() {
            let used = match &trees[at] {
                TokenTree::Punct(mark) if mark.as_char() == '#' => {
                    self.attribute(&trees[at..], &mut attributes)
                }
                TokenTree::Punct(mark) if mark.as_char() == ';' => {
                    attributes = Attributes::default();
                    1
                }
                TokenTree::Punct(_) => 1,
                TokenTree::Literal(literal) => {
                    let line = literal.span().start().line;
                    if let Some(value) = string(&literal.to_string()) {
                        self.texts.push(Text { value, line, in_tests: scope.in_tests });
                    }
                    1
                }
                TokenTree::Ident(word) => {
                    self.words.insert(word.to_string());
                    let line = word.span().start().line;
                    self.identifiers.entry(word.to_string()).or_insert(line);
                    self.item(&word.to_string(), &trees[at..], scope, &mut attributes)
                }
                TokenTree::Group(group) => {
                    let in_tests = scope.in_tests || attributes.test;
                    self.walk(group.stream(), &Scope { in_tests, ..scope.clone() });
                    if group.delimiter() == Delimiter::Brace {
                        attributes = Attributes::default();
                    }
                    1
                }
            };
            at += used;
        }
    }

    /// Reads `#[…]` or `#![…]`; how many tokens it took.
    fn attribute(&mut self, trees: &[TokenTree], attributes: &mut Attributes) -> usize {
        let (group, used) = match trees {
            [_, TokenTree::Group(group), ..] => (group, 2),
            [_, TokenTree::Punct(_), TokenTree::Group(group), ..] => (group, 3),
            _ => return 1,
        };
        let written = group.stream().to_string();
        let squeezed: String = written.chars().filter(|c| !c.is_whitespace()).collect();
        attributes.test |= squeezed == "cfg(test)" || squeezed.starts_with("cfg(all(test,");
        if let Some(path) = squeezed.strip_prefix("path=") {
            attributes.path = string(path);
        }
        self.collect_words(group);
        used
    }

    fn collect_words(&mut self, group: &Group) {
        for tree in group.stream() {
            match tree {
                TokenTree::Ident(word) => {
                    self.words.insert(word.to_string());
                }
                TokenTree::Group(inner) => self.collect_words(&inner),
                TokenTree::Literal(literal) => {
                    // `#[serde(with = "crate::module")]` names what it uses in a string.
                    let text = string(&literal.to_string()).unwrap_or_default();
                    let parts = text.split(|c: char| !c.is_alphanumeric() && c != '_');
                    self.words.extend(parts.map(str::to_owned));
                }
                TokenTree::Punct(_) => {}
            }
        }
    }

    /// Reads what a keyword begins; how many tokens it took.
    fn item(
        &mut self,
        keyword: &str,
        trees: &[TokenTree],
        scope: &Scope,
        attributes: &mut Attributes,
    ) -> usize {
        let Some(TokenTree::Ident(name)) = trees.get(1) else {
            return 1;
        };
        let (name, line) = (name.to_string(), name.span().start().line);
        match keyword {
            "struct" | "enum" | "trait" | "type" => self.names.push((name, line)),
            "mod" => {
                self.names.push((name.clone(), line));
                return self.module(name, trees, scope, std::mem::take(attributes));
            }
            "fn" => {
                let ends = |tree: &TokenTree| match tree {
                    TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                    TokenTree::Punct(mark) => mark.as_char() == ';',
                    TokenTree::Ident(_) | TokenTree::Literal(_) => false,
                };
                if let Some(TokenTree::Group(body)) = trees.iter().find(|tree| ends(tree)) {
                    let lines = body.span_close().end().line - line + 1;
                    self.functions.push(Function { name, line, lines });
                }
            }
            _ => {}
        }
        1
    }

    fn module(
        &mut self,
        name: String,
        trees: &[TokenTree],
        scope: &Scope,
        attributes: Attributes,
    ) -> usize {
        match trees.get(2) {
            Some(TokenTree::Group(body)) => {
                let mut inner = scope.clone();
                inner.within.push(name);
                inner.in_tests |= attributes.test;
                self.walk(body.stream(), &inner);
                3
            }
            Some(TokenTree::Punct(_)) => {
                let (within, path) = (scope.within.clone(), attributes.path);
                self.modules.push(Module { name, within, path });
                3
            }
            _ => 1,
        }
    }
}

/// The text of a string literal, escapes left as they are; none for other literals.
fn string(literal: &str) -> Option<String> {
    let body = literal.trim_start_matches(['b', 'c', 'r']).trim_matches('#');
    Some(body.strip_prefix('"')?.strip_suffix('"')?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r##"
//! "SELECT in a comment" mod not_here;
#[path = "other.rs"]
mod elsewhere;
mod inner { mod deep; }
fn long<'a>(x: &'a str) -> char {
    let _ = r#"raw "text""#;
    '"'
}
#[cfg(test)]
mod tests {
    fn quick() { let _ = "in tests"; }
}
struct Row;
"##;

    #[test]
    fn items_are_found_and_comments_are_not() {
        let facts = Facts::read("a.rs", SOURCE).unwrap();
        let functions: Vec<_> =
            facts.functions.iter().map(|f| (f.name.as_str(), f.line, f.lines)).collect();
        assert_eq!(functions, [("long", 6, 4), ("quick", 12, 1)]);
        let modules: Vec<_> = facts
            .modules
            .iter()
            .map(|m| (m.name.as_str(), m.within.join("/"), m.path.as_deref()))
            .collect();
        let wanted =
            [("elsewhere", String::new(), Some("other.rs")), ("deep", "inner".to_owned(), None)];
        assert_eq!(modules, wanted);
        let texts: Vec<_> = facts.texts.iter().map(|t| (t.value.as_str(), t.in_tests)).collect();
        assert_eq!(texts, [(r#"raw "text""#, false), ("in tests", true)]);
        assert!(facts.names.contains(&("Row".to_owned(), 14)));
    }

    #[test]
    fn what_is_not_rust_is_a_complaint() {
        assert!(Facts::read("a.rs", "fn open( {").is_err());
    }
}
