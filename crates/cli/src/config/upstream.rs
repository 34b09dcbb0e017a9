//! Stand-in.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Upstream {
    pub(crate) base_url: String,
    pub(crate) connect_ms_max: Option<u64>,
}
