//! Libraries that people use, tried one by one: does each work in a session, is the session armed with it, and is its live state the
//! same after crashes, an undo and a fork?
//!
//! Each library gets an environment of its own, so this takes long and needs the package index: without `CELLBLOCK_LONG` only those of
//! the default environment are tried. With `CELLBLOCK_WRITE_TABLE` the table in `docs/libraries.md` is written anew.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on says so by a panic"
)]

mod pipe;
mod table;

use pipe::{Answer, Pipe};
use serde::Deserialize;
use std::env;
use table::{Row, Verdict};

#[derive(Deserialize)]
struct Catalogue {
    library: Vec<Library>,
}

#[derive(Deserialize)]
struct Library {
    name: String,
    /// Names on the package index; the library's own name where none are given.
    #[serde(default)]
    packages: Vec<String>,
    /// Whether the default environment has it.
    #[serde(default)]
    in_default_environment: bool,
    setup: String,
    r#use: String,
}

/// Ways to end a process that no `except` sees.
const CRASHES: [&str; 3] = [
    "import ctypes; ctypes.string_at(0)",
    "import os; os.kill(os.getpid(), 6)",
    "import os; os._exit(3)",
];

#[test]
fn live_state_of_libraries_is_the_same_after_crash_undo_and_fork() {
    let is_long = env::var_os("CELLBLOCK_LONG").is_some();
    let only = env::var("CELLBLOCK_ONLY_LIBRARY").ok();
    let catalogue: Catalogue = toml::from_str(include_str!("libraries.toml")).unwrap();
    let chosen = catalogue.library.iter().filter(|library| match &only {
        Some(name) => *name == library.name,
        None => is_long || library.in_default_environment,
    });
    let rows: Vec<Row> = chosen
        .map(|library| {
            let row = try_library(library, is_long);
            println!("{row}");
            row
        })
        .collect();
    assert!(!rows.is_empty(), "no library was chosen");
    if env::var_os("CELLBLOCK_WRITE_TABLE").is_some() {
        table::write(&rows);
    }
    // A library may fail to be carried; what it must not do is to be called armed and then differ.
    let lies: Vec<&Row> = rows.iter().filter(|row| row.is_a_lie()).collect();
    assert!(lies.is_empty(), "{lies:#?}");
}

fn try_library(library: &Library, is_long: bool) -> Row {
    let mut row = Row::new(&library.name);
    let mut pipe = Pipe::start();
    if let Err(problem) = pipe.open(&environment_of(library)) {
        row.note = problem;
        return row;
    }
    let setup = pipe.run(&library.setup);
    let first = pipe.run(&library.r#use);
    if setup.status != "success" || first.status != "success" {
        row.works = Verdict::No;
        row.note = format!("{}{}", setup.error, first.error);
        return row;
    }
    row.works = Verdict::Yes;
    row.armed = if first.is_armed {
        Verdict::Yes
    } else {
        Verdict::No
    };
    row.note.clone_from(&first.reason);
    row.crash = survives_crashes(&mut pipe, library, &first, if is_long { 30 } else { 3 });
    row.undo = survives_undo(&mut pipe, library, &first);
    row.fork = survives_fork(&mut pipe, library, &first);
    row
}

fn environment_of(library: &Library) -> String {
    if library.in_default_environment {
        return "default".to_owned();
    }
    let names = if library.packages.is_empty() {
        std::slice::from_ref(&library.name)
    } else {
        &library.packages
    };
    let directory = env::temp_dir().join(format!("cellblock-libraries-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("requirements.txt");
    std::fs::write(&file, names.join("\n")).unwrap();
    file.display().to_string()
}

fn survives_crashes(pipe: &mut Pipe, library: &Library, first: &Answer, count: usize) -> Verdict {
    for number in 0..count {
        let crash = pipe.run(CRASHES[number % CRASHES.len()]);
        if crash.outcome != "restored" {
            return Verdict::Because(format!("{} instead of restored", crash.outcome));
        }
        let after = pipe.run(&library.r#use);
        if after.value != first.value {
            return Verdict::differs(crash.is_armed, &after);
        }
    }
    Verdict::Yes
}

fn survives_undo(pipe: &mut Pipe, library: &Library, first: &Answer) -> Verdict {
    let extra = pipe.run("undone = 1");
    if let Err(problem) = pipe.ask("undo") {
        return Verdict::Because(problem);
    }
    let after = pipe.run(&library.r#use);
    if after.value == first.value {
        Verdict::Yes
    } else {
        Verdict::differs(extra.is_armed, &after)
    }
}

fn survives_fork(pipe: &mut Pipe, library: &Library, first: &Answer) -> Verdict {
    let fork = match pipe.ask("fork") {
        Ok(answer) => answer["session"].as_str().unwrap_or_default().to_owned(),
        Err(problem) => return Verdict::Because(problem),
    };
    let (own, copied) = (pipe.run(&library.r#use), pipe.run_in(&fork, &library.r#use));
    if own.value == first.value && copied.value == first.value {
        Verdict::Yes
    } else {
        Verdict::differs(true, &copied)
    }
}
