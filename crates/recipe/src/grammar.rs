//! Reads an expression: which names, filters and operators it uses, each with its place, and writes it
//! anew with bounded operators (`filters::operators`) and with names that were looked up.
//!
//! Holds throughout: only what is listed here passes; a construct that MiniJinja knows and this file
//! does not is refused. The text is counted before it is parsed, since the parser and whatever walks
//! its tree go as deep as a chain is long.

use minijinja::machinery::ast::{self, BinOpKind, CallArg, CompareOpKind, Expr, UnaryOpKind};
use minijinja::machinery::{Span, Token, parse_expr, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Value, ValueKind};

use crate::complaint::similar;
use crate::filters::{FILTERS, TESTS};
use crate::names::{Known, Level, MEMBERS, Names};

/// An expression has at most that many names, operators and brackets.
const STEPS_MAX: usize = 250;
/// An expression has at most that many bytes.
const EXPRESSION_BYTES_MAX: usize = 16 << 10;

/// Something wrong in an expression: where in its text, what, and the word that was meant.
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) what: String,
    pub(crate) instead: Option<String>,
}

/// An expression that was read.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    /// As MiniJinja gets it.
    pub(crate) rewritten: String,
    /// What has to be known before it can be computed.
    pub(crate) level: Level,
    /// The columns that it names, as slots.
    pub(crate) columns: Vec<usize>,
    /// The name, if it is nothing but one column.
    pub(crate) lone_column: Option<usize>,
}

/// Reads one expression.
pub(crate) fn read(text: &str, names: &mut Names) -> Result<Read, Vec<Fault>> {
    count(text).map_err(|fault| vec![fault])?;
    let parsed = parse_expr(text).map_err(|error| {
        let at = error.range().map_or(0, |range| range.start);
        let what = error.detail().unwrap_or("this is no expression");
        vec![Fault { at, what: format!("cannot be read: {what}"), instead: None }]
    })?;
    let mut reader = Reader {
        names,
        faults: Vec::new(),
        level: Level::Row,
        columns: Vec::new(),
        out: String::with_capacity(text.len() * 2),
    };
    reader.expr(&parsed);
    if !reader.faults.is_empty() {
        return Err(reader.faults);
    }
    let Reader { level, columns, out, .. } = reader;
    let lone_column = match (&parsed, columns.as_slice()) {
        (Expr::Var(_) | Expr::GetAttr(_), [slot]) if out == format!("c{slot}") => Some(*slot),
        _ => None,
    };
    Ok(Read { rewritten: out, level, columns, lone_column })
}

/// Refuses texts that are too long or too deep to be parsed.
fn count(text: &str) -> Result<(), Fault> {
    let fault = |at: usize, what: String| Err(Fault { at, what, instead: None });
    if text.len() > EXPRESSION_BYTES_MAX {
        return fault(0, format!("an expression has at most {EXPRESSION_BYTES_MAX} bytes"));
    }
    let mut steps = 0;
    for token in tokenize(text, true, SyntaxConfig::default()) {
        let (token, span) = match token {
            Ok(found) => found,
            Err(error) => {
                let at = error.range().map_or(0, |range| range.start);
                let what = error.detail().unwrap_or("this is no expression");
                return fault(at, format!("cannot be read: {what}"));
            }
        };
        let is_step = !matches!(
            token,
            Token::Comma
                | Token::Colon
                | Token::Str(_)
                | Token::String(_)
                | Token::Int(_)
                | Token::Float(_)
        );
        steps += usize::from(is_step);
        if steps > STEPS_MAX {
            let what =
                format!("an expression has at most {STEPS_MAX} names, operators and brackets");
            return fault(span.start_offset as usize, what);
        }
    }
    Ok(())
}

struct Reader<'a> {
    names: &'a mut Names,
    faults: Vec<Fault>,
    level: Level,
    columns: Vec<usize>,
    out: String,
}

