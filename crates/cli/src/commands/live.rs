//! A cell that runs in front of a person: its output as it comes, its questions, and Ctrl-C.

use crate::terminal::{Console, Shown};
use cellblock::{Cell, CellResult, Event, Running, Session};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

/// How long a cell that was told to stop at once may take to be gone.
const FAREWELL: Duration = Duration::from_secs(2);

/// The signals that we answer to.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Option<Signal>,
}

impl Signals {
    /// From now on these signals come here and no longer end the process.
    pub(crate) fn new() -> io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: Some(signal(SignalKind::terminate())?),
        })
    }

    /// Only Ctrl-C: nobody waits for other signals while a person types.
    pub(crate) fn only_interrupts() -> io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: None,
        })
    }

    /// The number of the next signal.
    pub(crate) async fn next(&mut self) -> i32 {
        let terminate = async {
            match &mut self.terminate {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt().as_raw_value(),
            _ = terminate => SignalKind::terminate().as_raw_value(),
        }
    }

    /// Waits for something that may take long, unless a signal comes.
    pub(crate) async fn or<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Stopped> {
        tokio::select! {
            done = work => Ok(done),
            signal = self.next() => Err(Stopped::Signal(signal)),
        }
    }
}

/// Why a cell was not seen to its end.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// A signal says that we shall end.
    Signal(i32),
    /// The output cannot be written: its reader has gone, or its file may not grow.
    Output(io::Error),
    /// There was no cell, or its session ended under it.
    Error(cellblock::Error),
    /// The same, told by the session.
    Ended(String),
}

/// What one answers who is asked for a line of text.
#[derive(Debug)]
pub(crate) enum Answer {
    /// This.
    Text(String),
    /// Nothing, and why.
    Nothing(String),
    /// Ctrl-C.
    Interrupt,
}

/// Who is asked. It is called on a thread of its own and may wait. The question is a guest's text: whoever prints it cleans it.
pub(crate) type Asker = Arc<dyn Fn(&str) -> Answer + Send + Sync>;

/// What a person sees while a cell runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    /// Everything, as it comes.
    Live,
    /// Nothing: only the result counts.
    Nothing,
}

/// What the second Ctrl-C does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecondInterrupt {
    /// It ends us.
    Ends,
    /// The same as the first.
    Repeats,
}

/// How cells are followed.
pub(crate) struct Follower<'a> {
    pub(crate) console: &'a Console,
    pub(crate) show: Show,
    pub(crate) asker: Asker,
    pub(crate) second_interrupt: SecondInterrupt,
}

/// A cell that ran to some end.
#[derive(Debug)]
pub(crate) struct Followed {
    pub(crate) result: CellResult,
    /// Whether what it printed ends in the middle of a line.
    pub(crate) is_mid_line: bool,
}

/// A question of the code that a person is thinking about.
struct Question {
    call: String,
    answer: JoinHandle<Answer>,
}

impl Follower<'_> {
    /// Runs a cell and attends to it.
    pub(crate) async fn run(
        &self,
        session: &Session,
        cell: Cell,
        signals: &mut Signals,
    ) -> Result<Followed, Stopped> {
        let mut running = session
            .start(cell)
            .map_err(|error| Stopped::Error(error.into()))?;
        let outcome = self.attend(session, &mut running, signals).await;
        if matches!(outcome, Err(Stopped::Signal(_) | Stopped::Output(_))) {
            // What is left of the cell goes now, and with it everything that it started.
            let farewell = async {
                session.close().await;
                while running.next().await.is_some() {}
            };
            let _ = tokio::time::timeout(FAREWELL, farewell).await;
        }
        outcome
    }

    async fn attend(
        &self,
        session: &Session,
        running: &mut Running,
        signals: &mut Signals,
    ) -> Result<Followed, Stopped> {
        let mut interrupts = 0;
        let mut is_mid_line = false;
        let mut waiting = VecDeque::new();
        let mut question: Option<Question> = None;
        let terminate = SignalKind::terminate().as_raw_value();
        loop {
            if question.is_none() {
                question = waiting
                    .pop_front()
                    .map(|(call, prompt)| self.ask(call, prompt));
            }
            tokio::select! {
                event = running.next() => match event {
                    Some(Event::Result { result }) => {
                        self.abandon(question).await;
                        return Ok(Followed { result: *result, is_mid_line });
                    }
                    Some(Event::Error { message, .. }) => return Err(Stopped::Ended(message)),
                    None => return Err(Stopped::Ended("the session ended".to_owned())),
                    Some(Event::ToolCall { call, name, .. }) => {
                        running.tool_result(&call, Err(format!("there is no tool `{name}` here")));
                    }
                    Some(Event::InputRequest { call, prompt }) => waiting.push_back((call, prompt)),
                    Some(event) => self.show(&event, &mut is_mid_line).map_err(Stopped::Output)?,
                },
                answer = answered(&mut question) => {
                    let call = question.take().map(|question| question.call).unwrap_or_default();
                    match answer {
                        Answer::Text(text) => running.input(&call, Ok(text)),
                        Answer::Nothing(reason) => running.input(&call, Err(reason)),
                        Answer::Interrupt => session.interrupt(),
                    }
                }
                signal = signals.next() => {
                    interrupts += 1;
                    let ends = signal == terminate
                        || (interrupts > 1 && self.second_interrupt == SecondInterrupt::Ends);
                    if ends {
                        return Err(Stopped::Signal(signal));
                    }
                    session.interrupt();
                }
            }
        }
    }

    fn show(&self, event: &Event, is_mid_line: &mut bool) -> io::Result<()> {
        if self.show == Show::Nothing {
            return Ok(());
        }
        match event {
            Event::Stdout { text } => {
                *is_mid_line = !text.ends_with('\n');
                self.console.print_guest(text)
            }
            Event::Stderr { text } => {
                self.console.say_guest(text);
                Ok(())
            }
            Event::Display { mime } => match Shown::of(mime) {
                Shown::Text(text) => {
                    let before = if std::mem::take(is_mid_line) {
                        "\n"
                    } else {
                        ""
                    };
                    self.console.print_guest(&format!("{before}{text}\n"))
                }
                // Pictures are told of when the cell is over.
                Shown::Thing(_) => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn ask(&self, call: String, prompt: String) -> Question {
        let asker = Arc::clone(&self.asker);
        let answer = tokio::task::spawn_blocking(move || asker(&prompt));
        Question { call, answer }
    }

    /// The cell ended and nobody waits for the answer any more. A person at a prompt must still finish the line, else it would
    /// swallow the next one; a command that is about to end need not wait.
    async fn abandon(&self, question: Option<Question>) {
        if let (Some(question), SecondInterrupt::Repeats) = (question, self.second_interrupt) {
            let _ = question.answer.await;
        }
    }
}

/// The answer to the open question; never, when there is none.
async fn answered(question: &mut Option<Question>) -> Answer {
    match question {
        Some(question) => (&mut question.answer)
            .await
            .unwrap_or_else(|_| Answer::Nothing("the question was lost".to_owned())),
        None => std::future::pending().await,
    }
}
