//! Libraries that people use, tried one by one: does each work in a session, is the session armed with it, and is its live state the
//! same after crashes, an undo and a fork?
//!
//! Each library gets an environment of its own, which is removed afterwards, so this takes long and needs the package index.
//!
//! | variable | effect |
//! | --- | --- |
//! | `CELLBLOCK_LONG` | all libraries; without it only those of the default environment, with 3 crashes each |
//! | `CELLBLOCK_ONLY_LIBRARY` | only the library of this name; several are separated by commas |
//! | `CELLBLOCK_LIBRARY_CRASHES` | how many crashes each library gets |
//! | `CELLBLOCK_WRITE_TABLE` | the rows of the libraries that were tried are written to `docs/libraries.md` |
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on says so by a panic"
)]

mod environment;
mod examples;
mod pipe;
mod table;

use environment::Environment;
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
    /// How many crashes the long run makes.
    #[serde(default = "common_crashes")]
    crashes: usize,
    setup: String,
    r#use: String,
}

fn common_crashes() -> usize {
    20
}

impl Library {
    /// What is installed for it; nothing where the default environment has it.
    fn requirements(&self) -> Vec<String> {
        if self.in_default_environment {
            Vec::new()
        } else if self.packages.is_empty() {
            vec![self.name.clone()]
        } else {
            self.packages.clone()
        }
    }
}

/// How often a session forks, and each fork is used.
const FORKS: usize = 3;
/// How many crashes are made without `CELLBLOCK_LONG`.
const SHORT_CRASHES: usize = 3;

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
    let crashes = env::var("CELLBLOCK_LIBRARY_CRASHES")
        .ok()
        .map(|count| count.parse::<usize>().unwrap());
    let catalogue: Catalogue = toml::from_str(include_str!("libraries.toml")).unwrap();
    let order: Vec<&str> = names(&catalogue.library).collect();
    let chosen = catalogue.library.iter().filter(|library| match &only {
        Some(names) => names.split(',').any(|name| name == library.name),
        None => is_long || library.in_default_environment,
    });
    let mut environment = Environment::for_requirements(Vec::new());
    let mut rows = Vec::new();
    for library in chosen {
        if environment.requirements != library.requirements() {
            environment = Environment::for_requirements(library.requirements());
        }
        let count = crashes.unwrap_or(if is_long {
            library.crashes
        } else {
            SHORT_CRASHES
        });
        let row = try_library(library, &environment, count);
        println!("{row}");
        // After each library: a run of hours may be cut off.
        if env::var_os("CELLBLOCK_WRITE_TABLE").is_some() {
            table::write(&row, &order);
        }
        rows.push(row);
    }
    assert!(!rows.is_empty(), "no library was chosen");
    // A library may fail to be carried; what it must not do is to be called armed and then differ.
    let lies: Vec<&Row> = rows.iter().filter(|row| row.is_a_lie()).collect();
    assert!(lies.is_empty(), "{lies:#?}");
}

fn names(libraries: &[Library]) -> impl Iterator<Item = &str> {
    libraries.iter().map(|library| library.name.as_str())
}

fn try_library(library: &Library, environment: &Environment, crashes: usize) -> Row {
    let mut row = Row::new(&library.name);
    let mut pipe = Pipe::start(environment);
    if let Err(problem) = pipe.open(&environment.choice()) {
        row.note = problem;
        return row;
    }
    let setup = pipe.run(&library.setup);
    let first = pipe.run(&library.r#use);
    // What the first use starts (a pool, a compiler) is part of the state from here on.
    let second = pipe.run(&library.r#use);
    if setup.status != "success" || first.status != "success" || second.value != first.value {
        row.works = Verdict::No;
        row.note = format!("{}{}{}", setup.error, first.error, second.error);
        return row;
    }
    row.works = Verdict::Yes;
    row.armed = if second.is_armed {
        Verdict::Yes
    } else {
        Verdict::No
    };
    row.note.clone_from(&second.reason);
    row.crash = survives_crashes(&mut pipe, library, &first, crashes);
    row.undo = survives_undo(&mut pipe, library, &first);
    row.fork = survives_forks(&mut pipe, library, &first);
    row
}

fn survives_crashes(pipe: &mut Pipe, library: &Library, first: &Answer, count: usize) -> Verdict {
    for number in 0..count {
        let crash = pipe.run(CRASHES[number % CRASHES.len()]);
        if crash.outcome != "restored" {
            let what = format!("{} instead of restored", crash.outcome);
            return Verdict::after(crash.is_armed, what);
        }
        let after = pipe.run(&library.r#use);
        if after.value != first.value {
            return Verdict::after(
                crash.is_armed,
                format!("crash {}: {}", number + 1, after.told()),
            );
        }
    }
    Verdict::Times(count)
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
        Verdict::after(extra.is_armed, after.told())
    }
}

/// Each fork is used, crashes, and is used again; the session it came from is used beside it.
fn survives_forks(pipe: &mut Pipe, library: &Library, first: &Answer) -> Verdict {
    for _ in 0..FORKS {
        let fork = match pipe.ask("fork") {
            Ok(answer) => answer["session"].as_str().unwrap_or_default().to_owned(),
            Err(problem) => return Verdict::Because(problem),
        };
        let copied = pipe.run_in(&fork, &library.r#use);
        let own = pipe.run(&library.r#use);
        let crash = pipe.run_in(&fork, CRASHES[0]);
        let after = pipe.run_in(&fork, &library.r#use);
        let uses = [
            ("fork", &copied),
            ("parent", &own),
            ("crashed fork", &after),
        ];
        for (which, answer) in uses {
            if answer.value != first.value {
                return Verdict::after(crash.is_armed, format!("{which}: {}", answer.told()));
            }
        }
        pipe.close(&fork);
    }
    Verdict::Yes
}
