//! What the message plane costs.

mod instance;
mod latency;
mod relay;
mod takeover;

pub(crate) use instance::{Instance, serve};
pub(crate) use latency::latency;
pub(crate) use relay::relay;
pub(crate) use takeover::takeover;
