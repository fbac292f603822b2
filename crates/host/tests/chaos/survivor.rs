//! A session that things happen to, and what should be in it.

use super::common::{MINUTE, runtime};
use super::victims::Processes;
use cellblock_host::Host;
use cellblock_protocol::{Cell, CellResult, Event, StateOutcome, Status};
use cellblock_session::Error;
use cellblock_session::Session;
use std::future::Future;
use std::time::Duration;
use tokio::sync::broadcast;

/// Tells its story twice: in a variable and in a file. Each cell that counts adds a word to both.
const SETUP: &str = "import os, time
story = []
open('story', 'w').close()
def tell(word):
    story.append(word)
    with open('story', 'a') as file:
        file.write(f'{word}\\n')
";
const LOOK: &str = "print(*story, '|', *open('story').read().split())";

/// A cell that was kept, and the word that it added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SurvivorState {
    pub(crate) cell: u64,
    word: Option<String>,
}

pub(crate) struct Survivor {
    /// For messages: which test, which seed, which part of it.
    pub(crate) label: String,
    pub(crate) session: Session,
    pub(crate) processes: Processes,
    logs: broadcast::Receiver<Event>,
    pub(crate) kept: Vec<SurvivorState>,
    words: u64,
    /// Where a cell's own events said that it went back to.
    pub(crate) told: Vec<u64>,
    /// What is being done to it now.
    pub(crate) plan: String,
}

/// What is heard of a session after something was done to it.
#[derive(Debug)]
pub(crate) enum Heard {
    /// It lives; its story is this.
    Story(Vec<String>),
    /// It is over, and says so.
    Ended(String),
}

impl Survivor {
    pub(crate) fn new(host: &Host, label: &str) -> Survivor {
        let opening = host.session().setup(SETUP).start();
        let session = bounded(opening, || format!("{label}: opening a session"));
        let refused = |error| panic!("{label}: a new session was refused: {error}");
        Survivor::met(session.unwrap_or_else(refused), label, Vec::new(), 0)
    }

    /// The survivor that this session is.
    fn met(session: Session, label: &str, mut kept: Vec<SurvivorState>, words: u64) -> Survivor {
        let logs = session.logs();
        let code = "print(os.readlink('/proc/self/ns/pid'), end='')";
        let result = bounded(session.run(code), || format!("{label}: the first cell")).unwrap();
        kept.push(SurvivorState {
            cell: result.cell,
            word: None,
        });
        Survivor {
            label: label.to_owned(),
            processes: Processes::of(&result.stdout),
            session,
            logs,
            kept,
            words,
            told: Vec::new(),
            plan: String::new(),
        }
    }

    /// A fork of it. What it has from its parent is not its own, so it cannot be taken back.
    pub(crate) fn fork(&self) -> Survivor {
        let forked = self.bounded("a fork", self.session.fork());
        let refused = |error| panic!("{}: a fork was refused: {error}", self.label);
        let session = forked.unwrap_or_else(refused);
        let inherited = |kept: &SurvivorState| SurvivorState {
            cell: 0,
            ..kept.clone()
        };
        let kept = self.kept.iter().map(inherited).collect();
        Survivor::met(session, &self.label, kept, self.words)
    }

    /// Waits for something that must end; when it does not, tells all that is known.
    pub(crate) fn bounded<T>(&self, what: &str, future: impl Future<Output = T>) -> T {
        bounded(future, || {
            format!(
                "{what}\nwhile: {}\n{}\nprocesses: {}\nkept: {:?}",
                self.plan,
                self.label,
                self.processes.described(),
                self.kept
            )
        })
    }

    /// The code of a cell that adds a word and then does `rest`.
    pub(crate) fn telling(&mut self, rest: &str) -> (String, String) {
        self.words += 1;
        let word = format!("w{}", self.words);
        (word.clone(), format!("tell('{word}')\n{rest}"))
    }

    /// Runs such a cell to its end.
    pub(crate) fn tell(&mut self, rest: &str) -> Result<CellResult, Error> {
        let (word, code) = self.telling(rest);
        let outcome = self.bounded(
            "a cell",
            self.session
                .run(Cell::new(code).timeout(Duration::from_secs(10))),
        );
        self.note(&outcome, Some(word));
        outcome
    }

    /// A cell that is over counts if it was kept.
    pub(crate) fn note(&mut self, outcome: &Result<CellResult, Error>, word: Option<String>) {
        if let Ok(result) = outcome {
            self.expect_whole_files(&result.state.not_restored);
        }
        match outcome {
            Ok(result) if result.state.outcome == StateOutcome::Kept => {
                self.kept.push(SurvivorState {
                    cell: result.cell,
                    word,
                })
            }
            Ok(_) => {}
            Err(error) => assert_eq!(
                error.code(),
                "ended",
                "{}: {}: {error}",
                self.label,
                self.plan
            ),
        }
    }

    /// Cells may be lost with their checkpoints. A file that is not what it was at a checkpoint is a fault.
    pub(crate) fn expect_whole_files(&self, not_restored: &[String]) {
        let is_file = |line: &&String| {
            !line.starts_with("the effects of ") && !line.starts_with("the tool `")
        };
        let files: Vec<_> = not_restored.iter().filter(is_file).collect();
        assert!(files.is_empty(), "{}: {}: {files:?}", self.label, self.plan);
    }

    /// Where it said that it went back to since this was asked last.
    pub(crate) fn returns(&mut self) -> Vec<u64> {
        let mut found = std::mem::take(&mut self.told);
        loop {
            match self.logs.try_recv() {
                Ok(Event::Restored { checkpoint }) => found.push(checkpoint),
                Ok(_) | Err(broadcast::error::TryRecvError::Lagged(_)) => {}
                Err(_) => return found,
            }
        }
    }

    /// Asks for its story until a cell comes through: one that finds a dead head crashes, and says so.
    pub(crate) fn listen(&mut self) -> Heard {
        for _ in 0..20 {
            let outcome = self.bounded("a look at the state", self.session.run(LOOK));
            self.note(&outcome, None);
            match outcome {
                Ok(result) if result.status == Status::Success => {
                    let (variable, file) = result.stdout.split_once('|').unwrap();
                    let words = |text: &str| {
                        text.split_whitespace()
                            .map(str::to_owned)
                            .collect::<Vec<_>>()
                    };
                    assert_eq!(
                        words(variable),
                        words(file),
                        "{}: the variable and the file after: {}",
                        self.label,
                        self.plan
                    );
                    return Heard::Story(words(variable));
                }
                Ok(result) => assert_eq!(
                    result.status,
                    Status::Crashed,
                    "{}: {}: {result:?}",
                    self.label,
                    self.plan
                ),
                Err(error) => return Heard::Ended(error.to_string()),
            }
        }
        panic!(
            "{}: twenty cells in a row crashed after: {}",
            self.label, self.plan
        )
    }

    /// The story after these cells.
    pub(crate) fn story(kept: &[SurvivorState]) -> Vec<String> {
        kept.iter().filter_map(|kept| kept.word.clone()).collect()
    }
}

/// Waits, but not for ever.
pub(crate) fn bounded<T>(future: impl Future<Output = T>, what: impl FnOnce() -> String) -> T {
    match runtime().block_on(async { tokio::time::timeout(MINUTE, future).await }) {
        Ok(done) => done,
        Err(_) => panic!("it hangs: not over within a minute: {}", what()),
    }
}
