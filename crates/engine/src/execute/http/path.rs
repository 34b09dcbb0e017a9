//! The URL of an attempt: the operator's base, the line's path.
//!
//! Holds throughout: scheme, host, port and user are the base's, whatever the line says; a base's
//! path cannot be left. Checked twice: by what the line may say, and by what came of it.

use parking_lot::Mutex;
use reqwest::Url;

/// Why a line's url was refused.
pub(super) type Refused = &'static str;

/// The base URL of an upstream, to which the paths of lines are added.
#[derive(Debug)]
pub(super) struct Base {
    url: Url,
    /// `https://host:port`.
    origin: String,
    /// Without the slash at its end.
    prefix: String,
    /// With its port, and without the slash at its end.
    canonical: String,
    /// The last URL that was made: most files ask for one and the same, and parsing is what costs.
    last: Mutex<Option<Made>>,
}

/// A URL, and what it was made of.
#[derive(Debug)]
struct Made {
    line: String,
    query: Option<String>,
    url: Url,
}

impl Base {
    /// Reads a base URL.
    pub(super) fn read(text: &str) -> Result<Self, Refused> {
        if text.is_empty() {
            return Err("is missing");
        }
        let url = Url::parse(text).map_err(|_| "is not a URL such as http://localhost:8000")?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err("must begin with http:// or https://");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("must not hold a user or a password; use api_key or headers");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("must not hold a query or a fragment; a variant can add a query");
        }
        let origin = url.origin().ascii_serialization();
        let prefix = url.path().trim_end_matches('/').to_owned();
        let canonical = super::upstream_of(&url).map_err(|_| "is too long")?.into();
        Ok(Self { url, origin, prefix, canonical, last: Mutex::default() })
    }

    /// The same text for the same upstream, however it was written.
    pub(super) fn canonical(&self) -> &str {
        &self.canonical
    }

    /// Scheme, host and port.
    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    /// The host as a connection takes it, and its port.
    pub(super) fn host_and_port(&self) -> (&str, u16) {
        let host = self.url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        (host, self.url.port_or_known_default().unwrap_or(80))
    }

    pub(super) fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The URL of a line, with a query added if there is one.
    pub(super) fn join(&self, line: &str, query: Option<&str>) -> Result<Url, Refused> {
        // What is in there was whole before it was put there.
        let mut last = self.last.lock();
        if let Some(made) = &*last
            && made.line == line
            && made.query.as_deref() == query
        {
            return Ok(made.url.clone());
        }
        let url = self.make(line, query)?;
        let (line, query) = (line.to_owned(), query.map(str::to_owned));
        *last = Some(Made { line, query, url: url.clone() });
        Ok(url)
    }

    fn make(&self, line: &str, query: Option<&str>) -> Result<Url, Refused> {
        judge(line)?;
        let prefix = if self.begins(line) { "" } else { &self.prefix };
        let mut text = String::with_capacity(self.origin.len() + prefix.len() + line.len() + 16);
        text.extend([&self.origin, prefix, line]);
        if let Some(query) = query.filter(|query| !query.is_empty()) {
            text.push(if line.contains('?') { '&' } else { '?' });
            text.push_str(query);
        }
        let url = Url::parse(&text).map_err(|_| "is not a valid path")?;
        if self.holds(&url) { Ok(url) } else { Err("must not name a host") }
    }

    /// Whether a line's path names the base's path itself, as `/v1/…` does under `http://host/v1`.
    fn begins(&self, line: &str) -> bool {
        let rest = line.strip_prefix(&self.prefix);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
    }

    fn holds(&self, url: &Url) -> bool {
        let rest = url.path().strip_prefix(&self.prefix);
        url.scheme() == self.url.scheme()
            && url.host() == self.url.host()
            && url.port() == self.url.port()
            && url.username().is_empty()
            && url.password().is_none()
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// The path of a line's url, without its query.
pub(super) fn path(line: &str) -> &str {
    line.split_once('?').map_or(line, |(path, _)| path)
}

/// Whether a line may say that. Stricter than the standard, which repairs much that looks harmless.
fn judge(line: &str) -> Result<(), Refused> {
    if !line.starts_with('/') {
        return Err("must be a path that begins with `/`, without scheme and host");
    }
    if line.starts_with("//") {
        return Err("must not name a host");
    }
    if !line.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'#')) {
        return Err("must be plain ASCII without blanks, backslashes and `#`");
    }
    let path = path(line);
    if path.contains(['.', '%']) && has_dots(path) {
        return Err("must not hold `.` or `..` as a part of its path");
    }
    Ok(())
}

