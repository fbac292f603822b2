//! The tour itself: the standard library first, the packages when they are there.

use super::question;
use super::stage::Stage;
use super::steps::{Act, DemoCell, FIRST, Step, WITH_PACKAGES, WITHOUT_PACKAGES};
use crate::args::PythonArgs;
use crate::commands::making::{Making, find_interpreter, ready_environment};
use crate::failure;
use crate::terminal::{Console, EnvironmentBar, milliseconds, plural};
use cellblock::env::{Environment, Interpreter};
use cellblock::{Cell, Host, Preload, Rung, Session, SessionOptions, StateOutcome, Status};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A tour that is being given.
pub(crate) struct Tour {
    stage: Stage,
    bar: Arc<EnvironmentBar>,
    args: PythonArgs,
    interpreter: Interpreter,
    /// The environment that is being made meanwhile.
    making: Option<Making>,
    steps_done: usize,
    failures: Vec<String>,
}

/// Where the tour stands.
struct Place {
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
        let stage = Stage::new(console, Arc::clone(&bar));
        Ok(Tour {
            stage,
            bar,
            args,
            interpreter,
            making: None,
            steps_done: 0,
            failures: Vec::new(),
        })
    }

    /// Gives it.
    pub(crate) async fn give(&mut self) -> anyhow::Result<ExitCode> {
        self.stage.line(&format!(
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
            self.making = Some(Making::start(
                self.interpreter.clone(),
                Arc::clone(&self.bar),
            )?);
            self.stage.line("The default environment is being made; the tour begins on the standard library meanwhile.")?;
        }
        let mut place = self.enter(environment).await?;
        for step in FIRST {
            self.take(step, &mut place).await?;
        }
        if let Some(made) = self.wait_for_packages().await? {
            place.session.close().await;
            place = self.enter(made).await?;
        }
        let last = if place.host.has_packages() {
            WITH_PACKAGES
        } else {
            WITHOUT_PACKAGES
        };
        for step in last {
            self.take(step, &mut place).await?;
        }
        place.session.close().await;
        self.ask(&place.host).await?;
        self.conclude()
    }

    /// The question of a model.
    async fn ask(&mut self, host: &Host) -> anyhow::Result<()> {
        const TITLE: &str = "A model asks Python, fails, repairs its code, and knows the answer";
        self.steps_done += 1;
        self.stage.heading(self.steps_done, TITLE)?;
        let check = question::ask(&self.stage, host).await?;
        self.stage.verdict(&check)?;
        if let Err(problem) = check {
            self.failures.push(format!("{TITLE}: {problem}"));
        }
        Ok(())
    }

    /// Ends what may still be running.
    pub(crate) async fn end(&mut self) {
        if let Some(making) = self.making.take() {
            making.stop().await;
        }
    }

    /// Opens a session on an environment, and says which it is.
    async fn enter(&self, environment: Environment) -> anyhow::Result<Place> {
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
        self.stage
            .aside(&format!("\nPython {version} with {with}"))?;
        let host = Host::builder()
            .environment(environment)
            .preload(preload)
            .build()?;
        let session = open(&host).await?;
        Ok(Place {
            host,
            session,
            forked: None,
        })
    }

    /// Does what a step does.
    async fn take(&mut self, step: &Step, place: &mut Place) -> anyhow::Result<()> {
        self.steps_done += 1;
        self.stage.heading(self.steps_done, step.title)?;
        for act in step.acts {
            let goes_on = match act {
                Act::Cell(demo) => self.run(step, demo, place).await?,
                Act::Undo(count) => self.undo(step, *count, place).await?,
                Act::Fork => self.fork(step, place).await?,
                Act::Back => self.go_back(place).await?,
            };
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// Runs a cell. False when the rest of the step makes no sense any more.
    async fn run(
        &mut self,
        step: &Step,
        demo: &DemoCell,
        place: &mut Place,
    ) -> anyhow::Result<bool> {
        self.stage.code(demo.code)?;
        let cell = Cell {
            timeout: demo.timeout,
            ..Cell::new(demo.code)
        };
        let limit = cell.wall(SessionOptions::default().limits.wall);
        let result = place
            .session
            .run(cell)
            .await
            .map_err(cellblock::Error::from)?;
        self.stage
            .result(&result, limit, place.session.workspace())?;
        let check = (demo.check)(&result);
        self.stage.verdict(&check)?;
        if let Err(problem) = check {
            self.failures.push(format!("{}: {problem}", step.title));
        }
        match result.state.outcome {
            StateOutcome::Restored => {
                let mut took = result.usage.wall_ms;
                if result.status == Status::Timeout {
                    took -= limit.as_secs_f64() * 1e3;
                }
                let what = if result.state.has_variables_of_before() {
                    "with every variable"
                } else {
                    "from an older checkpoint"
                };
                self.stage.aside(&format!(
                    "   the next cell can run {} later, {what}",
                    milliseconds(took)
                ))?;
            }
            StateOutcome::Ended => {
                // Without a checkpoint there is nothing to go back to; the rest of the step would only repeat that.
                let reason = result.state.checkpoint.reason.unwrap_or_default();
                self.stage
                    .aside(&format!("   the session ended with it: {reason}"))?;
                place.session = open(&place.host).await?;
                return Ok(false);
            }
            StateOutcome::Kept => {}
        }
        Ok(true)
    }

    async fn undo(&mut self, step: &Step, count: usize, place: &mut Place) -> anyhow::Result<bool> {
        let begun = Instant::now();
        let undone = place.session.undo(count).await;
        self.tell(
            step,
            "undo",
            begun.elapsed(),
            undone.map_err(cellblock::Error::from),
        )
        .map(|undone| undone.is_some())
    }

    async fn fork(&mut self, step: &Step, place: &mut Place) -> anyhow::Result<bool> {
        let rung = place.session.rung();
        if rung != Rung::Full {
            self.stage.aside(&format!(
                "   left out: forks need the isolation `full`, and this is `{rung}`"
            ))?;
            return Ok(false);
        }
        let begun = Instant::now();
        let fork = place.session.fork().await.map_err(cellblock::Error::from);
        let fork = self.tell(step, "fork", begun.elapsed(), fork)?;
        let goes_on = fork.is_some();
        if let Some(fork) = fork {
            place.forked = Some(std::mem::replace(&mut place.session, fork));
        }
        Ok(goes_on)
    }

    async fn go_back(&mut self, place: &mut Place) -> anyhow::Result<bool> {
        if let Some(forked) = place.forked.take() {
            let fork = std::mem::replace(&mut place.session, forked);
            fork.close().await;
        }
        self.stage.aside("   back in the session that was forked")?;
        Ok(true)
    }

    /// Says what came of something that is no cell, and how long it took.
    fn tell<T>(
        &mut self,
        step: &Step,
        what: &str,
        took: Duration,
        outcome: Result<T, cellblock::Error>,
    ) -> anyhow::Result<Option<T>> {
        match outcome {
            Ok(done) => {
                let took = milliseconds(took.as_secs_f64() * 1e3);
                self.stage.line(&format!("   {what}: {took}"))?;
                Ok(Some(done))
            }
            Err(error) => {
                let problem = format!("{what} did not work: {error}");
                self.stage.verdict(&Err(problem.clone()))?;
                self.failures.push(format!("{}: {problem}", step.title));
                Ok(None)
            }
        }
    }

    /// The environment that was being made, when that worked.
    async fn wait_for_packages(&mut self) -> anyhow::Result<Option<Environment>> {
        let Some(making) = &mut self.making else {
            return Ok(None);
        };
        let made = making.finish().await;
        self.making = None;
        self.bar.clear();
        match made {
            Ok(environment) => Ok(Some(environment)),
            Err(error) => {
                self.stage.line(&format!(
                    "\nThe default environment could not be made: {error:#}"
                ))?;
                if let Some(hint) = failure::hint(&error) {
                    self.stage.line(&format!("hint: {hint}"))?;
                }
                self.stage
                    .line("The tour goes on with the standard library.")?;
                Ok(None)
            }
        }
    }

    fn conclude(&self) -> anyhow::Result<ExitCode> {
        if self.failures.is_empty() {
            self.stage.line(&format!(
                "\nAll {} steps did what they claim.",
                self.steps_done
            ))?;
            self.stage.line("Next: `cellblock ask \"…\" --model NAME` with a model of your own (docs/models.md has the settings),")?;
            self.stage.line("`cellblock repl` for a session of your own, `cellblock doctor` for the walls of this machine.")?;
            return Ok(ExitCode::SUCCESS);
        }
        self.stage.line("\nNot everything went as claimed:")?;
        for failure in &self.failures {
            self.stage.line(&format!("  {failure}"))?;
        }
        self.stage.line("`cellblock doctor` may tell why.")?;
        Ok(ExitCode::FAILURE)
    }
}

async fn open(host: &Host) -> anyhow::Result<Session> {
    Ok(host.open(SessionOptions::default()).await?)
}
