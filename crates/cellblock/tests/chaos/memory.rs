//! Memory and processes that run out: where no checkpoint can be made, the session says so, and what it says is true.

use super::common::{builder, is_long, open, run, short, wait};
use super::seed::{Dice, seed};
use cellblock::{Cell, CellResult, CheckpointStatus, Limits, Session, StateOutcome, Status};
use std::time::Duration;

const MEGABYTE: usize = 1 << 20;
/// What a session may have, and what there is to fill it with: checkpoints add as much again as the cells write.
const MEMORY: u64 = 160 << 20;

/// One block of memory of the session: its size and what it is filled with.
type Block = (usize, u8);

#[derive(Clone, Copy, Debug)]
enum Step {
    /// One more block.
    Take(usize, u8),
    /// A block is filled with something else: memory that the checkpoint has too is now there twice.
    Rewrite(usize, u8),
    RewriteAll(u8),
    Free(usize),
    /// The process dies in the middle of a rewrite.
    Crash(usize),
    Undo,
}

impl Step {
    fn thrown(dice: &mut Dice) -> Step {
        let fill = 1 + dice.below(200) as u8;
        match dice.below(10) {
            0..=2 => Step::Take(1 + dice.below(70), fill),
            3 | 4 => Step::Rewrite(dice.below(8), fill),
            5 => Step::RewriteAll(fill),
            6 | 7 => Step::Free(dice.below(8)),
            8 => Step::Crash(dice.below(8)),
            _ => Step::Undo,
        }
    }

    fn code(self) -> String {
        match self {
            Step::Take(size, fill) => {
                format!("blocks.append(bytearray([{fill}]) * ({size} << 20))")
            }
            Step::Rewrite(n, fill) => format!("rewrite({n}, {fill})"),
            Step::RewriteAll(fill) => {
                format!("for n in range(len(blocks)): rewrite(n, {fill})")
            }
            Step::Free(n) => format!("del blocks[{n}]"),
            Step::Crash(n) => format!("rewrite({n}, 0)\nimport os; os._exit(1)"),
            Step::Undo => unreachable!("undo is no cell"),
        }
    }

    fn apply(self, blocks: &mut Vec<Block>) {
        match self {
            Step::Take(size, fill) => blocks.push((size * MEGABYTE, fill)),
            Step::Rewrite(n, fill) => blocks[n].1 = fill,
            Step::RewriteAll(fill) => blocks.iter_mut().for_each(|block| block.1 = fill),
            Step::Free(n) => drop(blocks.remove(n)),
            Step::Crash(_) | Step::Undo => {}
        }
    }
}

const SETUP: &str = "blocks = []
def rewrite(n, fill):
    block, part = blocks[n], bytes([fill]) * (1 << 18)
    for start in range(0, len(block), len(part)):
        block[start:start + len(part)] = part
def filling(block):
    part = bytes(block[:1]) * (1 << 18)
    same = all(block.startswith(part, start) for start in range(0, len(block), len(part)))
    return block[0] if same else 'mixed'
";
const LOOK: &str = "print(*(f'{len(block)}/{filling(block)}' for block in blocks))";

#[test]
fn a_session_that_is_full_to_the_brim_never_mixes_two_states() {
    // Its limits of time are too tight for a machine that is busy with other things.
    if !is_long() {
        return;
    }
    let seed = seed("memory");
    let mut dice = Dice::new(seed);
    let limits = Limits {
        memory: MEMORY,
        ..Limits::default()
    };
    let steps = 1500;
    let session = open(builder().limits(limits).setup(SETUP));
    // The state after each cell that was kept.
    let mut states: Vec<(u64, Vec<Block>)> = vec![(0, Vec::new())];
    let (mut kills, mut refusals) = (0, 0);
    for number in 0..steps {
        let step = Step::thrown(&mut dice);
        let context =
            |what: String| format!("CELLBLOCK_SEED={seed} step {number}: {step:?}: {what}");
        let current = states.last().unwrap().1.clone();
        if let Step::Undo = step {
            match wait(session.undo(1)) {
                Ok(undone) => states.retain(|(cell, _)| *cell <= undone.cell),
                // Older checkpoints are the first to go when memory is short.
                Err(error) => {
                    assert_eq!(error.code(), "not_found", "{}", context(error.to_string()))
                }
            }
        } else {
            let result = run(&session, Cell::new(step.code()).timeout(20.0));
            follow(&mut states, &result, |blocks| step.apply(blocks), &context);
            let error = result.error.as_ref().map(|error| error.type_.as_str());
            kills += usize::from(error == Some("MemoryLimit"));
            refusals += usize::from(result.state.checkpoint.status != CheckpointStatus::Armed);
        }
        let result = look(&session, &mut states, &context);
        let expected = &states.last().unwrap().1;
        let line = |(size, fill): &Block| format!("{size}/{fill}");
        let expected = expected.iter().map(line).collect::<Vec<_>>().join(" ");
        assert_eq!(
            result.stdout.trim_end(),
            expected,
            "{}",
            context(format!("before: {current:?}"))
        );
    }
    println!(
        "{steps} steps: {kills} ended for memory, {refusals} began without a checkpoint of the newest state"
    );
    wait(session.close());
}

