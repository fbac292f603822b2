//! Lets a scenario happen to a real session and to the model, and compares.

use super::common::{builder, new_directory, open, run, wait};
use super::steps::{
    End, Follow, LAST_WORDS, ModelStep, SETUP, Scenario, Setting, full_code, plain_code,
};
use super::story::{OutOfReach, Seen, Story};
use cellblock_protocol::{Cell, CellResult, Event, Isolation, Limits, Rung, StateOutcome, Status};
use cellblock_session::Session;
use serde_json::json;
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const DUMP: &str = include_str!("dump.py");

/// A session and what should be so in it.
pub(crate) struct Pair {
    setting: Setting,
    session: Session,
    story: Story,
    /// The user's directory, or none; forks have a copy of it.
    workspace: Option<Arc<TempDir>>,
}

/// Plays a scenario; panics where the session is not as the model says.
pub(crate) fn play(scenario: &Scenario) {
    let mut family = vec![Pair::new(&scenario.setting)];
    let mut current = 0;
    for step in &scenario.steps {
        match step {
            ModelStep::Fork(follow) => {
                family.extend(family[current].fork());
                if *follow == Follow::Child {
                    current = family.len() - 1;
                }
            }
            ModelStep::Turn(n) => current = n % family.len(),
            ModelStep::Close if family.len() == 1 => {}
            ModelStep::Close => {
                wait(family.remove(current).session.close());
                current = 0;
            }
            step => family[current].take(step),
        }
    }
    family.iter().for_each(Pair::compare);
    for pair in family {
        wait(pair.session.close());
    }
}

impl Pair {
    fn new(setting: &Setting) -> Pair {
        let limits = Limits {
            checkpoints: setting.checkpoints,
            ..Limits::default()
        };
        let mut builder = builder()
            .isolation(Isolation::on(setting.rung))
            .limits(limits)
            .strategy(setting.strategy)
            .atomic(setting.atomic)
            .setup(SETUP);
        let workspace = setting.own_workspace.then(|| Arc::new(given_directory()));
        if let Some(directory) = &workspace {
            builder = builder.workspace(directory.path());
        }
        Pair {
            setting: setting.clone(),
            session: open(builder),
            story: Story::begin(SETUP),
            workspace,
        }
    }

    /// A fork, where there can be one.
    fn fork(&self) -> Option<Pair> {
        match wait(self.session.fork()) {
            Ok(session) => {
                assert_eq!(self.setting.rung, Rung::Full);
                Some(Pair {
                    setting: self.setting.clone(),
                    session,
                    story: self.story.fork(),
                    workspace: self.workspace.clone(),
                })
            }
            Err(error) => {
                assert_eq!(
                    (error.code(), self.setting.rung == Rung::Full),
                    ("refused", false),
                    "{error}"
                );
                None
            }
        }
    }

    fn take(&mut self, step: &ModelStep) {
        match step {
            ModelStep::Run { code, end, atomic } => {
                self.run(
                    &full_code(code, *end),
                    &plain_code(code, *end),
                    *end,
                    *atomic,
                );
            }
            ModelStep::Undo(count) => self.undo(*count),
            ModelStep::Reset => {
                wait(self.session.reset()).unwrap();
                self.story.reset(self.setting.checkpoints);
            }
            ModelStep::Seed(number) => {
                let variables = json!({"given": number}).as_object().unwrap().clone();
                wait(self.session.seed(variables)).unwrap();
                self.story.seed(*number, self.setting.checkpoints);
            }
            ModelStep::Put(path, text) => {
                wait(self.session.put_file(path, text.clone().into_bytes())).unwrap();
                self.story.put(path, text);
            }
            ModelStep::Pause(milliseconds) => {
                std::thread::sleep(Duration::from_millis(*milliseconds))
            }
            ModelStep::Fork(_) | ModelStep::Turn(_) | ModelStep::Close => {
                unreachable!("these are not a session's own")
            }
        }
    }

