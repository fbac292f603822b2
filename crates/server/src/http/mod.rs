//! What every request passes: the checks of `Host` and `Origin`, the security headers, and the reading of bodies.

mod attachment;
mod body;
mod compressed_bodies;
mod guard;
mod headers;
mod held_bodies;
mod held_messages;
mod json_values;

pub(crate) use attachment::{attachment, disposition};
pub(crate) use body::{JsonBody, Query};
pub(crate) use compressed_bodies::{content_codings, refuse_compressed_body, unsupported_coding};
pub(crate) use guard::{HostRules, changes_state, check_request};
pub(crate) use headers::add_security_headers;
pub(crate) use held_bodies::{HeldBodies, HeldBytes, await_short_body, hold_body};
pub(crate) use held_messages::{CountedStream, HeldMessage};
pub(crate) use json_values::{checked_values, count_values};
