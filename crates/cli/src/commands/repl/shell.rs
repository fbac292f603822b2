//! The session behind the prompt, and its forks. A session that ends is replaced by a new one in the same workspace.

use super::help_lines::HelpLine;
use super::magics;
use super::questions::CurrentSession;
use crate::cell_run::{
    AskInput, CellRunner, CellStop, FinishedCell, InputAnswer, SecondCtrlC, ShowOutput, Signals,
    print_files, print_outcome, save_and_name_plots,
};
use crate::failure;
use crate::terminal::{
    CheckpointNotice, Console, EnvironmentBar, HintPlace, Style, WorkspaceKind, milliseconds,
    next_crash, print_restored, size,
};
use anyhow::Context as _;
use cellblock::env::{Dirs, Requirements};
use cellblock::{
    Cell, CellResult, CheckpointList, CheckpointStatus, Event, Host, KeptWorkspaces, Rung, Session,
    SessionOptions, StateOutcome, strip_terminal_escapes,
};
use rustyline::error::ReadlineError;
use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::TryRecvError;

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
    /// The same session, for the line editor.
    pub(super) current: CurrentSession,
    /// What threads write after their cell.
    pub(super) logs: broadcast::Receiver<Event>,
    /// The notice about checkpoints that was printed last.
    checkpoint_notice: CheckpointNotice,
    /// Whether a crash in the next cell loses nothing, as far as was told.
    is_armed: bool,
}

/// What comes after an input.
pub(crate) enum AfterInput {
    /// The next one.
    Go,
    /// Nothing more.
    Quit(ExitCode),
}

