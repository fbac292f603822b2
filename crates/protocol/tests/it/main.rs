//! One binary for all tests of the crate: linking is the slow part.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod cell;
mod codec;
mod credential;
mod files;
mod for_model;
mod guest;
mod hostile;
mod isolation;
mod limits;
mod network;
mod options;
mod pipe;
mod result;
mod sample;
mod text;
