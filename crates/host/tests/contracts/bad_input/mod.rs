//! Bad input and bad luck: each gets a clear error or status, and nothing is lost.

mod code;
mod options;
mod pythons;
mod workspaces;

use cellblock_host::Error;

/// What a program and what a person is told.
fn words(error: Error) -> (&'static str, String) {
    (error.code(), error.to_string())
}
