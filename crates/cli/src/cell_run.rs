//! Runs a cell for a person: prints its output as it comes, answers `input()`, handles Ctrl-C, and prints the result.

use crate::terminal::{
    Console, DisplayText, HintPlace, LiveText, ShownHint, Spinner, Style, WorkspaceKind, ending,
    error_text, file_lines, remedy,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock::{Cell, CellResult, Event, MimeBundle, Running, Session};
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

/// How long a session may take to close after a signal.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// A cell that has printed nothing for this long shows a sign that it runs.
const SILENCE_BEFORE_SIGN: Duration = Duration::from_secs(2);

/// The signals that a command handles.
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

    /// Only Ctrl-C: other signals end the process, also while a person types.
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
    pub(crate) async fn or<T>(&mut self, work: impl Future<Output = T>) -> Result<T, CellStop> {
        tokio::select! {
            done = work => Ok(done),
            signal = self.next() => Err(CellStop::Signal(signal)),
        }
    }
}

/// Why a cell has no result.
#[derive(Debug)]
pub(crate) enum CellStop {
    /// A signal came that ends the command.
    Signal(i32),
    /// The output cannot be written: its reader has gone, or its file may not grow.
    Output(io::Error),
    /// There was no cell, or its session ended under it.
    Error(cellblock::Error),
    /// The session ended, with its message.
    Ended(String),
}

/// The answer to `input()`.
#[derive(Debug)]
pub(crate) enum InputAnswer {
    /// This.
    Text(String),
    /// Nothing, and why.
    Nothing(String),
    /// Ctrl-C.
    Interrupt,
}

/// Answers `input()`. It is called on a thread of its own and may block. The prompt is a guest's text: it must be cleaned before it is printed.
pub(crate) type AskInput = Arc<dyn Fn(&str) -> InputAnswer + Send + Sync>;

/// What a person sees while a cell runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShowOutput {
    /// Everything, as it comes.
    Live,
    /// Nothing: only the result counts.
    Nothing,
}

/// What the second Ctrl-C does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecondCtrlC {
    /// It ends the command.
    Ends,
    /// It interrupts the cell again.
    Repeats,
}

/// How cells are run.
pub(crate) struct CellRunner<'a> {
    pub(crate) console: &'a Console,
    pub(crate) show: ShowOutput,
    pub(crate) ask_input: AskInput,
    pub(crate) second_ctrl_c: SecondCtrlC,
}

/// A cell that ran to some end.
#[derive(Debug)]
pub(crate) struct FinishedCell {
    pub(crate) result: CellResult,
    /// Whether what it printed ends in the middle of a line.
    pub(crate) is_mid_line: bool,
}

/// The terminal while a cell runs: where its lines stand, and the sign that the cell still runs.
struct Screen {
    out: LiveText,
    err: LiveText,
    sign: Spinner,
    has_sign: bool,
    started: Instant,
    last_output: Instant,
}

impl Screen {
    fn new(console: &Console) -> Screen {
        let now = Instant::now();
        Screen {
            out: LiveText::default(),
            err: LiveText::default(),
            sign: Spinner::new(console),
            has_sign: false,
            started: now,
            last_output: now,
        }
    }

    fn print(&mut self, console: &Console, text: &str) -> io::Result<()> {
        self.note_output();
        console.print_live(&mut self.out, text)
    }

    fn say(&mut self, console: &Console, text: &str) {
        self.note_output();
        console.say_live(&mut self.err, text);
    }

    fn note_output(&mut self) {
        self.clear_sign();
        self.last_output = Instant::now();
    }

    /// Waits until the cell has been silent long enough for a sign. Never, where the sign is shown already, or would stand in an unfinished line.
    async fn silence(&self) {
        let is_in_line = self.out.is_mid_line() || self.err.is_mid_line();
        if self.has_sign || is_in_line {
            return std::future::pending().await;
        }
        let due = self.last_output + SILENCE_BEFORE_SIGN;
        tokio::time::sleep_until(due.into()).await;
    }

    fn show_sign(&mut self) {
        self.has_sign = true;
        let text = "running, Ctrl-C stops it ·";
        self.sign.show(text, self.started.elapsed());
    }

