//! The server, asked as its callers ask it.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::expect_used,
    reason = "helpers of tests are tests"
)]

mod accounts;
mod backup;
mod cells;
mod chat_branches;
mod clock;
mod cluster;
mod cluster_data;
mod common;
mod compressed_bodies;
mod demo;
mod e2b;
mod evaluations;
mod events;
mod files;
mod hosts;
mod isolation;
mod jupyter;
mod librechat;
mod openid;
mod places;
mod processes;
mod prompts;
mod quotas;
mod requests;
mod runs;
mod serving;
mod sessions;
mod shares;
mod strangers;
mod unfinished_bodies;