/// Looks, if need be twice: with memory full, a cell that does nothing may still be the one too many.
fn look(
    session: &Session,
    states: &mut Vec<(u64, Vec<Block>)>,
    context: &dyn Fn(String) -> String,
) -> CellResult {
    for _ in 0..5 {
        let result = run(session, LOOK);
        follow(states, &result, |_| {}, context);
        if result.status == Status::Success {
            return result;
        }
    }
    panic!(
        "{}",
        context("it cannot even look at its variables".to_owned())
    )
}

/// What a result says became of the state.
fn follow(
    states: &mut Vec<(u64, Vec<Block>)>,
    result: &CellResult,
    apply: impl FnOnce(&mut Vec<Block>),
    context: &dyn Fn(String) -> String,
) {
    match (result.status, result.state.outcome) {
        (Status::Success, StateOutcome::Kept) => {
            let mut next = states.last().unwrap().1.clone();
            apply(&mut next);
            states.push((result.cell, next));
        }
        // No memory, or no such block: nothing was done.
        (Status::Failure, StateOutcome::Kept) => {
            let error = result
                .error
                .as_ref()
                .map_or("", |error| error.type_.as_str());
            assert!(
                ["MemoryError", "IndexError"].contains(&error),
                "{}",
                context(short(result))
            );
            states.push((result.cell, states.last().unwrap().1.clone()));
        }
        (Status::Crashed, StateOutcome::Restored) => {
            // Exactly before this cell, or the result says to which one.
            let lost = result.state.not_restored.iter().find_map(|line| {
                let rest = line.strip_prefix("the effects of the cells after ")?;
                rest.split(':').next()?.parse::<u64>().ok()
            });
            if let Some(cell) = lost {
                states.retain(|(number, _)| *number <= cell);
            }
        }
        _ => panic!("{}", context(short(result))),
    }
}

#[test]
fn a_session_full_of_processes_says_that_it_has_no_new_checkpoint() {
    let limits = Limits {
        processes: 8,
        checkpoints: 2,
        ..Limits::default()
    };
    let session = open(builder().limits(limits));
    run(&session, "import os, time; x = 1");
    let crowd = "x = 2
try:
    while True:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
except OSError as error:
    print(error)";
    let result = run(&session, crowd);
    assert_eq!(
        (result.status, result.stdout.as_str()),
        (
            Status::Success,
            "[Errno 11] Resource temporarily unavailable\n"
        )
    );
    std::thread::sleep(Duration::from_millis(100));
    let result = run(&session, "x = 3");
    let expected = match result.state.checkpoint.status {
        CheckpointStatus::Armed => "2",
        _ => {
            assert!(
                result
                    .state
                    .checkpoint
                    .reason
                    .is_some_and(|reason| !reason.is_empty())
            );
            "1"
        }
    };
    // The crash takes the crowd along. What was not carried is told.
    let result = run(&session, "x = 4; os._exit(1)");
    assert_eq!(result.state.outcome, StateOutcome::Restored);
    let told = !result.state.not_restored.is_empty();
    let value = run(&session, "x").value.unwrap().repr;
    assert!(
        value == "3" && !told || value == expected && told,
        "{value} after {:?}",
        result.state
    );
    assert_eq!(
        run(&session, "x = 5").state.checkpoint,
        cellblock::CheckpointState::armed()
    );
    wait(session.close());
}