/// Whether a cell's cost is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timing {
    Hidden,
    Shown,
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
            current: CurrentSession::new(&session),
            session,
            others: Vec::new(),
            fresh,
            names: Names::default(),
            checkpoint_notice: CheckpointNotice::default(),
            is_armed: true,
        };
        shell.load_names().await;
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
        // A session that replaces this one must find its files.
        options.workspace = Some(session.workspace().to_owned());
        let shell = Shell {
            host,
            options,
            console,
            signals,
            logs: session.logs(),
            current: CurrentSession::new(&session),
            session,
            others: Vec::new(),
            fresh: None,
            names: Names::default(),
            checkpoint_notice: CheckpointNotice::default(),
            is_armed: true,
        };
        shell.load_names().await;
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
        if let Some(path) = &self.fresh
            && let Ok(dirs) = Dirs::from_process()
        {
            KeptWorkspaces::new(&dirs.state).remove_if_empty(path);
        }
    }

    /// Runs a cell or a line of the shell, or does what a magic says.
    pub(crate) async fn run_input(&mut self, input: &str) -> anyhow::Result<AfterInput> {
        if let Some(line) = input.strip_prefix('%') {
            return magics::run_magic(self, line).await;
        }
        if let Some(line) = input.strip_prefix('!') {
            let code = magics::shell_code(line.trim());
            return self.run_cell(&code, Timing::Hidden).await;
        }
        if matches!(input.trim(), "exit" | "exit()" | "quit" | "quit()") {
            return Ok(AfterInput::Quit(ExitCode::SUCCESS));
        }
        if let Some(line) = HelpLine::parse(input) {
            return self.show_help(&line).await;
        }
        self.run_cell(input, Timing::Hidden).await
    }

    /// Prints what is known of an object, without running code.
    async fn show_help(&mut self, line: &HelpLine<'_>) -> anyhow::Result<AfterInput> {
        let asking = self.session.inspect_at(line.cursor(), line.detail);
        let help = match self.signals.or(asking).await {
            Ok(Ok(help)) => help,
            Ok(Err(error)) => return self.recover(error.into()).await,
            Err(_) => return Ok(AfterInput::Go),
        };
        match help.mime.text("text/plain") {
            Some(text) => self
                .console
                .print_guest(&format!("{}\n", text.trim_end()))?,
            None => {
                let name = self.console.name_on_err(line.name);
                self.console.error(&format!(
                    "nothing is known of `{name}` without running code; help(...) and print(...) run it"
                ));
            }
        }
        Ok(AfterInput::Go)
    }

    pub(crate) async fn run_cell(
        &mut self,
        code: &str,
        timing: Timing,
    ) -> anyhow::Result<AfterInput> {
        let cell_runner = CellRunner {
            console: &self.console,
            show: ShowOutput::Live,
            ask_input: ask_input(),
            second_ctrl_c: SecondCtrlC::Repeats,
        };
        let finished = match cell_runner
            .run(
                &self.session,
                Cell::new(code).keep_value(),
                &mut self.signals,
            )
            .await
        {
            Ok(finished) => finished,
            Err(CellStop::Signal(signal)) => {
                return Ok(AfterInput::Quit(ExitCode::from(128 + signal as u8)));
            }
            Err(CellStop::Output(error)) => return Err(failure::output(error)),
            Err(CellStop::Ended(message)) => return self.reopen(&message).await,
            Err(CellStop::Error(error)) => {
                self.console.error(&error.to_string());
                return Ok(AfterInput::Go);
            }
        };
        self.print_result(&finished, timing).await?;
        self.update_names(&finished.result);
        match finished.result.state.outcome {
            StateOutcome::Ended => self.reopen("the session ended with it").await,
            StateOutcome::Restored => {
                print_restored(&finished.result.state, &self.console);
                self.report_checkpoint().await;
                Ok(AfterInput::Go)
            }
            StateOutcome::Kept => {
                self.report_checkpoint().await;
                Ok(AfterInput::Go)
            }
        }
    }

    /// Tells when a crash in the next cell would cost more than that cell, and why: once for each reason.
    async fn report_checkpoint(&mut self) {
        let Ok(CheckpointList { state, .. }) = self.session.checkpoints().await else {
            return;
        };
        self.is_armed = state.status == CheckpointStatus::Armed;
        if self.checkpoint_notice.is_needed(&state) {
            let label = self.console.on_err(Style::Warning, "not armed:");
            self.console
                .note(&label, &next_crash(&state, self.options.replay));
        }
    }

    /// Whether a crash in the next cell loses nothing.
    pub(crate) fn is_armed(&self) -> bool {
        self.is_armed
    }

    pub(crate) async fn reset(&mut self) -> anyhow::Result<AfterInput> {
        match self.session.reset().await {
            Ok(()) => {
                self.load_names().await;
                self.console.say(
                    &self
                        .console
                        .on_err(Style::Dim, "all variables are forgotten"),
                );
                Ok(AfterInput::Go)
            }
            Err(error) => self.recover(error.into()).await,
        }
    }

    /// Takes back the last cells.
    pub(crate) async fn undo(&mut self, count: usize) -> anyhow::Result<AfterInput> {
        match self.session.undo(count).await {
            Ok(undone) => {
                self.load_names().await;
                let where_it_stands = match undone.cell {
                    0 => "everything is as it was at the beginning".to_owned(),
                    cell => format!("everything is as it was after cell {cell}"),
                };
                self.say_dim(&where_it_stands);
                for what in &undone.not_restored {
                    self.console
                        .note(&self.console.on_err(Style::Warning, "not restored:"), what);
                }
                Ok(AfterInput::Go)
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
    pub(crate) async fn recover(&mut self, error: cellblock::Error) -> anyhow::Result<AfterInput> {
        if error.code() == "ended" {
            return self.reopen(&error.to_string()).await;
        }
        self.console.error(&error.to_string());
        Ok(AfterInput::Go)
    }

    /// Opens another session in the same workspace.
    async fn reopen(&mut self, reason: &str) -> anyhow::Result<AfterInput> {
        self.session.close().await;
        self.session = self.host.open(self.options.clone()).await?;
        self.current.replace(&self.session);
        self.logs = self.session.logs();
        self.load_names().await;
        let label = self.console.on_err(Style::Warning, "note:");
        let note =
            format!("{reason}; a new one was started: its variables are gone, its files are there");
        self.console.note(&label, &note);
        Ok(AfterInput::Go)
    }

    async fn print_result(&self, finished: &FinishedCell, timing: Timing) -> io::Result<()> {
        let limit = self.options.limits.wall;
        let workspace = match self.fresh {
            Some(_) => WorkspaceKind::Fresh,
            None => WorkspaceKind::Named,
        };
        print_outcome(finished, limit, HintPlace::Repl, workspace, &self.console)?;
        print_files(finished, self.workspace(), &self.console);
        save_and_name_plots(finished, &self.session, &self.console).await;
        if timing == Timing::Shown {
            let usage = &finished.result.usage;
            self.console.say(&format!(
                "{} on the clock, {} of CPU, {} of memory",
                milliseconds(usage.wall),
                milliseconds(usage.cpu),
                size(usage.peak_bytes)
            ));
        }
        Ok(())
    }

    pub(super) fn say_dim(&self, text: &str) {
        self.console.say(&self.console.on_err(Style::Dim, text));
    }

    fn update_names(&self, result: &CellResult) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.extend(result.variables.added.iter().map(|one| one.name.clone()));
        for one in &result.variables.removed {
            names.remove(&one.name);
        }
    }

    pub(super) async fn load_names(&self) {
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

    /// The session that cells go to, for the line editor.
    pub(crate) fn current_session(&self) -> CurrentSession {
        self.current.clone()
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
    let kept = KeptWorkspaces::new(&Dirs::from_process()?.state);
    let made = kept.make(&name);
    made.with_context(|| format!("cannot make the workspace {name}"))
}

/// Questions are asked at the terminal, with line editing. Where there is none, the lines are the code.
fn ask_input() -> AskInput {
    Arc::new(|prompt| {
        if !io::stdin().is_terminal() {
            return InputAnswer::Nothing(
                "no person can type here: standard input holds the code".to_owned(),
            );
        }
        let prompt = strip_terminal_escapes(prompt);
        let answer =
            rustyline::DefaultEditor::new().and_then(|mut editor| editor.readline(prompt.as_ref()));
        match answer {
            Ok(text) => InputAnswer::Text(text),
            Err(ReadlineError::Interrupted) => InputAnswer::Interrupt,
            Err(ReadlineError::Eof) => InputAnswer::Nothing("Ctrl-D was pressed".to_owned()),
            Err(error) => InputAnswer::Nothing(error.to_string()),
        }
    })
}
