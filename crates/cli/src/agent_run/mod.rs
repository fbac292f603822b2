//! What every command that asks a model shares: its flags, the display of a run, its record and trace, and Ctrl-C.

mod args;
mod display;
mod files;
mod labels;
mod model_search;
mod recording;
mod resolve;
mod restoration;
mod templates;

use crate::cell_run::Signals;
use crate::terminal::{Console, Style};
use cellblock::Replay;
use cellblock::agent::{
    AgentError, CancellationToken, Conversation, Observer, OpenExecutor, Outcome, RunEvent,
};
use labels::{Heading, Labels, RunSummary};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use args::{AgentArgs, AgentRunArgs, ModelArgs, RunSetup};
pub(crate) use display::Display;

pub(crate) use files::{FileArgs, RunOutput, print_file_places, read_files};
pub(crate) use recording::{RunRecorder, Telemetry, run_store};
pub(crate) use restoration::{RunRestoration, journal_of};
pub(crate) use templates::read_template;

/// Two presses of Ctrl-C within this time end the run.
const MAX_DOUBLE_PRESS_GAP: Duration = Duration::from_secs(3);

/// SIGTERM, which ends the run at once.
const TERMINATE: i32 = 15;

/// The task of a conversation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RunTask<'a> {
    /// Answer this question.
    Ask(&'a str),
    /// Continue a run that was cut off.
    Resume,
}

/// Tells a person after each action what a crash in the next cell would cost.
#[derive(Clone)]
pub(crate) struct CheckpointNews {
    pub(crate) display: Arc<Display>,
    pub(crate) replay: Replay,
}

impl CheckpointNews {
    /// Asks the session in a task of its own: the run may use the session meanwhile, and does not wait.
    fn tell(&self, executor: &Arc<dyn OpenExecutor>) {
        let (news, executor) = (self.clone(), Arc::clone(executor));
        tokio::spawn(async move {
            if let Some(checkpoint) = executor.checkpoint().await {
                news.display.show_checkpoint(&checkpoint, news.replay);
            }
        });
    }
}

/// Runs a task to its outcome. Ctrl-C interrupts the cell; a second Ctrl-C, or SIGTERM, ends the run.
pub(crate) async fn run_interruptible(
    conversation: &mut Conversation,
    task: RunTask<'_>,
    observer: Observer,
    news: Option<CheckpointNews>,
    signals: &mut Signals,
    console: &Console,
) -> Result<Outcome, AgentError> {
    let token = CancellationToken::new();
    let executor = Arc::clone(conversation.executor());
    let observer: Observer = match news {
        None => observer,
        Some(news) => {
            let executor = Arc::clone(&executor);
            Arc::new(move |event| {
                observer(event);
                if matches!(event, RunEvent::Done { .. }) {
                    news.tell(&executor);
                }
            })
        }
    };
    let token_of_run = token.clone();
    let asking = async {
        match task {
            RunTask::Ask(question) => conversation.ask(question, observer, token_of_run).await,
            RunTask::Resume => conversation.resume(observer, token_of_run).await,
        }
    };
    tokio::pin!(asking);
    let mut pressed: Option<Instant> = None;
    loop {
        tokio::select! {
            outcome = &mut asking => return outcome,
            signal = signals.next() => {
                let is_second = pressed.is_some_and(|at| at.elapsed() < MAX_DOUBLE_PRESS_GAP);
                if is_second || signal == TERMINATE {
                    token.cancel();
                } else {
                    pressed = Some(Instant::now());
                    executor.interrupt().await;
                    console.hint("the cell was interrupted; press Ctrl-C again to end the run");
                }
            }
        }
    }
}

/// The answer on standard output; on a terminal under its label.
pub(crate) fn print_outcome(
    outcome: &Outcome,
    is_quiet: bool,
    labels: Labels,
    console: &Console,
) -> io::Result<()> {
    if outcome.answer.is_some() {
        if !is_quiet {
            console.say(&console.on_err(Style::Heading, labels.heading(Heading::Answer)));
        }
        console.print_guest(&format!("{}\n", outcome.answer_text()))?;
    } else {
        console.error(&labels.no_answer(outcome.status, outcome.message.as_deref()));
        if let Some(reached) = outcome.reached.as_ref().filter(|_| !is_quiet) {
            let text: String = reached.chars().take(2_000).collect();
            console.note(&console.on_err(Style::Heading, labels.reached()), &text);
        }
    }
    for warning in &outcome.warnings {
        console.note(&console.on_err(Style::Warning, labels.warning()), warning);
    }
    if !is_quiet {
        let verification = outcome.verification.as_ref();
        let verified = verification.map(|it| labels.verified(it.cells, it.is_confirmed()));
        let line = labels.summary(&RunSummary {
            status: outcome.status,
            steps: outcome.steps.len(),
            verified: &verified.unwrap_or_default(),
            seconds: outcome.ms as f64 / 1000.0,
            tokens: outcome.usage.total(),
            cost: outcome.cost.map(|cost| cost.0),
        });
        console.say(&console.on_err(Style::Dim, &line));
    }
    Ok(())
}
