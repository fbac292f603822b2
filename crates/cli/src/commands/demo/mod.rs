//! `cellblock demo`: a tour on real cells. Nothing is faked: every step checks that it did what it claims.

mod output;
mod steps;

use super::setup::{EnvironmentBuild, find_interpreter, ready_environment};
use crate::args::PythonArgs;
use crate::cell_run::{CellStop, Signals};
use crate::terminal::{Console, EnvironmentBar, milliseconds, plural};
use crate::{failure, process};
use cellblock::env::{Environment, Interpreter};
use cellblock::{Cell, Host, Preload, Rung, Session, SessionOptions, StateOutcome, Status};
use clap::Args;
use output::TourOutput;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use steps::{DemoAction, DemoCell, FIRST, TourStep, WITH_PACKAGES, WITHOUT_PACKAGES};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    python: PythonArgs,
}

const EXAMPLES: &str = "\
The first time, the default environment is made while the tour begins on the standard library.
It ends with 0 when every step did what it claims, else with 1.

Examples:
  cellblock demo
  cellblock demo --stdlib";

/// Gives the tour.
pub(crate) fn run(args: DemoArgs, console: Console) -> anyhow::Result<ExitCode> {
    let runtime = process::runtime_on_threads(1)?;
    runtime.block_on(async {
        let mut signals = Signals::new()?;
        let bar = Arc::new(EnvironmentBar::new(&console));
        let mut tour = Tour::new(args.python, console, Arc::clone(&bar))?;
        let outcome = signals.or(tour.run()).await;
        bar.clear();
        tour.stop().await;
        match outcome {
            Ok(outcome) => outcome,
            Err(CellStop::Signal(signal)) => Ok(ExitCode::from(128 + signal as u8)),
            Err(_) => Ok(ExitCode::FAILURE),
        }
    })
}

/// A tour that is being given.
pub(crate) struct Tour {
    output: TourOutput,
    bar: Arc<EnvironmentBar>,
    args: PythonArgs,
    interpreter: Interpreter,
    /// The environment that is being made meanwhile.
    build: Option<EnvironmentBuild>,
    steps_done: usize,
    failures: Vec<String>,
}

/// Where the tour stands.
struct TourSession {
    host: Host,
    session: Session,
    /// The one that was forked, while its fork goes on.
    forked: Option<Session>,
}

impl Tour {
    pub(crate) fn new(
        args: PythonArgs,
        console: Console,
        bar: Arc<EnvironmentBar>,
    ) -> anyhow::Result<Tour> {
        let interpreter = find_interpreter(args.python.as_deref())?;
        let output = TourOutput::new(console, Arc::clone(&bar));
        Ok(Tour {
            output,
            bar,
            args,
            interpreter,
            build: None,
            steps_done: 0,
            failures: Vec::new(),
        })
    }

    /// Gives it.
    pub(crate) async fn run(&mut self) -> anyhow::Result<ExitCode> {
        self.output.line(&format!(
            "Cellblock {}: a tour on real cells",
            env!("CARGO_PKG_VERSION")
        ))?;
        let ready = if self.args.stdlib {
            None
        } else {
            ready_environment(&self.interpreter)?
        };
        let environment = ready.unwrap_or_else(|| Environment::standard_library(&self.interpreter));
        if environment.packages.is_empty() && !self.args.stdlib {
            self.build = Some(EnvironmentBuild::start(
                self.interpreter.clone(),
                Arc::clone(&self.bar),
            )?);
            self.output.line("The default environment is being made; the tour begins on the standard library meanwhile.")?;
        }
        let mut current = self.open_session(environment).await?;
        for step in FIRST {
            self.run_step(step, &mut current).await?;
        }
        if let Some(made) = self.wait_for_packages().await? {
            current.session.close().await;
            current = self.open_session(made).await?;
        }
        let last = if current.host.has_packages() {
            WITH_PACKAGES
        } else {
            WITHOUT_PACKAGES
        };
        for step in last {
            self.run_step(step, &mut current).await?;
        }
        current.session.close().await;
        self.ask(&current.host).await?;
        self.finish()
    }

    /// The question of a model.
    async fn ask(&mut self, host: &Host) -> anyhow::Result<()> {
        const TITLE: &str = "A model asks Python, fails, repairs its code, and knows the answer";
        self.steps_done += 1;
        self.output.heading(self.steps_done, TITLE)?;
        let check = steps::ask_model(&self.output, host).await?;
        self.output.verdict(&check)?;
        if let Err(problem) = check {
            self.failures.push(format!("{TITLE}: {problem}"));
        }
        Ok(())
    }

    /// Ends what may still be running.
    pub(crate) async fn stop(&mut self) {
        if let Some(build) = self.build.take() {
            build.stop().await;
        }
    }

    /// Opens a session on an environment, and says which it is.
    async fn open_session(&self, environment: Environment) -> anyhow::Result<TourSession> {
        let (with, preload) = match environment.packages.len() {
            0 => ("the standard library alone".to_owned(), Preload::Standard),
            count => (
                format!(
                    "the default environment ({})",
                    plural(count as u64, "package")
                ),
                Preload::Full,
            ),
        };
        let version = environment.interpreter.version;
        self.output
            .aside(&format!("\nPython {version} with {with}"))?;
        let host = Host::builder()
            .environment(environment)
            .preload(preload)
            .build()?;
        let session = open(&host).await?;
        Ok(TourSession {
            host,
            session,
            forked: None,
        })
    }