impl Reader<'_> {
    fn fault(&mut self, span: Span, what: impl Into<String>, instead: Option<String>) {
        self.faults.push(Fault { at: span.start_offset as usize, what: what.into(), instead });
    }

    fn emit(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn expr(&mut self, expr: &Expr<'_>) {
        match expr {
            Expr::Var(name) => self.name(name.id, name.span()),
            Expr::Const(value) => self.constant(&value.value, value.span()),
            Expr::UnaryOp(op) => {
                self.emit(match op.op {
                    UnaryOpKind::Not => "(not ",
                    UnaryOpKind::Neg => "(-",
                });
                self.expr(&op.expr);
                self.emit(")");
            }
            Expr::BinOp(op) => self.operator(op.op, &op.left, &op.right),
            Expr::Compare(chain) => {
                self.emit("(");
                self.expr(&chain.expr);
                for part in &chain.ops {
                    self.emit(comparison(part.op));
                    self.expr(&part.expr);
                }
                self.emit(")");
            }
            Expr::IfExpr(choice) => self.choice(choice),
            Expr::Filter(filter) => self.filter(filter, filter.span()),
            Expr::Test(test) => self.test(test, test.span()),
            Expr::GetAttr(attr) => self.attribute(&attr.expr, attr.name, attr.span()),
            Expr::GetItem(found) => self.subscript(&found.expr, &found.subscript_expr),
            Expr::Slice(slice) => self.slice(slice),
            Expr::Call(call) => self.call(call, call.span()),
            Expr::List(list) => self.list(&list.items),
            Expr::Tuple(tuple) => self.list(&tuple.items),
            Expr::Map(map) => {
                self.emit("{");
                for (index, (key, value)) in map.keys.iter().zip(&map.values).enumerate() {
                    self.emit(if index > 0 { "," } else { "" });
                    self.expr(key);
                    self.emit(":");
                    self.expr(value);
                }
                self.emit("}");
            }
        }
    }

    fn constant(&mut self, value: &Value, span: Span) {
        let written = match value.kind() {
            ValueKind::String => {
                serde_json::to_string(value.as_str().unwrap_or_default()).unwrap_or_default()
            }
            ValueKind::Bool => value.is_true().to_string(),
            ValueKind::Number if value.is_integer() => value.to_string(),
            ValueKind::Number => match f64::try_from(value.clone()) {
                Ok(number) if number.is_finite() => format!("{number:?}"),
                _ => return self.fault(span, "this number is too large", None),
            },
            _ => "none".to_owned(),
        };
        self.emit(&written);
    }

    fn operator(&mut self, op: BinOpKind, left: &Expr<'_>, right: &Expr<'_>) {
        let (before, between, after) = match op {
            BinOpKind::Concat => ("((", ")|_concat(", "))"),
            BinOpKind::Add => ("((", ")|_plus(", "))"),
            BinOpKind::Mul => ("((", ")|_number*(", ")|_number)"),
            BinOpKind::Eq => ("(", "==", ")"),
            BinOpKind::Ne => ("(", "!=", ")"),
            BinOpKind::Lt => ("(", "<", ")"),
            BinOpKind::Lte => ("(", "<=", ")"),
            BinOpKind::Gt => ("(", ">", ")"),
            BinOpKind::Gte => ("(", ">=", ")"),
            BinOpKind::ScAnd => ("(", " and ", ")"),
            BinOpKind::ScOr => ("(", " or ", ")"),
            BinOpKind::Sub => ("(", "-", ")"),
            BinOpKind::Div => ("(", "/", ")"),
            BinOpKind::FloorDiv => ("(", "//", ")"),
            BinOpKind::Rem => ("(", "%", ")"),
            BinOpKind::Pow => ("(", "**", ")"),
            BinOpKind::In => ("(", " in ", ")"),
        };
        self.emit(before);
        self.expr(left);
        self.emit(between);
        self.expr(right);
        self.emit(after);
    }

    fn choice(&mut self, choice: &ast::IfExpr<'_>) {
        self.emit("(");
        self.expr(&choice.true_expr);
        self.emit(" if ");
        self.expr(&choice.test_expr);
        if let Some(other) = &choice.false_expr {
            self.emit(" else ");
            self.expr(other);
        }
        self.emit(")");
    }

    fn list(&mut self, values: &[Expr<'_>]) {
        self.emit("[");
        for (index, value) in values.iter().enumerate() {
            self.emit(if index > 0 { "," } else { "" });
            self.expr(value);
        }
        self.emit("]");
    }

    fn slice(&mut self, slice: &ast::Slice<'_>) {
        self.emit("((");
        self.expr(&slice.expr);
        self.emit(")|_slice(");
        for (index, bound) in [&slice.start, &slice.stop, &slice.step].into_iter().enumerate() {
            self.emit(if index > 0 { "," } else { "" });
            match bound {
                Some(bound) => self.expr(bound),
                None => self.emit("none"),
            }
        }
        self.emit("))");
    }

    fn name(&mut self, name: &str, span: Span) {
        match self.names.find(name, span.start_offset as usize) {
            Ok(Known::Column(slot)) => self.column(slot),
            Ok(Known::Let(slot, level)) => {
                self.level = self.level.max(level);
                self.emit(&format!("l{slot}"));
            }
            Ok(Known::Reserved(level)) => {
                self.level = self.level.max(level);
                if name == "row" {
                    self.names.whole_row = true;
                }
                self.emit(name);
            }
            Err(what) => self.fault(span, what, None),
        }
    }

    fn column(&mut self, slot: usize) {
        if !self.columns.contains(&slot) {
            self.columns.push(slot);
        }
        self.emit(&format!("c{slot}"));
    }

    fn attribute(&mut self, of: &Expr<'_>, name: &str, span: Span) {
        if let Expr::Var(var) = of {
            if var.id == "row" {
                // The place of the attribute, not of `row`.
                let slot = self.names.column(name, span.start_offset as usize);
                return self.column(slot);
            }
            let members = MEMBERS.iter().find(|(object, _)| *object == var.id);
            if let Some((object, members)) = members.filter(|(_, members)| !members.contains(&name))
            {
                let instead = similar(name, members.iter().copied());
                let what = format!("`{object}` has {}, and no `{name}`", members.join(", "));
                return self.fault(span, what, instead);
            }
        }
        self.operand(of);
        self.emit(".");
        self.emit(name);
    }

    /// An operand whose own end is clear needs no brackets.
    fn operand(&mut self, expr: &Expr<'_>) {
        let plain = matches!(expr, Expr::Var(_) | Expr::GetAttr(_) | Expr::GetItem(_));
        self.emit(if plain { "" } else { "(" });
        self.expr(expr);
        self.emit(if plain { "" } else { ")" });
    }

    fn subscript(&mut self, of: &Expr<'_>, index: &Expr<'_>) {
        if let Expr::Var(var) = of
            && var.id == "row"
        {
            let known = match index {
                Expr::Const(value) => value.value.as_str(),
                _ => None,
            };
            let Some(name) = known else {
                return self.fault(var.span(), "write the name of the column: `row.name`", None);
            };
            let slot = self.names.column(name, index.span().start_offset as usize);
            return self.column(slot);
        }
        self.operand(of);
        self.emit("[");
        self.expr(index);
        self.emit("]");
    }

    fn call(&mut self, call: &ast::Call<'_>, span: Span) {
        let (what, name) = match &call.expr {
            Expr::Var(name) => (format!("there are no functions: `{}(…)`", name.id), name.id),
            Expr::GetAttr(attr) => {
                (format!("there are no methods: `.{}(…)`", attr.name), attr.name)
            }
            _ => ("there are no functions".to_owned(), ""),
        };
        let filter = FILTERS.iter().find(|filter| filter.name == name);
        self.fault(span, what, filter.map(|filter| format!("… | {}", filter.name)));
    }

    fn filter(&mut self, filter: &ast::Filter<'_>, span: Span) {
        let Some(known) = FILTERS.iter().find(|known| known.name == filter.name) else {
            let instead = similar(filter.name, FILTERS.iter().map(|known| known.name));
            return self.fault(span, format!("there is no filter `{}`", filter.name), instead);
        };
        let plain = filter.args.iter().filter(|arg| matches!(arg, CallArg::Pos(_))).count();
        let (least, most) = known.args;
        if !(least..=most).contains(&plain) {
            let wanted =
                if least == most { most.to_string() } else { format!("{least} to {most}") };
            let what = format!("`{}` takes {wanted} arguments, not {plain}", filter.name);
            return self.fault(span, what, None);
        }
        self.words_of_lists(filter, span);
        self.emit("(");
        if let Some(value) = &filter.expr {
            self.operand(value);
        }
        self.emit("|");
        self.emit(known.name);
        self.arguments(&filter.args, known.named, span);
        self.emit(")");
    }

    /// `map('lower')` and `selectattr('price', 'gt', 5)` name filters and tests in texts.
    fn words_of_lists(&mut self, filter: &ast::Filter<'_>, span: Span) {
        let word = |index: usize| match filter.args.get(index) {
            Some(CallArg::Pos(Expr::Const(value))) => value.value.as_str().map(str::to_owned),
            _ => None,
        };
        let (word, known): (_, Vec<&str>) = match filter.name {
            "map" => (word(0), FILTERS.iter().map(|known| known.name).collect()),
            "select" | "reject" => (word(0), TESTS.iter().map(|known| known.name).collect()),
            "selectattr" | "rejectattr" => {
                (word(1), TESTS.iter().map(|known| known.name).collect())
            }
            _ => return,
        };
        if let Some(word) = word.filter(|word| !known.contains(&word.as_str())) {
            let kind = if filter.name == "map" { "filter" } else { "test" };
            let instead = similar(&word, known);
            self.fault(span, format!("there is no {kind} `{word}`"), instead);
        }
    }

    fn test(&mut self, test: &ast::Test<'_>, span: Span) {
        let Some(known) = TESTS.iter().find(|known| known.name == test.name) else {
            let instead = similar(test.name, TESTS.iter().map(|known| known.name));
            return self.fault(span, format!("there is no test `is {}`", test.name), instead);
        };
        if known.args != test.args.len() {
            let what = format!("`is {}` takes {} arguments", test.name, known.args);
            return self.fault(span, what, None);
        }
        self.emit("(");
        self.operand(&test.expr);
        self.emit(" is ");
        self.emit(known.name);
        self.arguments(&test.args, &[], span);
        self.emit(")");
    }

    fn arguments(&mut self, args: &[CallArg<'_>], named: &[&str], span: Span) {
        if args.is_empty() {
            return;
        }
        self.emit("(");
        for (index, arg) in args.iter().enumerate() {
            self.emit(if index > 0 { "," } else { "" });
            match arg {
                CallArg::Pos(value) => self.expr(value),
                CallArg::Kwarg(name, value) if named.contains(name) => {
                    self.emit(name);
                    self.emit("=");
                    self.expr(value);
                }
                CallArg::Kwarg(name, value) => {
                    let instead = similar(name, named.iter().copied());
                    self.fault(
                        value.span(),
                        format!("there is no argument `{name}` here"),
                        instead,
                    );
                }
                CallArg::PosSplat(_) | CallArg::KwargSplat(_) => {
                    self.fault(span, "arguments are written one by one", None);
                }
            }
        }
        self.emit(")");
    }
}

fn comparison(op: CompareOpKind) -> &'static str {
    match op {
        CompareOpKind::Eq => "==",
        CompareOpKind::Ne => "!=",
        CompareOpKind::Lt => "<",
        CompareOpKind::Lte => "<=",
        CompareOpKind::Gt => ">",
        CompareOpKind::Gte => ">=",
        CompareOpKind::In => " in ",
        CompareOpKind::NotIn => " not in ",
    }
}
