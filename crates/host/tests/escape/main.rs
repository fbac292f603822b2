//! The escape corpus: snippets that try to get out of a session, judged by a canary on the host.
//!
//! A snippet counts only if it reaches the canary with the walls off: then it is known to be able to, and that it fails behind
//! the walls is the walls' doing. What it is after is a secret that only the canary knows, or a change that the host itself
//! sees; its own word counts for nothing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are tests"
)]

#[path = "../common/mod.rs"]
mod common;
mod forged_frames;
mod ground;
mod marks;
mod queues;
mod snippets;
#[path = "../common/stage.rs"]
mod stage;

use cellblock_protocol::{Isolation, Rung};
use common::is_root;
use ground::{Ground, Start};
use snippets::{CORPUS, Snippet};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

/// Below this many the corpus has lost something.
const FEWEST: usize = 60;
/// How many snippets get out as spawned programs where there are no walls.
static SPAWNED_GOT_OUT: AtomicUsize = AtomicUsize::new(0);
/// More at once gain nothing on a small machine.
const AT_ONCE: usize = 4;

#[test]
fn every_way_out_is_open_without_walls_and_shut_behind_them() {
    let Some(stage) = stage::stage("every_way_out_is_open_without_walls_and_shut_behind_them")
    else {
        return;
    };
    let begin = Instant::now();
    let ground = Ground::new(&stage);
    let possible = |snippet: &&Snippet| has_needed(snippet) && ground.has(snippet);
    let tried: Vec<&Snippet> = CORPUS.iter().filter(possible).collect();
    let problems: Vec<String> = each_at_once(&tried, |snippet| problems(&ground, snippet))
        .into_iter()
        .flatten()
        .collect();
    report(&tried, begin);
    assert!(
        problems.is_empty(),
        "{} problems:\n{}",
        problems.len(),
        problems.join("\n")
    );
    let spawned = SPAWNED_GOT_OUT.load(Ordering::Relaxed);
    println!("{spawned} get out as spawned programs without walls");
    assert!(
        spawned >= FEWEST,
        "only {spawned} snippets count as spawned programs"
    );
    assert!(
        tried.len() >= FEWEST,
        "only {} snippets count here",
        tried.len()
    );
}

fn has_needed(snippet: &Snippet) -> bool {
    match snippet.note("needs") {
        None => true,
        Some("root") => is_root(),
        Some("calls of 32-bit programs") => Path::new("/proc/sys/abi/vsyscall32").exists(),
        Some(other) => panic!("{snippet} needs {other}, whatever that is"),
    }
}

/// What is wrong with a snippet, or with the walls.
fn problems(ground: &Ground, snippet: &Snippet) -> Vec<String> {
    let mut problems = Vec::new();
    let (reached, said) = ground.reaches(snippet, &Isolation::on(Rung::None));
    if !reached {
        problems.push(format!(
            "{snippet} does not even get out where there are no walls: {said}"
        ));
    }
    let (reached, said) = ground.reaches(snippet, &Isolation::default());
    if reached {
        problems.push(format!("{snippet} GOT OUT: {said}"));
    }
    let (reached, said) = ground.reaches_from(Start::Fork, snippet, &Isolation::default());
    if reached {
        problems.push(format!("{snippet} GOT OUT of a fork: {said}"));
    }
    // Some need what only the interpreter has. That the others get out as programs too is known from this.
    let no_walls = Isolation::on(Rung::None);
    if ground.reaches_from(Start::Spawned, snippet, &no_walls).0 {
        SPAWNED_GOT_OUT.fetch_add(1, Ordering::Relaxed);
    }
    let (reached, said) = ground.reaches_from(Start::Spawned, snippet, &Isolation::default());
    if reached {
        problems.push(format!("{snippet} GOT OUT of a spawned process: {said}"));
    }
    // What a machine without namespaces offers.
    let (reached, said) = ground.reaches(snippet, &Isolation::on(Rung::Landlock));
    match (reached, snippet.note("landlock")) {
        (true, None) => problems.push(format!("{snippet} GOT OUT of the rung `landlock`: {said}")),
        (false, Some(why)) => problems.push(format!(
            "{snippet} is said to get out of the rung `landlock` ({why}), but does not: {said}"
        )),
        _ => {}
    }
    if snippet.note("landlock").is_none() {
        let landlock = Isolation::on(Rung::Landlock);
        let (reached, said) = ground.reaches_from(Start::Spawned, snippet, &landlock);
        if reached {
            problems.push(format!(
                "{snippet} GOT OUT of a spawned process on the rung `landlock`: {said}"
            ));
        }
    }
    problems
}

/// Does the same to all of them, a few at a time.
fn each_at_once<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (left, done) = (Mutex::new(all.iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(one) = { left.lock().unwrap().next() } {
                    let outcome = work(one);
                    done.lock().unwrap().push(outcome);
                }
            });
        }
    });
    done.into_inner().unwrap()
}

fn report(tried: &[&Snippet], begin: Instant) {
    let mut families: BTreeMap<&str, usize> = BTreeMap::new();
    for snippet in tried {
        *families.entry(snippet.family).or_default() += 1;
    }
    println!(
        "{} of {} snippets, four runs each, in {:.1} s: {families:?}",
        tried.len(),
        CORPUS.len(),
        begin.elapsed().as_secs_f64()
    );
}
