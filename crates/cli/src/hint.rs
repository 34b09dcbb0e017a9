//! Commands that messages print, to be copied as they stand.
//!
//! Holds throughout: such a command carries the flags that this process was given and that the command
//! takes, so that it is about the same database, owner and upstream; its words are quoted for a shell.
//! A secret is never printed: the password of a URL and the value of a header that holds a key are left
//! out, as [`HIDDEN`].

use std::sync::OnceLock;

use clap::ArgMatches;

use crate::upstream::is_variable_name;

/// Stands for a secret that the user must fill in.
const HIDDEN: &str = "***";
/// Commands that take the options of an upstream.
const SENDERS: [&str; 4] = ["run", "retry", "work", "serve"];
/// Parts of the name of a header whose value is a secret.
const SECRET_NAMES: [&str; 6] = ["auth", "key", "token", "secret", "cookie", "password"];

/// The flags of this process. They do not change after the start.
static GIVEN: OnceLock<GivenFlags> = OnceLock::new();

/// The flags that were given, as words of a command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct GivenFlags {
    /// For every command: `--data`, `--database`, `--owner`, ….
    global: Vec<String>,
    /// For commands that send requests: `--concurrency`, `--rate`, ….
    upstream: Vec<String>,
    /// For those, and for `upstreams accept` and `set`: `--api-key-env`, `--header`, ….
    key: Vec<String>,
}

/// Remembers the flags of this process. The groups are those that clap makes of `Flags` and
/// `UpstreamArgs` with its `KeyArgs`, so that a new flag is carried without being named here.
pub(crate) fn remember(command: &clap::Command, matches: &ArgMatches) {
    let (mut command, mut matches, mut names) = (command, matches, vec![command]);
    while let Some((name, below)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(name) else { break };
        (command, matches) = (found, below);
        names.push(found);
    }
    let words = |group: &str| -> Vec<String> {
        let args = names.iter().copied().flat_map(|command| {
            let group = command.get_groups().find(|found| found.get_id() == group);
            let ids = group.into_iter().flat_map(|group| group.get_args());
            ids.filter_map(move |id| command.get_arguments().find(|arg| arg.get_id() == id))
        });
        args.flat_map(|arg| flag_words(arg, matches)).collect()
    };
    let given = GivenFlags {
        global: words("Flags"),
        upstream: words("UpstreamArgs"),
        key: words("KeyArgs"),
    };
    let _ = GIVEN.set(given);
}

/// A flag with its values, if it was given on the command line.
fn flag_words(arg: &clap::Arg, matches: &ArgMatches) -> Vec<String> {
    let id = arg.get_id().as_str();
    let Some(name) = arg.get_long().filter(|name| *name != "json") else { return Vec::new() };
    if matches.value_source(id) != Some(clap::parser::ValueSource::CommandLine) {
        return Vec::new();
    }
    if !arg.get_action().takes_values() {
        return vec![format!("--{name}")];
    }
    let values = matches.get_raw(id).into_iter().flatten();
    values
        .flat_map(|value| [format!("--{name}"), without_secret(name, &value.to_string_lossy())])
        .collect()
}

/// The value of a flag, without what must not be printed.
fn without_secret(flag: &str, value: &str) -> String {
    let is_secret = |name: &str| {
        let name = name.to_lowercase();
        SECRET_NAMES.iter().any(|part| name.contains(part))
    };
    match flag {
        "database" => without_password(value),
        "api-key-env" if !is_variable_name(value) => HIDDEN.to_owned(),
        "header" => match value.split_once(['=', ':']) {
            Some((name, _)) if is_secret(name) => format!("{name}={HIDDEN}"),
            _ => value.to_owned(),
        },
        "set" => match value.split_once('=') {
            Some((key @ "database", url)) => format!("{key}={}", without_password(url)),
            _ => value.to_owned(),
        },
        _ => value.to_owned(),
    }
}

/// A URL with its password replaced.
fn without_password(url: &str) -> String {
    let Ok(mut parsed) = url.parse::<url::Url>() else { return url.to_owned() };
    if parsed.password().is_none() || parsed.set_password(Some(HIDDEN)).is_err() {
        return url.to_owned();
    }
    parsed.to_string()
}

/// A command of this program with the flags that were given, to be copied.
pub(crate) fn command(words: &[&str]) -> String {
    let given = GIVEN.get().cloned().unwrap_or_default();
    line(words, &given)
}

fn line(words: &[&str], given: &GivenFlags) -> String {
    let sends = words.first().is_some_and(|command| SENDERS.contains(command));
    let upstream = if sends { given.upstream.as_slice() } else { &[] };
    let names_key = sends || words.first() == Some(&"upstreams");
    let key = if names_key { given.key.as_slice() } else { &[] };
    let flags = given.global.iter().chain(upstream).chain(key).map(String::as_str);
    let all = ["windrow"].into_iter().chain(words.iter().copied()).chain(flags);
    all.map(quoted).collect::<Vec<_>>().join(" ")
}

/// A word as a shell takes it back.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_the_flags_that_it_takes_and_no_others() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        let (global, key) = (words("--data d"), words("--header a=b"));
        let given = GivenFlags { global, upstream: words("--rate 3"), key };
        let run = line(&["run", "my file.jsonl", "--to", "http://h/"], &given);
        let wanted = "windrow run 'my file.jsonl' --to http://h/ --data d --rate 3 --header a=b";
        assert_eq!(run, wanted);
        let accept = line(&["upstreams", "accept", "http://h/"], &given);
        assert_eq!(accept, "windrow upstreams accept http://h/ --data d --header a=b");
        assert_eq!(line(&["resume", "x"], &given), "windrow resume x --data d");
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, wanted) in
            [("a-b", "a-b"), ("", "''"), ("a b", "'a b'"), ("it's", r"'it'\''s'"), ("$x", "'$x'")]
        {
            assert_eq!(quoted(word), wanted);
        }
    }

    #[test]
    fn no_secret_is_printed() {
        let database = without_secret("database", "postgres://ann:hush@db/w");
        assert_eq!(database, "postgres://ann:***@db/w");
        assert_eq!(without_secret("database", "d/windrow.db"), "d/windrow.db");
        assert_eq!(without_secret("header", "Authorization: Bearer hush"), "Authorization=***");
        assert_eq!(without_secret("header", "X-Team: hay"), "X-Team: hay");
        assert_eq!(
            without_secret("set", "database=postgres://a:hush@d/w"),
            "database=postgres://a:***@d/w"
        );
    }

    #[test]
    fn flags_are_found_by_their_groups() {
        use clap::CommandFactory as _;
        let command = crate::Cli::command();
        for (name, group) in
            [("run", "UpstreamArgs"), ("retry", "UpstreamArgs"), ("work", "UpstreamArgs")]
        {
            let command = command.find_subcommand(name).unwrap();
            assert!(command.get_groups().any(|found| found.get_id() == group), "{name}");
        }
        assert!(command.get_groups().any(|found| found.get_id() == "Flags"));
    }
}
