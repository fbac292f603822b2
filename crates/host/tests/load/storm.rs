//! Many sessions at once, each with cells of every kind and every end. After each step the state must be exactly what the results said.

use super::census::Census;
use super::common::{Dice, runtime, seed};
use super::{alone, scaled, scene};
use cellblock_host::Host;
use cellblock_protocol::{Cell, CellResult, Limits, Spawn, StateOutcome, Status};
use cellblock_session::Session;
use std::time::Duration;

const SETUP: &str = "import os, time, ctypes
words = []
open('summary', 'w').close()
def tell(word):
    words.append(word)
    with open('summary', 'a') as file: file.write(f'{word} ')";
const LOOK: &str = "words, open('summary').read()";
/// An empty workspace goes with its session.
const CLEAR: &str = "for name in os.listdir(): os.remove(name)";
/// Enough for each cell on a machine that has no time for it.
const CELL_TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug)]
enum StormStep {
    Tell,
    Raise,
    Crash(&'static str),
    TimeOut,
    Interrupt(Duration),
    /// Processes of the cell take more memory together than the session may have.
    MemoryKill,
    /// The cell takes more memory than one process may have.
    MemoryError,
    Undo(usize),
    Fork,
    Spawn,
    EndSpawned,
    Variables,
    PutFile,
}

const CRASHES: [&str; 4] = [
    "os._exit(3)",
    "ctypes.string_at(0)",
    "os.kill(os.getpid(), 9)",
    "os.fork() or os.setsid(); os.abort()",
];

impl StormStep {
    fn thrown(dice: &mut Dice) -> StormStep {
        match dice.below(24) {
            0..=5 => StormStep::Tell,
            6 | 7 => StormStep::Raise,
            8..=11 => StormStep::Crash(CRASHES[dice.below(CRASHES.len())]),
            12 => StormStep::TimeOut,
            13 => StormStep::Interrupt(dice.pause(Duration::from_millis(30))),
            14 => StormStep::MemoryKill,
            15 => StormStep::MemoryError,
            16 | 17 => StormStep::Undo(1 + dice.below(3)),
            18 => StormStep::Fork,
            19 | 20 => StormStep::Spawn,
            21 => StormStep::EndSpawned,
            22 => StormStep::Variables,
            _ => StormStep::PutFile,
        }
    }

    /// The code of a cell that adds a word and ends in its own way.
    fn code(self, word: usize) -> String {
        let end = match self {
            StormStep::Raise => "1 / 0",
            StormStep::Crash(end) => end,
            StormStep::TimeOut => "while True: pass",
            StormStep::Interrupt(_) => "time.sleep(60)",
            StormStep::MemoryKill => {
                "for _ in range(4):
    if os.fork() == 0:
        block = bytearray(b'x') * (70 << 20)
        time.sleep(60)
block = bytearray(b'x') * (60 << 20)
time.sleep(0.3)
os._exit(1)"
            }
            StormStep::MemoryError => "bytearray(1 << 30)",
            _ => "",
        };
        match self {
            // It may come before the first line.
            StormStep::Interrupt(_) => end.to_owned(),
            _ => format!("tell({word})\n{end}"),
        }
    }
}

/// One session and what must be in it.
struct Storm {
    session: Session,
    dice: Dice,
    /// The words after each kept cell. The first state is that of the setup.
    states: Vec<(u64, Vec<usize>)>,
    next_word: usize,
    context: String,
    trace: Vec<String>,
}

impl Storm {
    async fn new(host: &Host, dice: Dice) -> Storm {
        let limits = Limits {
            memory: 96 << 20,
            ..Limits::default()
        };
        let session = host.session().limits(limits).setup(SETUP).start().await;
        Storm {
            session: session.unwrap(),
            dice,
            states: vec![(0, Vec::new())],
            next_word: 0,
            context: String::new(),
            trace: Vec::new(),
        }
    }

    fn words(&self) -> &[usize] {
        &self.states.last().unwrap().1
    }

    async fn take(&mut self, step: StormStep) {
        match step {
            StormStep::Undo(count) => self.undo(count).await,
            StormStep::Fork => self.fork().await,
            StormStep::Spawn => {
                let spawn = Spawn::shell("setsid sleep 1000 & exec cat").with_input();
                // A session has room for a few.
                if let Err(error) = self.session.spawn(spawn).await {
                    self.trace.push(format!("spawn refused: {error}"));
                }
            }
            StormStep::EndSpawned => {
                for info in self.session.processes() {
                    if let Ok(process) = self.session.process(&info.proc) {
                        process.kill().await;
                    }
                }
            }
            StormStep::Variables => {
                let variables = self.session.vars().await;
                let variables =
                    variables.unwrap_or_else(|error| panic!("{}: {error}", self.context));
                let is_there = variables.iter().any(|variable| variable.name == "words");
                assert!(is_there, "{}: {variables:?}", self.context);
            }
            StormStep::PutFile => {
                let bytes = self.context.clone().into_bytes();
                self.session.put_file("given", bytes.clone()).await.unwrap();
                let read = self.session.get_file("given").await.unwrap();
                assert_eq!(read, bytes, "{}", self.context);
            }
            _ => self.cell(step).await,
        }
    }

