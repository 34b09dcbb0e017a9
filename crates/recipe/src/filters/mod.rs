//! The written list of filters and tests, and the environment that has no others.
//!
//! Holds throughout: a filter given nothing gives nothing, and what it makes is paid for before it is
//! made (`budget`). Absent on purpose: `format`, `indent`, `range` and whatever else makes much of
//! little, files, clocks and randomness.

mod call;
mod lists;
mod numbers;
mod operators;
mod tests;
mod texts;

use std::sync::LazyLock;

use minijinja::value::{Rest, Value, ValueOrKwargs};
use minijinja::{Environment, Error, UndefinedBehavior};

use self::call::Call;
pub(crate) use self::call::at_path;
use crate::budget;

/// Frames of nested evaluation: a name of `[let]` that uses another is one.
const RECURSION_MAX: usize = 100;

/// What a filter does with what it is called with.
type Run = fn(&Call<'_>) -> Result<Value, Error>;

/// A filter: `value | name(args)`.
pub struct Filter {
    /// As it is written.
    pub name: &'static str,
    /// What it does, in a few words.
    pub what: &'static str,
    /// How many arguments it takes, at least and at most.
    pub(crate) args: (usize, usize),
    /// The arguments that have names.
    pub(crate) named: &'static [&'static str],
    run: Run,
}

/// A test: `value is name(args)`.
pub struct Test {
    /// As it is written.
    pub name: &'static str,
    /// What it asks, in a few words.
    pub what: &'static str,
    /// How many arguments it takes.
    pub(crate) args: usize,
    run: fn(&Value, Option<&Value>) -> bool,
}

/// Every filter that a recipe may use, by name.
pub const FILTERS: &[Filter] = &[
    filter("abs", "a number without its sign", (0, 0), &[], numbers::abs),
    filter("capitalize", "`red SHOES` → `Red shoes`", (0, 0), &[], texts::capitalize),
    filter(
        "default",
        "this value when there is none or an empty text",
        (1, 1),
        &[],
        lists::default,
    ),
    filter("first", "the first of a list, or the first letter", (0, 0), &[], lists::first),
    filter("float", "a text as a number: `'9.50'` → `9.5`", (0, 1), &[], numbers::float),
    filter("fromjson", "a text of JSON as a value", (0, 0), &[], texts::fromjson),
    filter("int", "a number or text as a whole number", (0, 1), &[], numbers::int),
    filter("items", "the pairs of a map as lists of two", (0, 0), &[], lists::items),
    filter("join", "a list as one text, with this between", (0, 1), &["attribute"], lists::join),
    filter("last", "the last of a list, or the last letter", (0, 0), &[], lists::last),
    filter("length", "how many values or letters there are", (0, 0), &[], lists::length),
    filter("list", "a list of the values, letters or keys", (0, 0), &[], lists::list),
    filter("lower", "in lower case", (0, 0), &[], texts::lower),
    filter("map", "one attribute or filter of each", (0, 1), &["attribute", "default"], lists::map),
    filter("max", "the largest, or the one whose attribute is", (0, 0), &["attribute"], lists::max),
    filter("min", "the least, or the one whose attribute is", (0, 0), &["attribute"], lists::min),
    filter("reject", "those that fail a test, or are empty", (0, 2), &[], lists::reject),
    filter("rejectattr", "those whose attribute fails a test", (1, 3), &[], lists::rejectattr),
    filter("replace", "a text with one part replaced by another", (2, 2), &[], texts::replace),
    filter("reverse", "a list or text from its end", (0, 0), &[], lists::reverse),
    filter("round", "a number with so many digits", (0, 1), &[], numbers::round),
    filter("select", "those that pass a test, or are not empty", (0, 2), &[], lists::select),
    filter("selectattr", "those whose attribute passes a test", (1, 3), &[], lists::selectattr),
    filter("sort", "a list in order", (0, 0), &["attribute", "reverse"], lists::sort),
    filter("split", "a text as a list, cut at this or at blanks", (0, 1), &[], texts::split),
    filter("string", "anything as a text", (0, 0), &[], texts::string),
    filter("sum", "the numbers of a list together", (0, 0), &["attribute"], numbers::sum),
    filter("title", "`red SHOES` → `Red Shoes`", (0, 0), &[], texts::title),
    filter("tojson", "a value as a text of JSON", (0, 0), &[], texts::tojson),
    filter("trim", "without blanks (or these letters) at its ends", (0, 1), &[], texts::trim),
    filter("truncate", "at most so many letters, `…` when cut", (1, 2), &[], texts::truncate),
    filter("unique", "without those that were there before", (0, 0), &["attribute"], lists::unique),
    filter("upper", "in upper case", (0, 0), &[], texts::upper),
];

