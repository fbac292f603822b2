//! Bad luck: processes of a session killed from outside at any moment, crashes in a row, memory and disk that run out.
//!
//! What must hold: every cell ends in a status; every session goes on with its state, or says that it ended and why; what was lost is told;
//! nothing hangs. The dice are seeded: `CELLBLOCK_SEED` throws the same again, up to what the machine's own timing adds.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are tests"
)]

#[path = "../common/mod.rs"]
mod common;
mod disk;
mod memory;
mod scenes;
mod storm;
mod survivor;
mod victims;
