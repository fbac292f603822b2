//! Seeded simulations of a whole cluster: the real owners, nodes and gateways, with a simulated network, clock and processes.
//!
//! `CELLBLOCK_LONG` runs the full size: 20 000 cells and 100 faults for each of five seeds. `CELLBLOCK_SEED` repeats a run.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests are tests"
)]

mod executor;
mod network;
mod world;

use cellblock_cluster::history::Fault;
use cellblock_test_support::{Dice, is_long, seed};
use network::Mutant;
use world::{Outcome, Size, simulate};

const SMALL: Size = Size {
    sessions: 20,
    cells: 40,
    faults: 25,
};

const FULL: Size = Size {
    sessions: 100,
    cells: 200,
    faults: 100,
};

#[test]
fn no_cell_is_lost_doubled_or_reordered_whatever_fails() {
    let (size, seeds) = if is_long() { (FULL, 5) } else { (SMALL, 5) };
    let mut dice = Dice::new(seed("cluster simulation"));
    for _ in 0..seeds {
        let seed = dice.number();
        let outcome = simulate(seed, size, Mutant::None);
        println!("seed {seed}: {}", summary(&outcome));
        assert_eq!(outcome.history.faults(), [], "seed {seed}");
        let cells: usize = outcome.history.lists.values().map(Vec::len).sum();
        assert_eq!(cells, size.sessions * size.cells, "seed {seed}");
        assert_eq!(outcome.failed, 0, "seed {seed}");
        assert_eq!(outcome.damaged, 0, "seed {seed}");
        assert_eq!(outcome.replay_differences, 0, "seed {seed}");
        // Without a session that moved, nothing was tried.
        assert!(outcome.adoptions as usize > size.sessions, "seed {seed}");
    }
}

#[test]
fn without_the_fence_the_checker_finds_cells_twice_or_at_a_wrong_place() {
    let is_expected = |fault: &Fault| matches!(fault, Fault::Twice(..) | Fault::WrongAnswer(..));
    assert_found(Mutant::NoFence, is_expected);
}

#[test]
fn when_leases_are_ignored_the_checker_finds_cells_that_began_without_one() {
    let is_expected = |fault: &Fault| matches!(fault, Fault::StartedWithoutLease(..));
    assert_found(Mutant::LeaseIgnored, is_expected);
}

#[test]
fn when_answers_come_before_the_commit_the_checker_finds_lost_cells() {
    let is_expected = |fault: &Fault| matches!(fault, Fault::Lost(..));
    assert_found(Mutant::AnswerBeforeCommit, is_expected);
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let runs = [1, 2].map(|_| simulate(7, SMALL, Mutant::None));
    assert_eq!(format!("{:?}", runs[0]), format!("{:?}", runs[1]));
}

fn assert_found(mutant: Mutant, is_expected: impl Fn(&Fault) -> bool) {
    let size = if is_long() { FULL } else { SMALL };
    let outcome = simulate(seed("cluster mutant"), size, mutant);
    println!("{mutant:?}: {}", summary(&outcome));
    let faults = outcome.history.faults();
    assert!(faults.iter().any(is_expected), "{faults:?}");
}

fn summary(outcome: &Outcome) -> String {
    let history = &outcome.history;
    format!(
        "{} answers, {} cells begun again, {} adoptions, {} faults found, {} journals damaged, {} s",
        history.acknowledged.len(),
        history.restarted(),
        outcome.adoptions,
        history.faults().len(),
        outcome.damaged,
        outcome.time.as_secs(),
    )
}
