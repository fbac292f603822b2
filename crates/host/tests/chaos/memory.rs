//! Memory and processes that run out: where no checkpoint can be made, the session says so, and what it says is true.

use super::common::{builder, is_long, open, run, short, wait};
use cellblock_protocol::{Cell, CellResult, CheckpointStatus, Event, Limits, StateOutcome, Status};
use cellblock_session::Session;
use cellblock_test_support::{Dice, seed};
use std::time::Duration;
use tokio::sync::broadcast;

const MEGABYTE: usize = 1 << 20;
/// What a session may have, and what there is to fill it with: checkpoints add as much again as the cells write.
const MEMORY: u64 = 160 << 20;

/// One block of memory of the session: its size and what it is filled with.
type Block = (usize, u8);

#[derive(Clone, Copy, Debug)]
enum MemoryStep {
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

impl MemoryStep {
    fn thrown(dice: &mut Dice) -> MemoryStep {
        let fill = 1 + dice.below(200) as u8;
        match dice.below(10) {
            0..=2 => MemoryStep::Take(1 + dice.below(70), fill),
            3 | 4 => MemoryStep::Rewrite(dice.below(8), fill),
            5 => MemoryStep::RewriteAll(fill),
            6 | 7 => MemoryStep::Free(dice.below(8)),
            8 => MemoryStep::Crash(dice.below(8)),
            _ => MemoryStep::Undo,
        }
    }

    fn code(self) -> String {
        match self {
            MemoryStep::Take(size, fill) => {
                format!("blocks.append(bytearray([{fill}]) * ({size} << 20))")
            }
            MemoryStep::Rewrite(n, fill) => format!("rewrite({n}, {fill})"),
            MemoryStep::RewriteAll(fill) => {
                format!("for n in range(len(blocks)): rewrite(n, {fill})")
            }
            MemoryStep::Free(n) => format!("del blocks[{n}]"),
            MemoryStep::Crash(n) => format!("rewrite({n}, 0)\nimport os; os._exit(1)"),
            MemoryStep::Undo => unreachable!("undo is no cell"),
        }
    }

    fn apply(self, blocks: &mut Vec<Block>) {
        match self {
            MemoryStep::Take(size, fill) => blocks.push((size * MEGABYTE, fill)),
            MemoryStep::Rewrite(n, fill) => blocks[n].1 = fill,
            MemoryStep::RewriteAll(fill) => blocks.iter_mut().for_each(|block| block.1 = fill),
            MemoryStep::Free(n) => drop(blocks.remove(n)),
            MemoryStep::Crash(_) | MemoryStep::Undo => {}
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
    let (seed, steps) = (seed("memory"), if is_long() { 1500 } else { 40 });
    let mut dice = Dice::new(seed);
    let mut brim = Brim::new();
    for number in 0..steps {
        let step = MemoryStep::thrown(&mut dice);
        brim.context = format!("CELLBLOCK_SEED={seed} step {number}: {step:?}");
        brim.take(step);
        brim.compare();
    }
    let Brim { kills, behind, .. } = brim;
    println!(
        "{steps} steps: {kills} ended for memory, {behind} began without a checkpoint of the newest state"
    );
    assert!(
        kills + behind > 0,
        "memory was never full, so nothing was tried"
    );
    wait(brim.session.close());
}

/// A session with little memory, and what should be in it.
struct Brim {
    session: Session,
    logs: broadcast::Receiver<Event>,
    /// The blocks after each cell that was kept.
    states: Vec<(u64, Vec<Block>)>,
    kills: usize,
    behind: usize,
    context: String,
}

impl Brim {
    fn new() -> Brim {
        let limits = Limits {
            memory: MEMORY,
            ..Limits::default()
        };
        let session = open(builder().limits(limits).setup(SETUP));
        Brim {
            logs: session.logs(),
            session,
            states: vec![(0, Vec::new())],
            kills: 0,
            behind: 0,
            context: String::new(),
        }
    }

    fn take(&mut self, step: MemoryStep) {
        if let MemoryStep::Undo = step {
            match wait(self.session.undo(1)) {
                Ok(undone) => self.states.retain(|(cell, _)| *cell <= undone.cell),
                // Older checkpoints are the first to go when memory is short, and to list variables takes some too.
                Err(error) => {
                    let is_known = ["not_found", "refused"].contains(&error.code());
                    assert!(is_known, "{}: {error}", self.context);
                }
            }
            self.follow_returns();
        } else {
            self.run(&step.code(), |blocks| step.apply(blocks));
        }
    }

    /// Runs a cell, and takes over what its result says became of the state.
    fn run(&mut self, code: &str, apply: impl FnOnce(&mut Vec<Block>)) -> CellResult {
        self.follow_returns();
        let result = run(
            &self.session,
            Cell::new(code).timeout(Duration::from_secs(20)),
        );
        let error = result.error.as_ref().map_or("", |error| &error.type_);
        self.kills += usize::from(error == "MemoryLimit");
        self.behind += usize::from(result.state.checkpoint.status != CheckpointStatus::Armed);
        let mut next = self.states.last().unwrap().1.clone();
        match (result.status, result.state.outcome) {
            (Status::Success, StateOutcome::Kept) => {
                apply(&mut next);
                self.states.push((result.cell, next));
            }
            // No memory, or no such block: nothing was done.
            (Status::Failure, StateOutcome::Kept)
                if ["MemoryError", "IndexError"].contains(&error) =>
            {
                self.states.push((result.cell, next));
            }
            (Status::Crashed, StateOutcome::Restored) => {}
            _ => panic!("{}: {}", self.context, short(&result)),
        }
        self.follow_returns();
        result
    }

    /// It says where it went back to.
    fn follow_returns(&mut self) {
        loop {
            match self.logs.try_recv() {
                Ok(Event::Restored { checkpoint }) => {
                    self.states.retain(|(cell, _)| *cell <= checkpoint)
                }
                Ok(_) | Err(broadcast::error::TryRecvError::Lagged(_)) => {}
                Err(_) => return,
            }
        }
    }

    fn compare(&mut self) {
        // With memory full, a cell that does nothing may still be the one too many; but then room is made.
        let mut ends = Vec::new();
        let result = loop {
            let result = self.run(LOOK, |_| {});
            if result.status == Status::Success {
                break result;
            }
            ends.push(short(&result));
            assert!(ends.len() < 5, "{}: no cell runs: {ends:?}", self.context);
        };
        let line = |(size, fill): &Block| format!("{size}/{fill}");
        let blocks = self.states.last().unwrap().1.iter();
        let expected = blocks.map(line).collect::<Vec<_>>().join(" ");
        assert_eq!(result.stdout.trim_end(), expected, "{}", self.context);
    }
}

#[test]
fn a_session_full_of_processes_says_that_it_has_no_new_checkpoint() {
    let limits = Limits {
        processes: 8,
        checkpoints: 2,
        ..Limits::default()
    };
    // To run the cell again would bring the crowd back.
    let session = open(builder().limits(limits).replay(false));
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
    let told = !result.state.lost.is_empty();
    let value = run(&session, "x").value.unwrap().repr;
    assert!(
        value == "3" && !told || value == expected && told,
        "{value} after {:?}",
        result.state
    );
    assert_eq!(
        run(&session, "x = 5").state.checkpoint,
        cellblock_protocol::CheckpointState::armed()
    );
    wait(session.close());
}
