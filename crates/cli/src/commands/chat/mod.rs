//! `cellblock chat`: a conversation with a model over one session.

mod slash_commands;

use crate::agent_run::{
    AgentRunArgs, Display, FileArgs, RunOutput, RunRecorder, RunSetup, RunTask, Telemetry,
    print_file_places, print_outcome, read_files, run_interruptible,
};
use crate::args::ToolServers;
use crate::cell_run::Signals;
use crate::failure::Usage;
use crate::process;
use crate::terminal::{Console, HintPlace, InputHistory, Style};
use cellblock::agent::{Agent, Conversation};
use clap::Args;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Helper};
use serde_json::json;
use slash_commands::{Exchange, SLASH_COMMAND_NAMES, SlashCommand};
use std::io::{self, BufRead as _, IsTerminal as _};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::runtime::Runtime;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    agent_run_args: AgentRunArgs,
}

const EXAMPLES: &str = "\
Every question sees what was said and computed before it. Lines that begin with / are commands:
  /undo [N]      take back the last cell, or the last N
  /fork          go on in a copy; /switch N goes back to another
  /plan          the model's plan
  /attach PATH   put a file or a directory into the workspace
  /vars, /files  what there is in the session
  /model [NAME]  say which model it is, or go on with another
  /save FILE     write the conversation as Markdown
  /help, /quit

Examples:
  cellblock chat --model gpt-4o-mini
  cellblock chat --file sales.csv --out charts
  cellblock chat --workspace data --approve code";

/// Talks until the person is done.
pub(crate) fn run(args: &ChatArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let runtime = process::runtime_on_threads(2)?;
    let outcome = run_chat(args, &runtime, console);
    runtime.shutdown_background();
    outcome.map(|()| ExitCode::SUCCESS)
}

/// The conversations, of which one is the current one.
struct Chat<'a> {
    args: &'a ChatArgs,
    console: &'a Console,
    branches: Vec<Conversation>,
    current: usize,
    model: String,
    exchanges: Vec<Exchange>,
    /// The MCP servers of this agent and of earlier ones, to be closed in the end.
    servers: Vec<ToolServers>,
    telemetry: Telemetry,
    /// Where files that code writes are copied to.
    output: Option<RunOutput>,
    /// Shows the events of every question, and tells a thing only once.
    display: Arc<Display>,
}

fn run_chat(args: &ChatArgs, runtime: &Runtime, console: &Console) -> anyhow::Result<()> {
    let untrusted = args.agent_run_args.session.untrusted_directories();
    let setup = RunSetup {
        files: read_files(&args.files.files, &untrusted)?,
        ..RunSetup::default()
    };
    let output = RunOutput::open(&args.files, &untrusted)?;
    let (agent, servers) = runtime.block_on(make_agent(args, None, setup, console))?;
    let mut chat = Chat {
        args,
        console,
        branches: vec![agent.conversation()],
        current: 0,
        model: agent.model_name().to_owned(),
        exchanges: Vec::new(),
        servers: vec![servers],
        telemetry: Telemetry::start(&args.agent_run_args.configuration()?)?,
        output,
        display: Display::new(
            console,
            HintPlace::Chat,
            args.agent_run_args.session.workspace_kind(),
            args.agent_run_args.labels(),
        ),
    };
    let is_terminal = io::stdin().is_terminal();
    // While a person types, only Ctrl-C is handled.
    let mut signals = runtime.block_on(async {
        match is_terminal {
            true => Signals::only_interrupts(),
            false => Signals::new(),
        }
    })?;
    let mut editor = is_terminal.then(|| Editor::new(console)).transpose()?;
    if is_terminal {
        console.hint("ask anything; /help lists the commands, Ctrl-D ends");
    }
    loop {
        let line = match &mut editor {
            Some(editor) => editor.read()?,
            None => read_plain(runtime, &mut signals)?,
        };
        let Some(line) = line else {
            break;
        };
        if runtime.block_on(chat.handle_line(line.trim(), &mut signals))? == AfterLine::Quit {
            break;
        }
    }
    runtime.block_on(chat.close());
    Ok(())
}

/// What comes after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterLine {
    Line,
    Quit,
}

