//! A hundred kinds of live objects in one session: each is what it was after crashes, after an undo, and in a fork.

use crate::support::{Python, session, wait};
use cellblock_protocol::{CheckpointStatus, StateOutcome};
use serde_json::{Map, Value};
use std::env;

/// What a fork does not carry (`docs/limitations-checkpoints.md`).
const NOT_IN_FORKS: [&str; 2] = ["hard_links", "a_lock_on_a_file"];

type Said = Map<String, Value>;

fn with_objects() -> Python {
    let session = session();
    session.good(concat!(
        include_str!("objects.py"),
        include_str!("objects_files.py"),
        include_str!("objects_system.py")
    ));
    session.good("make_all()");
    session
}

/// Uses every object, which changes it, and crashes. Says what came of each use.
fn use_and_crash(session: &Python) -> Said {
    let code = "print(json.dumps(use_all()), flush=True)\nctypes.string_at(0)";
    let result = session.run(code);
    let checkpoint = &result.state.checkpoint;
    assert_eq!(
        checkpoint.status,
        CheckpointStatus::Armed,
        "{:?}",
        checkpoint.reason
    );
    assert_eq!(result.state.outcome, StateOutcome::Restored);
    assert_eq!(result.state.not_restored, Vec::<String>::new());
    serde_json::from_str(&result.stdout).unwrap()
}

fn differences<'a>(before: &'a Said, now: &'a Said) -> Vec<(&'a str, &'a Value, &'a Value)> {
    let pairs = before.iter().map(|(name, said)| (name, said, &now[name]));
    pairs
        .filter(|(_, before, now)| before != now)
        .map(|(name, before, now)| (name.as_str(), before, now))
        .collect()
}

/// How many crashes there are: 1 000 in `./test --long`, which is what `armed` promises to survive.
fn crashes() -> usize {
    if let Ok(count) = env::var("CELLBLOCK_OBJECT_CRASHES") {
        return count.parse().unwrap();
    }
    if env::var_os("CELLBLOCK_LONG").is_some() {
        1000
    } else {
        3
    }
}

#[test]
fn objects_of_every_kind_are_as_they_were_after_crashes_an_undo_and_in_a_fork() {
    let session = with_objects();
    let first = use_and_crash(&session);
    assert!(first.len() >= 96, "{}", first.len());
    for _ in 0..crashes() {
        assert_eq!(differences(&first, &use_and_crash(&session)), []);
    }
    let said = session.good("print(json.dumps(use_all()))").stdout;
    let said: Said = serde_json::from_str(&said).unwrap();
    assert_eq!(differences(&first, &said), []);
    wait(session.0.undo(1)).unwrap();
    assert_eq!(differences(&first, &use_and_crash(&session)), []);
    let fork = session.fork();
    let said = fork.good("print(json.dumps(use_all()))").stdout;
    let mut said: Said = serde_json::from_str(&said).unwrap();
    for name in NOT_IN_FORKS {
        said.insert(name.to_owned(), first[name].clone());
    }
    assert_eq!(differences(&first, &said), []);
    assert_eq!(differences(&first, &use_and_crash(&session)), []);
}
