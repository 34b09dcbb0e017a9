//! Which requests a recipe may make that comes from a member, and not from the operator.

use crate::path::decode;

/// One kind of request that recipes may make: nothing is allowed without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allow {
    /// The upstream that it is for; without a name, the job's own.
    pub upstream: Option<String>,
    /// In capitals.
    pub method: String,
    /// `/items/*`: a `*` stands for one segment, whatever it is.
    pub path: String,
}

impl Allow {
    /// Whether a request, as it is sent, is of this kind. A query is not looked at.
    pub fn permits(&self, method: &str, path: &str) -> bool {
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        let segments: Vec<_> = path.split('/').skip(1).map(|part| Some(part.to_owned())).collect();
        path.starts_with('/') && self.covers(method, &segments)
    }

    /// Whether requests with these segments are of this kind, whatever stands where nothing is said.
    fn covers(&self, method: &str, segments: &[Option<String>]) -> bool {
        let rule: Vec<&str> = self.path.split('/').skip(1).collect();
        self.method.eq_ignore_ascii_case(method)
            && self.path.starts_with('/')
            && rule.len() == segments.len()
            && rule.iter().zip(segments).all(|(rule, segment)| match (*rule, segment) {
                ("*", None) => true,
                ("*", Some(segment)) => !segment.is_empty() && !climbs(segment),
                (_, None) => false,
                (rule, Some(segment)) => {
                    let segment = decode(segment);
                    !segment.contains('/') && decode(rule) == segment
                }
            })
    }
}

/// Whether a segment is a step to another place, however it is written.
fn climbs(segment: &str) -> bool {
    decode(segment).split(['/', '\\']).any(|part| part == "." || part == "..")
}

/// Whether one of the rules of this upstream allows such requests.
pub(crate) fn allows(
    rules: &[Allow],
    upstream: Option<&str>,
    method: &str,
    segments: &[Option<String>],
) -> bool {
    let of_upstream = rules.iter().filter(|rule| rule.upstream.as_deref() == upstream);
    of_upstream.into_iter().any(|rule| rule.covers(method, segments))
}