    async fn cell(&mut self, step: StormStep) {
        self.next_word += 1;
        let word = self.next_word;
        let told = (!matches!(step, StormStep::Interrupt(_))).then_some(word);
        let limit = match step {
            StormStep::TimeOut => Duration::from_millis(300),
            _ => CELL_TIMEOUT,
        };
        let cell = Cell::new(step.code(word)).timeout(limit);
        let result = match step {
            StormStep::Interrupt(after) => {
                let running = self.session.start(cell).unwrap();
                tokio::time::sleep(after).await;
                self.session.interrupt();
                running.result().await.unwrap()
            }
            _ => self.session.run(cell).await.unwrap(),
        };
        let expected: &[(Status, StateOutcome)] = match step {
            StormStep::Tell => &[(Status::Success, StateOutcome::Kept)],
            StormStep::Raise | StormStep::MemoryError => &[(Status::Failure, StateOutcome::Kept)],
            StormStep::TimeOut => &[(Status::Timeout, StateOutcome::Restored)],
            StormStep::Interrupt(_) => &[
                (Status::Interrupted, StateOutcome::Kept),
                (Status::Interrupted, StateOutcome::Restored),
            ],
            _ => &[(Status::Crashed, StateOutcome::Restored)],
        };
        let end = (result.status, result.state.outcome);
        // Where memory is full, a fork in the cell may be what is refused.
        let is_refused = matches!(step, StormStep::MemoryKill) && end.0 == Status::Failure;
        assert!(
            expected.contains(&end) || is_refused,
            "{}: {}",
            self.context,
            self.described(&result)
        );
        self.note(&result, told);
    }

    /// Takes over what a result says became of the state.
    fn note(&mut self, result: &CellResult, word: Option<usize>) {
        self.states
            .retain(|(cell, _)| !result.state.lost.contains(cell));
        if result.state.outcome != StateOutcome::Kept {
            return;
        }
        let mut words = self.words().to_vec();
        words.extend(word);
        self.states.push((result.cell, words));
    }

    async fn undo(&mut self, count: usize) {
        match self.session.undo(count).await {
            Ok(undone) => self.states.retain(|(cell, _)| *cell <= undone.cell),
            Err(error) => assert_eq!(error.code(), "not_found", "{}: {error}", self.context),
        }
    }

    async fn fork(&mut self) {
        let fork = match self.session.fork().await {
            Ok(fork) => fork,
            // Memory may be short, and the refusal says so.
            Err(error) => return self.trace.push(format!("fork refused: {error}")),
        };
        let result = fork.run(LOOK).await.unwrap();
        self.expect_words(&result, "in a fork");
        let crash = fork.run("tell(0); os._exit(1)").await.unwrap();
        assert_eq!(
            crash.state.outcome,
            StateOutcome::Restored,
            "{}",
            self.context
        );
        let result = fork.run(LOOK).await.unwrap();
        self.expect_words(&result, "in a fork after a crash");
        fork.run(CLEAR).await.unwrap();
        fork.close().await;
    }

    async fn compare(&mut self) {
        let cell = Cell::new(LOOK).timeout(CELL_TIMEOUT);
        let result = self.session.run(cell).await;
        let result = result.unwrap_or_else(|error| panic!("{}: {error}", self.context));
        self.expect_words(&result, "in the session");
        self.note(&result, None);
    }

    /// Forgets the words: they are printed with each look.
    async fn begin_again(&mut self) {
        let forget = "words.clear(); open('summary', 'w').close()";
        let result = self.session.run(forget).await.unwrap();
        assert_eq!(
            result.status,
            Status::Success,
            "{}",
            self.described(&result)
        );
        self.states.push((result.cell, Vec::new()));
    }

    fn expect_words(&self, result: &CellResult, place: &str) {
        let words = self.words();
        let summary: String = words.iter().map(|word| format!("{word} ")).collect();
        let value = result.value.as_ref().map(|value| value.repr.as_str());
        assert_eq!(
            (result.status, value),
            (
                Status::Success,
                Some(format!("({words:?}, '{summary}')").as_str())
            ),
            "{} {place}: {}",
            self.context,
            self.described(result)
        );
    }

    fn described(&self, result: &CellResult) -> String {
        let last = self.trace.len().saturating_sub(12);
        format!("{result:?}\nthe last steps: {:#?}", &self.trace[last..])
    }
}

#[test]
fn a_storm_of_cells_of_every_kind_never_loses_a_state() {
    let _alone = alone();
    let (sessions, cells) = (scaled(4, 20), scaled(25, 500));
    let seed = seed("storm");
    let (host, directory) = scene();
    let before = Census::settled(directory.path());
    let dice = Dice::new(seed);
    let storms = (0..sessions).map(|number| {
        let (host, dice) = (host.clone(), dice.part(number));
        async move {
            let mut storm = Storm::new(&host, dice).await;
            for cell in 0..cells {
                let step = StormStep::thrown(&mut storm.dice);
                storm.context =
                    format!("CELLBLOCK_SEED={seed} session {number} step {cell}: {step:?}");
                storm.trace.push(format!("{step:?}"));
                let both = async {
                    storm.take(step).await;
                    storm.compare().await;
                };
                if tokio::time::timeout(2 * CELL_TIMEOUT, both).await.is_err() {
                    panic!("it hangs: {}", storm.context);
                }
                if storm.words().len() > 40 {
                    storm.begin_again().await;
                }
            }
            storm.session.run(CLEAR).await.unwrap();
            storm.session.close().await;
        }
    });
    // Longer than the limit of the other loads: it is ten thousand steps. A step that hangs is found by its own limit.
    runtime().block_on(async {
        let storms: Vec<_> = storms.map(tokio::spawn).collect();
        for storm in storms {
            storm.await.unwrap();
        }
    });
    before.assert_unchanged(directory.path());
}