    fn run(&mut self, code: &str, plain: &str, end: End, atomic: Option<bool>) {
        let mut cell = Cell::new(code);
        cell.atomic = atomic;
        if let End::Timeout(_) = end {
            cell.timeout = Some(Duration::from_millis(250));
        }
        let result = match end {
            End::Interrupt => self.interrupted(cell),
            _ => run(&self.session, cell),
        };
        let atomic = atomic.unwrap_or(self.setting.atomic);
        let expected = match result.status {
            Status::Success => StateOutcome::Kept,
            Status::Failure | Status::Interrupted if !atomic => StateOutcome::Kept,
            _ => StateOutcome::Restored,
        };
        assert_eq!(
            result.state.outcome,
            expected,
            "{}",
            described(code, &result)
        );
        assert_eq!(
            result.state.checkpoint,
            cellblock_protocol::CheckpointState::armed(),
            "{}",
            described(code, &result)
        );
        assert_eq!(
            result.state.not_restored,
            Vec::<String>::new(),
            "{}",
            described(code, &result)
        );
        let possible = match end {
            End::Well | End::Exception(_) => {
                matches!(result.status, Status::Success | Status::Failure)
            }
            End::Death(_) => {
                result.status == Status::Failure
                    || (result.status == Status::Crashed && result.stdout.contains(LAST_WORDS))
            }
            End::Timeout(_) => matches!(result.status, Status::Failure | Status::Timeout),
            End::Interrupt => matches!(result.status, Status::Failure | Status::Interrupted),
        };
        assert!(possible, "{}", described(code, &result));
        if result.state.outcome == StateOutcome::Kept {
            let seen = Seen {
                error: result.error.map(|error| error.type_),
                stdout: result.stdout,
            };
            self.story.keep(
                result.cell,
                plain.to_owned(),
                seen,
                self.setting.checkpoints,
            );
        }
    }

    /// Interrupts a cell when it says that it waits.
    fn interrupted(&self, cell: Cell) -> CellResult {
        let mut running = self.session.start(cell).unwrap();
        let mut said = String::new();
        loop {
            match wait(running.next()).expect("the events ended without a result") {
                Event::Result { result } => return *result,
                Event::Stdout { text } => {
                    said.push_str(&text);
                    if said.ends_with(&format!("{LAST_WORDS}\n")) {
                        self.session.interrupt();
                    }
                }
                _ => {}
            }
        }
    }

    fn undo(&mut self, count: usize) {
        let before = self.story.clone();
        let expected = self.story.undo(count);
        match (wait(self.session.undo(count)), expected) {
            (Ok(undone), Ok(target)) => {
                assert_eq!(
                    (undone.cell, undone.not_restored),
                    (target, Vec::<String>::new()),
                    "after undo {count}"
                );
            }
            (Err(error), Err(OutOfReach)) => assert_eq!(error.code(), "not_found", "{error}"),
            // Several cells that only bind share a checkpoint if nothing came between them: then the history reaches further.
            (Ok(undone), Err(OutOfReach)) if before.has_cells_that_only_bind() => {
                self.story.take_back_to(undone.cell);
            }
            (outcome, expected) => {
                panic!(
                    "undo {count} gave {outcome:?} and should have given {expected:?}\n{before:#?}"
                )
            }
        }
    }

    /// Compares what the cells showed, the variables and the files with plain Python's.
    fn compare(&self) {
        let directory = if self.workspace.is_some() {
            given_directory()
        } else {
            new_directory()
        };
        let (seen, state) = self.story.told_by_plain_python(directory.path(), DUMP);
        assert_eq!(
            self.story.seen(),
            seen,
            "what the cells showed, and what plain Python shows"
        );
        let result = run(&self.session, DUMP);
        assert_eq!(
            result.status,
            Status::Success,
            "{}",
            described(DUMP, &result)
        );
        if result.stdout != state {
            panic!(
                "the session holds, and plain Python holds:\n{}",
                side_by_side(&result.stdout, &state)
            );
        }
    }
}

/// A directory with something in it.
fn given_directory() -> TempDir {
    let directory = new_directory();
    fs::write(directory.path().join("f"), "from before").unwrap();
    directory
}

fn described(code: &str, result: &CellResult) -> String {
    format!("{code}\n{result:#?}")
}

/// Lines that differ.
fn side_by_side(left: &str, right: &str) -> String {
    let (left, right): (Vec<&str>, Vec<&str>) = (left.lines().collect(), right.lines().collect());
    let longest = left.len().max(right.len());
    (0..longest)
        .map(|n| (left.get(n).unwrap_or(&""), right.get(n).unwrap_or(&"")))
        .map(|(left, right)| {
            let mark = if left == right { ' ' } else { '!' };
            format!("{mark} {left:60.200} | {right:.200}\n")
        })
        .collect()
}