    /// Does what a step does.
    async fn run_step(&mut self, step: &TourStep, current: &mut TourSession) -> anyhow::Result<()> {
        self.steps_done += 1;
        self.output.heading(self.steps_done, step.title)?;
        for action in step.actions {
            let continues = match action {
                DemoAction::Cell(demo) => self.run_cell(step, demo, current).await?,
                DemoAction::Undo(count) => self.undo(step, *count, current).await?,
                DemoAction::Fork => self.fork(step, current).await?,
                DemoAction::Back => self.go_back(current).await?,
            };
            if !continues {
                break;
            }
        }
        Ok(())
    }

    /// Runs a cell. False when the rest of the step makes no sense any more.
    async fn run_cell(
        &mut self,
        step: &TourStep,
        demo: &DemoCell,
        current: &mut TourSession,
    ) -> anyhow::Result<bool> {
        self.output.code(demo.code)?;
        let cell = Cell {
            timeout: demo.timeout,
            ..Cell::new(demo.code)
        };
        let limit = cell.wall(SessionOptions::default().limits.wall);
        let result = current
            .session
            .run(cell)
            .await
            .map_err(cellblock::Error::from)?;
        self.output
            .result(&result, limit, current.session.workspace())?;
        let check = (demo.check)(&result);
        self.output.verdict(&check)?;
        if let Err(problem) = check {
            self.failures.push(format!("{}: {problem}", step.title));
        }
        match result.state.outcome {
            StateOutcome::Restored => {
                let mut took = result.usage.wall;
                if result.status == Status::Timeout {
                    took = took.saturating_sub(limit);
                }
                let what = if result.state.has_variables_of_before() {
                    "with every variable"
                } else {
                    "from an older checkpoint"
                };
                self.output.aside(&format!(
                    "   the next cell can run {} later, {what}",
                    milliseconds(took)
                ))?;
            }
            StateOutcome::Ended => {
                // Without a checkpoint there is nothing to go back to; the rest of the step would only repeat that.
                let reason = result.state.checkpoint.reason.unwrap_or_default();
                self.output
                    .aside(&format!("   the session ended with it: {reason}"))?;
                current.session = open(&current.host).await?;
                return Ok(false);
            }
            StateOutcome::Kept => {}
        }
        Ok(true)
    }

    async fn undo(
        &mut self,
        step: &TourStep,
        count: usize,
        current: &mut TourSession,
    ) -> anyhow::Result<bool> {
        let begun = Instant::now();
        let undone = current.session.undo(count).await;
        self.report(
            step,
            "undo",
            begun.elapsed(),
            undone.map_err(cellblock::Error::from),
        )
        .map(|undone| undone.is_some())
    }

    async fn fork(&mut self, step: &TourStep, current: &mut TourSession) -> anyhow::Result<bool> {
        let rung = current.session.rung();
        if rung != Rung::Full {
            self.output.aside(&format!(
                "   left out: forks need the isolation `full`, and this is `{rung}`"
            ))?;
            return Ok(false);
        }
        let begun = Instant::now();
        let fork = current.session.fork().await.map_err(cellblock::Error::from);
        let fork = self.report(step, "fork", begun.elapsed(), fork)?;
        let continues = fork.is_some();
        if let Some(fork) = fork {
            current.forked = Some(std::mem::replace(&mut current.session, fork));
        }
        Ok(continues)
    }

    async fn go_back(&mut self, current: &mut TourSession) -> anyhow::Result<bool> {
        if let Some(forked) = current.forked.take() {
            let fork = std::mem::replace(&mut current.session, forked);
            fork.close().await;
        }
        self.output
            .aside("   back in the session that was forked")?;
        Ok(true)
    }

    /// Says what came of something that is no cell, and how long it took.
    fn report<T>(
        &mut self,
        step: &TourStep,
        what: &str,
        took: Duration,
        outcome: Result<T, cellblock::Error>,
    ) -> anyhow::Result<Option<T>> {
        match outcome {
            Ok(done) => {
                let took = milliseconds(took);
                self.output.line(&format!("   {what}: {took}"))?;
                Ok(Some(done))
            }
            Err(error) => {
                let problem = format!("{what} did not work: {error}");
                self.output.verdict(&Err(problem.clone()))?;
                self.failures.push(format!("{}: {problem}", step.title));
                Ok(None)
            }
        }
    }

    /// The environment that was being made, when that worked.
    async fn wait_for_packages(&mut self) -> anyhow::Result<Option<Environment>> {
        let Some(build) = &mut self.build else {
            return Ok(None);
        };
        let made = build.finish().await;
        self.build = None;
        self.bar.clear();
        match made {
            Ok(environment) => Ok(Some(environment)),
            Err(error) => {
                self.output.line(&format!(
                    "\nThe default environment could not be made: {error:#}"
                ))?;
                if let Some(hint) = failure::hint(&error) {
                    self.output.line(&format!("hint: {hint}"))?;
                }
                self.output
                    .line("The tour goes on with the standard library.")?;
                Ok(None)
            }
        }
    }

    fn finish(&self) -> anyhow::Result<ExitCode> {
        if self.failures.is_empty() {
            self.output.line(&format!(
                "\nAll {} steps did what they claim.",
                self.steps_done
            ))?;
            self.output.line("Next: `cellblock ask \"…\"` with a model of yours, or after `cellblock model get` with a small one on this machine (docs/models.md),")?;
            self.output.line("`cellblock repl` for a session of your own, `cellblock doctor` for the walls of this machine.")?;
            return Ok(ExitCode::SUCCESS);
        }
        self.output.line("\nNot everything went as claimed:")?;
        for failure in &self.failures {
            self.output.line(&format!("  {failure}"))?;
        }
        self.output.line("`cellblock doctor` may tell why.")?;
        Ok(ExitCode::FAILURE)
    }
}

async fn open(host: &Host) -> anyhow::Result<Session> {
    Ok(host.open(SessionOptions::default()).await?)
}