    fn clear_sign(&mut self) {
        if std::mem::take(&mut self.has_sign) {
            self.sign.clear();
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.clear_sign();
    }
}

/// A question of the code that a person is thinking about.
struct Question {
    call: String,
    answer: JoinHandle<InputAnswer>,
}

impl CellRunner<'_> {
    /// Runs a cell to its end.
    pub(crate) async fn run(
        &self,
        session: &Session,
        cell: Cell,
        signals: &mut Signals,
    ) -> Result<FinishedCell, CellStop> {
        let mut running = session
            .start(cell)
            .map_err(|error| CellStop::Error(error.into()))?;
        let outcome = self.wait_for_end(session, &mut running, signals).await;
        if matches!(outcome, Err(CellStop::Signal(_) | CellStop::Output(_))) {
            // What is left of the cell goes now, and with it everything that it started.
            let end_of_cell = async {
                session.close().await;
                while running.next().await.is_some() {}
            };
            let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, end_of_cell).await;
        }
        outcome
    }

    async fn wait_for_end(
        &self,
        session: &Session,
        running: &mut Running,
        signals: &mut Signals,
    ) -> Result<FinishedCell, CellStop> {
        let mut interrupts = 0;
        let mut screen = Screen::new(self.console);
        let mut waiting = VecDeque::new();
        let mut question: Option<Question> = None;
        let terminate = SignalKind::terminate().as_raw_value();
        loop {
            if question.is_none() {
                question = waiting
                    .pop_front()
                    .map(|(call, prompt)| self.ask(call, prompt));
            }
            if question.is_some() {
                screen.clear_sign();
            }
            let shows_sign = self.show == ShowOutput::Live && question.is_none();
            tokio::select! {
                event = running.next() => match event {
                    Some(Event::Result { result }) => {
                        screen.clear_sign();
                        self.abandon(question).await;
                        if self.console.err_is_terminal() && screen.err.is_mid_line() {
                            self.console.say("");
                        }
                        let is_mid_line = screen.out.is_mid_line();
                        return Ok(FinishedCell { result: *result, is_mid_line });
                    }
                    Some(Event::Error { message, .. }) => return Err(CellStop::Ended(message)),
                    None => return Err(CellStop::Ended("the session ended".to_owned())),
                    Some(Event::ToolCall { call, name, .. }) => {
                        running.tool_result(&call, Err(format!("there is no tool `{name}` here")));
                    }
                    Some(Event::InputRequest { call, prompt, .. }) => waiting.push_back((call, prompt)),
                    Some(event) => self.show(&event, &mut screen).map_err(CellStop::Output)?,
                },
                answer = answered(&mut question) => {
                    let call = question.take().map(|question| question.call).unwrap_or_default();
                    match answer {
                        InputAnswer::Text(text) => running.input(&call, Ok(text)),
                        InputAnswer::Nothing(reason) => running.input(&call, Err(reason)),
                        InputAnswer::Interrupt => session.interrupt(),
                    }
                }
                () = screen.silence(), if shows_sign => screen.show_sign(),
                signal = signals.next() => {
                    interrupts += 1;
                    let ends = signal == terminate
                        || (interrupts > 1 && self.second_ctrl_c == SecondCtrlC::Ends);
                    if ends {
                        return Err(CellStop::Signal(signal));
                    }
                    session.interrupt();
                }
            }
        }
    }

    fn show(&self, event: &Event, screen: &mut Screen) -> io::Result<()> {
        if self.show == ShowOutput::Nothing {
            return Ok(());
        }
        match event {
            Event::Stdout { text } => screen.print(self.console, text),
            Event::Stderr { text } => {
                screen.say(self.console, text);
                Ok(())
            }
            Event::Display(display) => match DisplayText::of(&display.mime) {
                DisplayText::Text(text) => {
                    let before = if screen.out.is_mid_line() { "\n" } else { "" };
                    screen.print(self.console, &format!("{before}{text}\n"))
                }
                // Pictures are told of when the cell is over.
                DisplayText::Description(_) => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn ask(&self, call: String, prompt: String) -> Question {
        let ask_input = Arc::clone(&self.ask_input);
        let answer = tokio::task::spawn_blocking(move || ask_input(&prompt));
        Question { call, answer }
    }

    /// Drops a question whose cell has ended. A person at a prompt must still finish the line, else it would
    /// swallow the next one; a command that is about to end need not wait.
    async fn abandon(&self, question: Option<Question>) {
        if let (Some(question), SecondCtrlC::Repeats) = (question, self.second_ctrl_c) {
            let _ = question.answer.await;
        }
    }
}

/// The answer to the open question; never, when there is none.
async fn answered(question: &mut Option<Question>) -> InputAnswer {
    match question {
        Some(question) => (&mut question.answer)
            .await
            .unwrap_or_else(|_| InputAnswer::Nothing("the question was lost".to_owned())),
        None => std::future::pending().await,
    }
}

/// Prints what a person wants to know after the output: the value on standard output, as Python's own prompt does, then what
/// went wrong on standard error.
pub(crate) fn print_outcome(
    finished: &FinishedCell,
    limit: Duration,
    place: HintPlace,
    workspace: WorkspaceKind,
    console: &Console,
) -> io::Result<()> {
    let result = &finished.result;
    if finished.is_mid_line && (result.value.is_some() || console.out_is_terminal()) {
        console.print("\n")?;
    }
    if let Some(value) = &result.value {
        console.print_guest(&format!("{}\n", value.repr))?;
    }
    if let Some(ending) = ending(result, limit) {
        console.error(&ending);
    }
    let remedy = remedy(place, workspace, result);
    let hint = match &remedy {
        Some(remedy) if remedy.replaces_hint => ShownHint::LeftOut,
        _ => ShownHint::BelowTheError,
    };
    let error = error_text(result, hint, console);
    if !error.is_empty() {
        console.say(&error);
    }
    if let Some(remedy) = remedy {
        console.hint(&remedy.text);
    }
    Ok(())
}

/// Saves the pictures that a cell showed, which a terminal cannot show, and says where they are. What is no picture is named.
pub(crate) async fn save_and_name_plots(
    finished: &FinishedCell,
    session: &Session,
    console: &Console,
) {
    let say = |text: &str| console.say(&console.on_err(Style::Dim, &console.safe_on_err(text)));
    let saved = save_plots(session, &finished.result).await;
    for path in &saved {
        say(&format!(
            "plot saved as {}",
            session.workspace().join(path).display()
        ));
    }
    let things = finished.result.displays.iter().map(DisplayText::of);
    let things = things.filter_map(|shown| match shown {
        DisplayText::Description(text) => Some(text),
        DisplayText::Text(_) => None,
    });
    if saved.is_empty() {
        things.for_each(|text| say(&text));
    }
}

/// Tells of the files that a cell touched, with their paths on the host.
pub(crate) fn print_files(finished: &FinishedCell, workspace: &Path, console: &Console) {
    for line in file_lines(&finished.result, workspace, console) {
        console.say(&console.on_err(Style::Dim, &console.safe_on_err(&line)));
    }
}

const KINDS: [(&str, &str); 4] = [
    ("image/png", "png"),
    ("image/svg+xml", "svg"),
    ("image/jpeg", "jpg"),
    ("application/pdf", "pdf"),
];

/// Saves each picture in the workspace as `plots/cell-3.png`, and returns the paths.
pub(crate) async fn save_plots(session: &Session, result: &CellResult) -> Vec<String> {
    let mut saved = Vec::new();
    for bundle in &result.displays {
        let Some((extension, contents)) = picture(bundle) else {
            continue;
        };
        let number = match saved.len() {
            0 => String::new(),
            before => format!("-{}", before + 1),
        };
        let path = format!("plots/cell-{}{number}.{extension}", result.cell);
        // A workspace that is full costs the picture, not the session.
        if session.save_file(&path, contents).await.is_ok() {
            saved.push(path);
        }
    }
    saved
}

fn picture(bundle: &MimeBundle) -> Option<(&'static str, Vec<u8>)> {
    KINDS.iter().find_map(|(mime, extension)| {
        let text = bundle.text(mime)?;
        let contents = if *mime == "image/svg+xml" {
            text.as_bytes().to_vec()
        } else {
            // Line breaks inside are allowed by MIME.
            STANDARD.decode(text.replace(['\n', '\r'], "")).ok()?
        };
        Some((*extension, contents))
    })
}
