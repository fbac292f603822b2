//! The examples of the crate, run as they stand.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../examples/files.rs"]
mod files;
#[path = "../examples/hello.rs"]
mod hello;
#[path = "../examples/live_events.rs"]
mod live_events;
#[path = "../examples/many_sessions.rs"]
mod many_sessions;
#[path = "../examples/tools.rs"]
mod tools;

#[test]
fn the_example_files_runs() {
    files::main().unwrap();
}

#[test]
fn the_example_hello_runs() {
    hello::main().unwrap();
}

#[test]
fn the_example_live_events_runs() {
    live_events::main().unwrap();
}

#[test]
fn the_example_many_sessions_runs() {
    many_sessions::main().unwrap();
}

#[test]
fn the_example_tools_runs() {
    tools::main().unwrap();
}