impl Chat<'_> {
    async fn handle_line(
        &mut self,
        line: &str,
        signals: &mut Signals,
    ) -> anyhow::Result<AfterLine> {
        match SlashCommand::read(line) {
            _ if line.is_empty() => {}
            None => self.ask(line, signals).await?,
            Some(Ok(SlashCommand::Quit)) => return Ok(AfterLine::Quit),
            Some(Ok(command)) => {
                if let Err(error) = self.run_command(command).await {
                    self.console.error(&error.to_string());
                }
            }
            Some(Err(problem)) => self.console.error(&problem),
        }
        Ok(AfterLine::Line)
    }

    /// Each question is a run of its own, kept and traced.
    async fn ask(&mut self, question: &str, signals: &mut Signals) -> anyhow::Result<()> {
        let (console, labels) = (self.console, self.args.agent_run_args.labels());
        let options = json!({"chat": {"question": self.exchanges.len() + 1, "conversation": self.current + 1}});
        let Some(conversation) = self.branches.get_mut(self.current) else {
            return Ok(());
        };
        let recorder = RunRecorder::begin(question, &self.model, options, console);
        let run = recorder.id();
        if let Some(id) = &run {
            conversation.set_run_id(id);
        }
        let observer = recorder.observer(self.display.observer());
        let task = RunTask::Ask(question);
        let asked = run_interruptible(conversation, task, observer, None, signals, console).await;
        let outcome = asked.map_err(|error| Usage::plain(error.to_string()))?;
        recorder.note_session(conversation.executor().journal().await);
        recorder.end(&outcome);
        print_outcome(&outcome, false, labels, console)?;
        match &self.output {
            Some(output) => output.take(&outcome, conversation, console).await?,
            None => print_file_places(&outcome, conversation, console).await,
        }
        if let Some(checkpoint) = conversation.executor().checkpoint().await {
            let replay = self.args.agent_run_args.session.replay();
            self.display.show_checkpoint(&checkpoint, replay);
        }
        self.telemetry.send(run.as_deref(), console).await;
        self.exchanges.push(Exchange {
            question: question.to_owned(),
            outcome,
        });
        Ok(())
    }

    async fn close(&self) {
        for conversation in &self.branches {
            conversation.executor().close().await;
        }
        for servers in &self.servers {
            servers.close().await;
        }
    }
}

/// An agent by the flags, or with another model.
pub(super) async fn make_agent(
    args: &ChatArgs,
    model: Option<&str>,
    setup: RunSetup,
    console: &Console,
) -> anyhow::Result<(Agent, ToolServers)> {
    let (mut agent_run_args, _) = args.agent_run_args.resolve()?;
    if let Some(name) = model {
        agent_run_args.model.model = Some(name.to_owned());
    }
    agent_run_args.check_options()?;
    agent_run_args.model = agent_run_args.model.or_found(console).await?;
    let model = agent_run_args.model.open(console).await?;
    let (builder, servers) = agent_run_args.agent(model, setup, console).await?;
    let agent = builder.build();
    let agent = agent.map_err(|error| Usage::plain(error.to_string()))?;
    Ok((agent, servers))
}

const PROMPT: &str = "> ";

/// How many lines are remembered.
const MAX_HISTORY_ENTRIES: usize = 10_000;

/// The prompt of a chat.
struct Editor {
    editor: rustyline::Editor<SlashCompleter, FileHistory>,
    history: InputHistory,
    prompt: (String, String),
}

impl Editor {
    fn new(console: &Console) -> anyhow::Result<Editor> {
        let config = Config::builder()
            .max_history_size(MAX_HISTORY_ENTRIES)?
            .history_ignore_dups(true)?
            .completion_type(CompletionType::List)
            .build();
        let mut editor = rustyline::Editor::with_config(config)?;
        editor.set_helper(Some(SlashCompleter));
        let history = InputHistory::load("chat_history", &mut editor);
        Ok(Editor {
            editor,
            history,
            prompt: (PROMPT.to_owned(), console.on_out(Style::Prompt, PROMPT)),
        })
    }

    /// The next line; empty after Ctrl-C, none after Ctrl-D.
    fn read(&mut self) -> anyhow::Result<Option<String>> {
        let line = match self.editor.readline(&self.prompt) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => return Ok(Some(String::new())),
            Err(ReadlineError::Eof) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if !line.trim().is_empty() {
            self.history.add(&line, &mut self.editor);
        }
        Ok(Some(line))
    }
}

/// The next line of a file or a program; none at its end, or at Ctrl-C.
fn read_plain(runtime: &Runtime, signals: &mut Signals) -> anyhow::Result<Option<String>> {
    let reading = || {
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        read.map(|bytes| (bytes > 0).then_some(line))
    };
    runtime.block_on(async {
        match signals.or(tokio::task::spawn_blocking(reading)).await {
            Ok(line) => Ok(line??),
            Err(_) => Ok(None),
        }
    })
}

/// Completes the names of commands that begin with `/`.
struct SlashCompleter;

impl Helper for SlashCompleter {}
impl Validator for SlashCompleter {}
impl Highlighter for SlashCompleter {}

impl Hinter for SlashCompleter {
    type Hint = String;
}

impl Completer for SlashCompleter {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line[..at].strip_prefix('/');
        let fitting = typed.map(|typed| {
            let names = SLASH_COMMAND_NAMES
                .iter()
                .filter(|name| name.starts_with(typed));
            names.map(|name| format!("/{name}")).collect()
        });
        Ok((0, fitting.unwrap_or_default()))
    }
}