/// Whether a part of the path is `.` or `..`, also for a server that decodes before it looks.
fn has_dots(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    let path = path.replace("%2e", ".").replace("%2f", "/").replace("%5c", "/");
    path.split('/').any(|part| part == "." || part == "..")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn join(base: &str, line: &str) -> Result<String, Refused> {
        Base::read(base).unwrap().join(line, None).map(String::from)
    }

    #[test]
    fn a_line_adds_its_path_and_query_to_the_base() {
        for (base, line, url) in [
            ("http://h", "/v1/x", "http://h/v1/x"),
            ("http://h/", "/v1/x?a=b&c", "http://h/v1/x?a=b&c"),
            ("https://h:8443/v1", "/v1/x", "https://h:8443/v1/x"),
            ("http://h/v1/", "/v1/x", "http://h/v1/x"),
            ("http://h/v1", "/v1", "http://h/v1"),
            ("http://h/v1", "/v1?q", "http://h/v1?q"),
            ("http://h/v1", "/v1beta/x", "http://h/v1/v1beta/x"),
            ("http://h/api/v1", "/v1/x", "http://h/api/v1/v1/x"),
            ("http://h/openai", "/v1/x", "http://h/openai/v1/x"),
            ("http://h", "/users/@me", "http://h/users/@me"),
            ("http://[::1]:80", "/a.b/c..d", "http://[::1]/a.b/c..d"),
        ] {
            assert_eq!(join(base, line).as_deref(), Ok(url), "{base} {line}");
        }
        let base = Base::read("http://h/v1").unwrap();
        let with = |line, query| base.join(line, Some(query)).map(String::from);
        assert_eq!(with("/x", "seed=1").as_deref(), Ok("http://h/v1/x?seed=1"));
        assert_eq!(with("/x?y", "seed=1").as_deref(), Ok("http://h/v1/x?y&seed=1"));
    }

    #[test]
    fn a_line_that_reaches_for_another_place_is_refused() {
        for line in [
            "",
            "v1/x",
            "@evil/x",
            ":80@evil/",
            ".evil.org/x",
            "//evil/x",
            "///evil",
            "/\\evil",
            "\\\\evil",
            "http://evil/x",
            "https:evil",
            "/../x",
            "/v1/../../x",
            "/v1/./x",
            "/v1/%2e%2E/x",
            "/v1/..%2fx",
            "/v1/%2e.%5Cx",
            "/v1/..",
            "/x y",
            "/x\r\nHost: evil",
            "/x\t",
            "/x\0",
            "/x#y",
            "/ü",
        ] {
            for base in ["http://h", "http://h/v1"] {
                assert!(join(base, line).is_err(), "{base} {line:?}");
            }
        }
    }

    #[test]
    fn a_base_is_a_plain_http_url() {
        for bad in ["", "h", "localhost:8000", "ftp://h", "http://", "http://u:p@h", "http://h?q"] {
            assert!(Base::read(bad).is_err(), "{bad}");
        }
        assert_eq!(Base::read("HTTPS://H:443/x").unwrap().origin(), "https://h");
    }

    proptest! {
        #[test]
        fn no_line_changes_where_it_goes(
            line in prop_oneof![
                "/?\\PC{0,40}",
                "/{0,2}([.@:/\\\\?#%a-z0-9]|%2e|%2f|%5c|\t|\r\n|http://|evil){0,20}",
                any::<String>(),
            ],
            base in prop_oneof![
                Just("http://h"), Just("https://h:8443/v1"), Just("http://127.0.0.1:1/a/b/"),
            ],
        ) {
            let base = Base::read(base).unwrap();
            let first = base.join(&line, None);
            prop_assert_eq!(&base.join(&line, None), &first);
            if let Ok(url) = first {
                prop_assert_eq!(url.origin().ascii_serialization(), base.origin());
                prop_assert_eq!((url.username(), url.password()), ("", None));
                prop_assert!(url.path().starts_with(&base.prefix));
            }
        }
    }
}
