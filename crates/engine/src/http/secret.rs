//! What must not be shown: keys, and addresses that hold a password.
//!
//! Holds throughout: `Debug` shows where a secret is kept, never what it is.

use std::fmt;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize;

/// A secret: the text itself, `{ env = "NAME" }` or `{ file = "PATH" }`.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Secret {
    /// The secret itself.
    Plain(String),
    /// In a variable of the environment.
    Env {
        /// The name of the variable.
        env: String,
    },
    /// In a file, alone.
    File {
        /// Where the file is.
        file: PathBuf,
    },
}

/// An option that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} {because}")]
pub struct BadOption {
    /// The name of the option.
    pub name: &'static str,
    /// What is wrong with it; holds no secret.
    pub because: String,
}

impl BadOption {
    /// An option that cannot be used, and why.
    pub fn new(name: &'static str, because: impl Into<String>) -> Self {
        Self { name, because: because.into() }
    }

    /// Refuses a number that is not 1 to `max`.
    pub fn unless_within(name: &'static str, value: u64, max: u64) -> Result<(), Self> {
        if (1..=max).contains(&value) {
            Ok(())
        } else {
            Err(Self::new(name, format!("must be 1 to {max}, not {value}")))
        }
    }
}

impl Secret {
    /// The secret, read from where it is. `name` is the option that holds it.
    pub fn read(&self, name: &'static str) -> Result<String, BadOption> {
        let text = match self {
            Secret::Plain(text) => Ok(text.clone()),
            Secret::Env { env } => std::env::var(env)
                .map_err(|_| BadOption::new(name, format!("needs the variable {env}, not set"))),
            Secret::File { file } => fs::read_to_string(file).map_err(|error| {
                let because = format!("could not be read from {}: {error}", file.display());
                BadOption::new(name, because)
            }),
        }?;
        match text.trim() {
            "" => Err(BadOption::new(name, "is empty")),
            text => Ok(text.to_owned()),
        }
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Secret::Plain(text.to_owned())
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Secret::Plain(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Secret::Plain(_) => f.write_str("Secret(…)"),
            Secret::Env { env } => write!(f, "Secret(env {env})"),
            Secret::File { file } => write!(f, "Secret(file {})", file.display()),
        }
    }
}

/// An address for people: the scheme, the host and the port. The rest may hold a secret.
pub fn shown(address: &str) -> String {
    let (scheme, rest) = match address.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), address),
    };
    // A password may hold a slash that was not escaped, so the account ends at the last `@`.
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    format!("{scheme}{}", &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_account_and_path() {
        for (address, wanted) in [
            ("nats://me:pa/ss@host:4222", "nats://host:4222"),
            ("amqp://host/vhost?x=y", "amqp://host"),
            ("https://hooks.example/T0/secret", "https://hooks.example"),
            ("host:6379", "host:6379"),
            ("me:pw@host", "host"),
        ] {
            assert_eq!(shown(address), wanted);
        }
    }

    #[test]
    fn a_secret_is_read_from_its_place_and_never_shown() {
        #[derive(Deserialize)]
        struct Options {
            secrets: Vec<Secret>,
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "from-file\n").unwrap();
        let json = serde_json::json!({ "secrets": [
            "hidden", { "env": "WINDROW_NO_SUCH_VARIABLE" }, { "file": file.path() },
        ] });
        let Options { secrets } = serde_json::from_value(json).unwrap();
        assert_eq!(secrets[0].read("url").unwrap(), "hidden");
        let error = secrets[1].read("url").unwrap_err().to_string();
        assert_eq!(error, "url needs the variable WINDROW_NO_SUCH_VARIABLE, not set");
        assert_eq!(secrets[2].read("url").unwrap(), "from-file");
        assert!(!format!("{secrets:?}").contains("hidden"));
        assert_eq!(Secret::from(" ").read("url").unwrap_err().because, "is empty");
    }
}
