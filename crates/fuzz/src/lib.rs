//! Fuzz targets: what comes from a guest, from a client of the pipe or from the code of a session cannot bring the host down, and cannot
//! make it see something else than others do.
//!
//! A target is a function from bytes. The bytes are not the input itself but the choices of a generator ([`Choices`]) that knows the
//! structure of inputs: so most of them get past the first check. The same targets run in two ways: as ordinary tests from a seed
//! ([`run`], `cargo test -p cellblock-fuzz`), and under libFuzzer, which looks for choices that reach new code (`fuzz/`).
#![forbid(unsafe_code)]
#![allow(
    clippy::panic,
    reason = "a target panics where a property does not hold"
)]

mod choices;
mod frames;
mod json;
mod loops;
mod notifications;
mod objects;
mod pipe;
mod requests;
mod terminal;

pub use choices::Choices;
pub use frames::frames;
pub use loops::run;
pub use notifications::notifications;
pub use pipe::pipe;
pub use requests::{guard, request, requests};
pub use terminal::terminal;

/// What became of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It got past every check.
    Accepted,
    /// It was refused.
    Refused,
}