/// Every test that a recipe may use, by name.
pub const TESTS: &[Test] = &[
    test("boolean", "true or false", 0, tests::boolean),
    test("containing", "a text or list with this in it", 1, tests::containing),
    test("defined", "there at all", 0, tests::defined),
    test("empty", "nothing, or an empty text, list or map", 0, tests::empty),
    test("endingwith", "a text that ends so", 1, tests::ending_with),
    test("eq", "equal", 1, tests::eq),
    test("false", "the value false", 0, tests::is_false),
    test("ge", "greater or equal", 1, tests::ge),
    test("gt", "greater", 1, tests::gt),
    test("in", "one of a list, or a part of a text", 1, tests::is_in),
    test("integer", "a whole number", 0, tests::integer),
    test("le", "less or equal", 1, tests::le),
    test("lt", "less", 1, tests::lt),
    test("mapping", "a map", 0, tests::mapping),
    test("ne", "not equal", 1, tests::ne),
    test("none", "the value none, which an empty cell has", 0, tests::none),
    test("number", "a number", 0, tests::number),
    test("sequence", "a list", 0, tests::sequence),
    test("startingwith", "a text that begins so", 1, tests::starting_with),
    test("string", "a text", 0, tests::string),
    test("true", "the value true", 0, tests::is_true),
    test("undefined", "not there at all", 0, tests::undefined),
];

const fn filter(
    name: &'static str,
    what: &'static str,
    args: (usize, usize),
    named: &'static [&'static str],
    run: Run,
) -> Filter {
    Filter { name, what, args, named, run }
}

const fn test(
    name: &'static str,
    what: &'static str,
    args: usize,
    run: fn(&Value, Option<&Value>) -> bool,
) -> Test {
    Test { name, what, args, run }
}

/// What operators become, since those of MiniJinja have no bound of ours (`operators`). Their names
/// begin with `_`, and no recipe may write them.
const OPERATORS: &[(&str, Run)] = &[
    ("_concat", operators::concat),
    ("_number", operators::number),
    ("_plus", operators::plus),
    ("_slice", operators::slice),
];

/// Whether a missing value fails the row or is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// What goes out: a missing value is an error where it is used.
    Strict,
    /// What comes in: attributes of what is missing are missing, too.
    Lenient,
}

impl Mode {
    /// The one environment of this mode, shared by all recipes.
    pub(crate) fn environment(self) -> &'static Environment<'static> {
        static STRICT: LazyLock<Environment<'static>> =
            LazyLock::new(|| environment(UndefinedBehavior::Strict));
        static LENIENT: LazyLock<Environment<'static>> =
            LazyLock::new(|| environment(UndefinedBehavior::Chainable));
        match self {
            Self::Strict => &STRICT,
            Self::Lenient => &LENIENT,
        }
    }
}

fn environment(undefined: UndefinedBehavior) -> Environment<'static> {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(undefined);
    environment.set_debug(false);
    environment.set_fuel(Some(budget::FUEL));
    environment.set_recursion_limit(RECURSION_MAX);
    let (named, plain): (Vec<_>, Vec<_>) =
        FILTERS.iter().partition(|filter| !filter.named.is_empty());
    let plain = plain.into_iter().map(|filter| (filter.name, filter.run));
    for (name, run) in plain.chain(OPERATORS.iter().copied()) {
        environment.add_filter(name, move |args: &[Value]| run(&Call::new(args)));
    }
    for filter in named {
        let run = filter.run;
        environment.add_filter(filter.name, move |args: Rest<ValueOrKwargs>| {
            run(&Call::new(&args.into_values()))
        });
    }
    for test in TESTS {
        let run = test.run;
        environment.add_test(test.name, move |args: &[Value]| match args {
            [value, rest @ ..] => run(value, rest.first()),
            [] => false,
        });
    }
    environment
}

/// The test of this name.
fn find_test(name: &str) -> Result<&'static Test, Error> {
    TESTS
        .iter()
        .find(|test| test.name == name)
        .ok_or_else(|| call::wrong(&format!("there is no test `{name}`")))
}

/// The filter of this name.
fn find_filter(name: &str) -> Result<&'static Filter, Error> {
    FILTERS
        .iter()
        .find(|filter| filter.name == name)
        .ok_or_else(|| call::wrong(&format!("there is no filter `{name}`")))
}
