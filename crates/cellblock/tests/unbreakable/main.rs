//! A cell either completes or it never happened: crashes, time-outs and memory kills cost no variable and no file.

#[path = "../contracts/support.rs"]
#[allow(dead_code, reason = "the contract tests use the rest of it")]
mod support;

mod checkpoints;
mod crashes;
mod files;
mod pool;
mod undo;
