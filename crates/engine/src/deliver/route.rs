//! Which message goes to which publisher.
//!
//! Holds throughout: a message can go to several publishers; their names differ, since a message
//! waits for each by name.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use windrow_domain::Owner;
use windrow_store::partition::ServedRoute;

use super::Publisher;

/// A text, or with a star at its end everything that begins like it: `orders-*`, `*`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Pattern {
    text: String,
    open: bool,
}

impl Pattern {
    /// Whether a text is what it says.
    pub fn matches(&self, text: &str) -> bool {
        if self.open { text.starts_with(&self.text) } else { text == self.text }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.text, if self.open { "*" } else { "" })
    }
}

impl From<String> for Pattern {
    fn from(text: String) -> Self {
        match text.strip_suffix('*') {
            Some(prefix) => Self { text: prefix.to_owned(), open: true },
            None => Self { text, open: false },
        }
    }
}

impl From<&str> for Pattern {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// What a route takes: one pattern of each list must match. An empty list takes everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Patterns {
    /// Patterns of owners; empty for all.
    pub owners: Vec<Pattern>,
    /// Patterns of streams; empty for all.
    pub streams: Vec<Pattern>,
    /// Patterns of kinds; empty for all.
    pub kinds: Vec<Pattern>,
}

impl Patterns {
    /// As an instance tells others of a consumer or publisher with that name.
    pub(crate) fn served(&self, name: &str) -> ServedRoute {
        let texts = |patterns: &[Pattern]| patterns.iter().map(Pattern::to_string).collect();
        ServedRoute {
            name: name.to_owned(),
            owners: texts(&self.owners),
            streams: texts(&self.streams),
            kinds: texts(&self.kinds),
        }
    }

    /// Whether such a message is taken.
    pub fn matches(&self, owner: &Owner, stream: &str, kind: &str) -> bool {
        let any = |patterns: &[Pattern], text: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(text))
        };
        any(&self.owners, owner.as_str()) && any(&self.streams, stream) && any(&self.kinds, kind)
    }
}

/// A publisher, and the messages that go to it.
#[derive(Clone)]
pub struct Route {
    /// The publisher's name.
    pub name: String,
    /// What goes to it.
    pub patterns: Patterns,
    /// The publisher that gets the messages.
    pub publisher: Arc<dyn Publisher>,
}

impl Route {
    /// Takes these messages to that publisher.
    pub fn new(patterns: Patterns, publisher: Arc<dyn Publisher>) -> Self {
        Self { name: publisher.name().to_owned(), patterns, publisher }
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Two routes have one name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two publishers are named {0:?}")]
pub struct NameTwice(pub String);

/// All routes there are.
#[derive(Clone, Debug, Default)]
pub struct Routes(Vec<Route>);

impl Routes {
    /// Refuses a name that is there twice.
    pub fn new(routes: Vec<Route>) -> Result<Self, NameTwice> {
        let routes = Self(routes);
        routes.check().map(|()| routes)
    }

    /// One route more; whether its name is there already is checked later.
    pub(crate) fn push(&mut self, route: Route) {
        self.0.push(route);
    }

    pub(crate) fn check(&self) -> Result<(), NameTwice> {
        for (at, route) in self.0.iter().enumerate() {
            if self.0[..at].iter().any(|other| other.name == route.name) {
                return Err(NameTwice(route.name.clone()));
            }
        }
        Ok(())
    }

    /// The routes that a message goes by, in the order in which they were given.
    pub fn for_message<'a>(
        &'a self,
        owner: &'a Owner,
        stream: &'a str,
        kind: &'a str,
    ) -> impl Iterator<Item = &'a Route> {
        self.0.iter().filter(move |route| route.patterns.matches(owner, stream, kind))
    }

    /// The route to the publisher of that name.
    pub fn named(&self, name: &str) -> Option<&Route> {
        self.0.iter().find(|route| route.name == name)
    }

    /// As an instance tells others of them.
    pub(crate) fn served(&self) -> Vec<ServedRoute> {
        self.0.iter().map(|route| route.patterns.served(&route.name)).collect()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use windrow_domain::attempt::Failure;

    use super::super::OutgoingMessage;
    use super::*;

    struct Named(&'static str);

    #[async_trait]
    impl Publisher for Named {
        fn name(&self) -> &str {
            self.0
        }

        async fn publish(&self, _: &OutgoingMessage) -> Result<(), Failure> {
            Ok(())
        }
    }

    fn route(name: &'static str, toml: [&[&str]; 3]) -> Route {
        let [owners, streams, kinds] =
            toml.map(|texts| texts.iter().map(|text| Pattern::from(*text)).collect());
        Route::new(Patterns { owners, streams, kinds }, Arc::new(Named(name)))
    }

    #[test]
    fn a_message_goes_to_every_route_that_takes_it() {
        let routes = Routes::new(vec![
            route("all", [&[], &[], &[]]),
            route("orders", [&[], &["orders-*", "returns"], &[]]),
            route("done", [&["acme"], &[], &["batch.completed", "batch.failed"]]),
        ])
        .unwrap();
        for (owner, stream, kind, wanted) in [
            ("acme", "orders-7", "placed", vec!["all", "orders"]),
            ("acme", "orders", "placed", vec!["all"]),
            ("acme", "returns", "batch.completed", vec!["all", "orders", "done"]),
            ("acme", "returns-1", "batch.completed.x", vec!["all"]),
            ("other", "x", "batch.completed", vec!["all"]),
        ] {
            let owner = Owner::new(owner).unwrap();
            let found: Vec<&str> =
                routes.for_message(&owner, stream, kind).map(|route| &*route.name).collect();
            assert_eq!(found, wanted, "{owner} {stream} {kind}");
        }
        assert!(routes.named("done").is_some() && routes.named("gone").is_none());
    }

    #[test]
    fn two_publishers_of_one_name_are_refused() {
        let twice = vec![route("a", [&[], &[], &[]]), route("a", [&[], &["x"], &[]])];
        assert_eq!(Routes::new(twice).unwrap_err(), NameTwice("a".to_owned()));
    }
}
