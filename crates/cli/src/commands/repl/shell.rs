//! The session behind the prompt. When it dies, another takes its place.

use super::magics;
use crate::commands::live::{
    Answer, Asker, Followed, Follower, SecondInterrupt, Show, Signals, Stopped,
};
use crate::commands::outcome::{print_files, print_outcome, save_pictures};
use crate::failure;
use crate::terminal::{
    Console, EnvironmentBar, Style, ToldNet, milliseconds, next_crash, print_restored, size,
};
use anyhow::Context as _;
use cellblock::env::{Dirs, Requirements};
use cellblock::{
    Cell, CellResult, CheckpointStatus, Event, Host, Rung, Session, SessionOptions, StateOutcome,
    strip_terminal_escapes,
};
use rustyline::error::ReadlineError;
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io::{self, IsTerminal as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::broadcast::{self, error::TryRecvError};

/// The names of the session's variables, for completion.
pub(crate) type Names = Arc<Mutex<BTreeSet<String>>>;

/// A session, and all that is needed to open it again.
pub(crate) struct Shell {
    host: Host,
    pub(super) options: SessionOptions,
    console: Console,
    signals: Signals,
    pub(super) session: Session,
    /// Sessions that were left for a fork, or forks that were left.
    pub(super) others: Vec<Session>,
    /// The workspace, when it is not one of the user's.
    fresh: Option<PathBuf>,
    names: Names,
    /// What threads write after their cell.
    pub(super) logs: broadcast::Receiver<Event>,
    /// The safety net that was last told of.
    told_net: ToldNet,
    /// Whether a crash in the next cell loses nothing, as far as was told.
    is_armed: bool,
}

/// What comes after an input.
pub(crate) enum Next {
    /// The next one.
    Go,
    /// Nothing more.
    Quit(ExitCode),
}

/// Whether a cell's cost is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timing {
    Untold,
    Told,
}

impl Shell {
    /// Opens the session in the workspace that the options name, else in a fresh one, which lasts as long as the shell: a session
    /// that takes the place of a dead one finds its files there.
    pub(crate) async fn open(
        host: Host,
        mut options: SessionOptions,
        console: Console,
        signals: Signals,
    ) -> anyhow::Result<Shell> {
        let fresh = match &options.workspace {
            Some(_) => None,
            None => Some(fresh_workspace()?),
        };
        options.workspace = options.workspace.or_else(|| fresh.clone());
        let session = host.open(options.clone()).await?;
        let shell = Shell {
            host,
            options,
            console,
            signals,
            logs: session.logs(),
            session,
            others: Vec::new(),
            fresh,
            names: Names::default(),
            told_net: ToldNet::default(),
            is_armed: true,
        };
        shell.learn_names().await;
        Ok(shell)
    }

    /// Takes a session that is open already.
    pub(crate) async fn adopt(
        host: Host,
        session: Session,
        mut options: SessionOptions,
        console: Console,
        signals: Signals,
    ) -> Shell {
        // One that takes its place shall find its files.
        options.workspace = Some(session.workspace().to_owned());
        let shell = Shell {
            host,
            options,
            console,
            signals,
            logs: session.logs(),
            session,
            others: Vec::new(),
            fresh: None,
            names: Names::default(),
            told_net: ToldNet::default(),
            is_armed: true,
        };
        shell.learn_names().await;
        shell
    }

