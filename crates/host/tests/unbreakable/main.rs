//! A cell either completes or it never happened: crashes, time-outs and memory kills cost no variable and no file.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on says so by a panic"
)]

#[path = "../contracts/support.rs"]
#[allow(dead_code, reason = "the contract tests use the rest of it")]
mod support;

#[path = "../common/working_threads.rs"]
mod working_threads;

mod attributes;
mod checkpoints;
mod crashes;
mod files;
mod flags_and_options;
mod given;
mod left_running;
mod links;
mod metadata;
mod objects;
mod open_things;
mod origin;
mod pool;
mod random_trees;
mod repeated_cells;
mod replay;
mod servers;
mod shared_maps;
mod shared_memory;
mod strategies;
mod threads;
mod undo;
mod worker_pools;