    /// Brings packages to the session; Ctrl-C stops that, and nothing of it stays.
    pub(crate) async fn install<'a>(
        &mut self,
        packages: impl Iterator<Item = &'a str>,
    ) -> Result<String, cellblock::Error> {
        let wanted = Requirements::parse(packages)?;
        let bar = Arc::new(EnvironmentBar::new(&self.console));
        let reported = Arc::clone(&bar);
        let packages = self.host.packages().clone();
        let packages = packages.reporting(move |progress| reported.report(&progress));
        let installing = packages.install(&self.session, wanted);
        let outcome = self.signals.or(installing).await;
        bar.clear();
        match outcome {
            Ok(layer) => layer.map(|layer| layer.to_string()),
            Err(_) => Err(cellblock::env::Error::Cancelled.into()),
        }
    }

    pub(crate) async fn close(self) {
        for session in self.others.iter().chain([&self.session]) {
            session.close().await;
        }
        if let Some(path) = &self.fresh {
            // Only while it is empty.
            let _ = fs::remove_dir(path);
        }
    }

    /// Runs a cell, or does what a magic says.
    pub(crate) async fn obey(&mut self, input: &str) -> anyhow::Result<Next> {
        if let Some(line) = input.strip_prefix('%') {
            return magics::obey(self, line).await;
        }
        if matches!(input.trim(), "exit" | "exit()" | "quit" | "quit()") {
            return Ok(Next::Quit(ExitCode::SUCCESS));
        }
        self.run_cell(input, Timing::Untold).await
    }

    pub(crate) async fn run_cell(&mut self, code: &str, timing: Timing) -> anyhow::Result<Next> {
        let follower = Follower {
            console: &self.console,
            show: Show::Live,
            asker: asker(),
            second_interrupt: SecondInterrupt::Repeats,
        };
        let followed = match follower
            .run(&self.session, Cell::new(code), &mut self.signals)
            .await
        {
            Ok(followed) => followed,
            Err(Stopped::Signal(signal)) => {
                return Ok(Next::Quit(ExitCode::from(128 + signal as u8)));
            }
            Err(Stopped::Output(error)) => return Err(failure::output(error)),
            Err(Stopped::Ended(message)) => return self.revive(&message).await,
            Err(Stopped::Error(error)) => {
                self.console.error(&error.to_string());
                return Ok(Next::Go);
            }
        };
        self.tell(&followed, timing).await?;
        self.note_names(&followed.result);
        match followed.result.state.outcome {
            StateOutcome::Ended => self.revive("the session ended with it").await,
            StateOutcome::Restored => {
                print_restored(&followed.result.state, &self.console);
                self.tell_net().await;
                Ok(Next::Go)
            }
            StateOutcome::Kept => {
                self.tell_net().await;
                Ok(Next::Go)
            }
        }
    }

    /// Tells when a crash in the next cell would cost more than that cell, and why: once for each reason.
    async fn tell_net(&mut self) {
        let Ok((net, _)) = self.session.checkpoints().await else {
            return;
        };
        self.is_armed = net.status == CheckpointStatus::Armed;
        if self.told_net.is_news(&net) {
            let label = self.console.on_err(Style::Warning, "not armed:");
            self.console
                .note(&label, &next_crash(&net, self.options.replay));
        }
    }

    /// Whether a crash in the next cell loses nothing.
    pub(crate) fn is_armed(&self) -> bool {
        self.is_armed
    }

    pub(crate) async fn reset(&mut self) -> anyhow::Result<Next> {
        match self.session.reset().await {
            Ok(()) => {
                self.learn_names().await;
                self.console.say(
                    &self
                        .console
                        .on_err(Style::Dim, "all variables are forgotten"),
                );
                Ok(Next::Go)
            }
            Err(error) => self.recover(error.into()).await,
        }
    }

    /// Takes back the last cells.
    pub(crate) async fn undo(&mut self, count: usize) -> anyhow::Result<Next> {
        match self.session.undo(count).await {
            Ok(undone) => {
                self.learn_names().await;
                let where_it_stands = match undone.cell {
                    0 => "everything is as it was at the beginning".to_owned(),
                    cell => format!("everything is as it was after cell {cell}"),
                };
                self.say_dimly(&where_it_stands);
                for what in &undone.not_restored {
                    self.console
                        .note(&self.console.on_err(Style::Warning, "not restored:"), what);
                }
                Ok(Next::Go)
            }
            Err(error) => self.recover(error.into()).await,
        }
    }

    /// Prints what threads wrote since the last time: between two inputs, so that it does not run through a line that is being
    /// typed.
    pub(crate) fn show_logs(&mut self) {
        loop {
            match self.logs.try_recv() {
                Ok(Event::Log { text }) => self.console.say_guest(&text),
                Ok(_) | Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    /// Tells of an error; when it means that the session is over, opens another.
    pub(crate) async fn recover(&mut self, error: cellblock::Error) -> anyhow::Result<Next> {
        if error.code() == "ended" {
            return self.revive(&error.to_string()).await;
        }
        self.console.error(&error.to_string());
        Ok(Next::Go)
    }

    /// Opens another session in the same workspace.
    async fn revive(&mut self, reason: &str) -> anyhow::Result<Next> {
        self.session.close().await;
        self.session = self.host.open(self.options.clone()).await?;
        self.logs = self.session.logs();
        self.learn_names().await;
        let label = self.console.on_err(Style::Warning, "note:");
        let note =
            format!("{reason}; a new one was started: its variables are gone, its files are there");
        self.console.note(&label, &note);
        Ok(Next::Go)
    }

    async fn tell(&self, followed: &Followed, timing: Timing) -> io::Result<()> {
        print_outcome(followed, self.options.limits.wall, &self.console)?;
        print_files(followed, self.workspace(), &self.console);
        save_pictures(followed, &self.session, &self.console).await;
        if timing == Timing::Told {
            let usage = &followed.result.usage;
            self.console.say(&format!(
                "{} on the clock, {} of CPU, {} of memory",
                milliseconds(usage.wall_ms),
                milliseconds(usage.cpu_ms),
                size(usage.peak_bytes)
            ));
        }
        Ok(())
    }

    pub(super) fn say_dimly(&self, text: &str) {
        self.console.say(&self.console.on_err(Style::Dim, text));
    }

    fn note_names(&self, result: &CellResult) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.extend(result.variables.added.iter().map(|one| one.name.clone()));
        for one in &result.variables.removed {
            names.remove(&one.name);
        }
    }

    pub(super) async fn learn_names(&self) {
        let variables = self.session.vars().await.unwrap_or_default();
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        *names = variables.into_iter().map(|one| one.name).collect();
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    pub(crate) fn console(&self) -> &Console {
        &self.console
    }

    pub(crate) fn workspace(&self) -> &Path {
        self.session.workspace()
    }

    pub(crate) fn rung(&self) -> Rung {
        self.session.rung()
    }

    pub(crate) fn names(&self) -> Names {
        Arc::clone(&self.names)
    }
}

fn fresh_workspace() -> anyhow::Result<PathBuf> {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let name = format!("repl-{}-{}", since_1970.as_secs(), std::process::id());
    let path = Dirs::from_process()?.state.join("workspaces").join(name);
    let mut builder = DirBuilder::new();
    builder
        .recursive(true)
        .mode(0o700)
        .create(&path)
        .with_context(|| format!("cannot make the workspace {}", path.display()))?;
    Ok(path)
}

/// Questions are asked at the terminal, with line editing. Where there is none, the lines are the code.
fn asker() -> Asker {
    Arc::new(|prompt| {
        if !io::stdin().is_terminal() {
            return Answer::Nothing(
                "no person can type here: standard input holds the code".to_owned(),
            );
        }
        let prompt = strip_terminal_escapes(prompt);
        let answer =
            rustyline::DefaultEditor::new().and_then(|mut editor| editor.readline(prompt.as_ref()));
        match answer {
            Ok(text) => Answer::Text(text),
            Err(ReadlineError::Interrupted) => Answer::Interrupt,
            Err(ReadlineError::Eof) => Answer::Nothing("Ctrl-D was pressed".to_owned()),
            Err(error) => Answer::Nothing(error.to_string()),
        }
    })
}
