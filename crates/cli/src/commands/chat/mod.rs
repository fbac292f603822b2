//! `cellblock chat`: a conversation with a model over one session.

mod editor;
mod orders;

use crate::commands::ask::{
    Display, Equipment, Errand, Ground, Keeper, Telemetry, attended, print_outcome,
};
use crate::commands::live::Signals;
use crate::commands::runtime;
use crate::failure::Usage;
use crate::terminal::Console;
use cellblock::agent::{Agent, Conversation};
use cellblock::mcp::Connected;
use clap::Args;
use editor::{Editor, read_plain};
use orders::{Order, Said};
use serde_json::json;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use tokio::runtime::Runtime;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    equipment: Equipment,
}

const EXAMPLES: &str = "\
Every question sees what was said and computed before it. Lines that begin with / are orders:
  /undo [N]      take back the last cell, or the last N
  /fork          go on in a copy; /switch N goes back to another
  /plan          the model's plan
  /vars, /files  what there is in the session
  /model [NAME]  say which model it is, or go on with another
  /save FILE     write the conversation as Markdown
  /help, /quit

Examples:
  cellblock chat --model gpt-4o-mini
  cellblock chat --workspace data --approve code";

/// Talks until the person is done.
pub(crate) fn run(args: &ChatArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let runtime = runtime::on_threads(2)?;
    let outcome = talk(args, &runtime, console);
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
    said: Vec<Said>,
    /// Where tools come from, of this model and of those before.
    servers: Vec<Connected>,
    telemetry: Telemetry,
}

fn talk(args: &ChatArgs, runtime: &Runtime, console: &Console) -> anyhow::Result<()> {
    let (agent, servers) = runtime.block_on(make_agent(args, None, console))?;
    let mut chat = Chat {
        args,
        console,
        branches: vec![agent.conversation()],
        current: 0,
        model: agent.model_name().to_owned(),
        said: Vec::new(),
        servers: vec![servers],
        telemetry: Telemetry::start(&args.equipment.configuration()?)?,
    };
    let is_terminal = io::stdin().is_terminal();
    // Nobody waits for other signals while a person types.
    let mut signals = runtime.block_on(async {
        match is_terminal {
            true => Signals::only_interrupts(),
            false => Signals::new(),
        }
    })?;
    let mut editor = is_terminal.then(|| Editor::new(console)).transpose()?;
    if is_terminal {
        console.hint("ask anything; /help lists the orders, Ctrl-D ends");
    }
    loop {
        let line = match &mut editor {
            Some(editor) => editor.read()?,
            None => read_plain(runtime, &mut signals)?,
        };
        let Some(line) = line else {
            break;
        };
        if runtime.block_on(chat.hear(line.trim(), &mut signals))? == Next::Quit {
            break;
        }
    }
    runtime.block_on(chat.close());
    Ok(())
}

/// What comes after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Line,
    Quit,
}

impl Chat<'_> {
    async fn hear(&mut self, line: &str, signals: &mut Signals) -> anyhow::Result<Next> {
        match Order::read(line) {
            _ if line.is_empty() => {}
            None => self.ask(line, signals).await?,
            Some(Ok(Order::Quit)) => return Ok(Next::Quit),
            Some(Ok(order)) => {
                if let Err(error) = self.obey(order).await {
                    self.console.error(&error.to_string());
                }
            }
            Some(Err(problem)) => self.console.error(&problem),
        }
        Ok(Next::Line)
    }

    /// Each question is a run of its own, kept and traced.
    async fn ask(&mut self, question: &str, signals: &mut Signals) -> anyhow::Result<()> {
        let console = self.console;
        let options =
            json!({"chat": {"question": self.said.len() + 1, "conversation": self.current + 1}});
        let Some(conversation) = self.branches.get_mut(self.current) else {
            return Ok(());
        };
        let keeper = Keeper::begin(question, &self.model, options, console);
        let run = keeper.id();
        if let Some(id) = &run {
            conversation.set_run_id(id);
        }
        let observer = keeper.observer(Display::new(console).observer());
        let errand = Errand::Ask(question);
        let asked = attended(conversation, errand, observer, signals, console).await;
        let outcome = asked.map_err(|error| Usage::plain(error.to_string()))?;
        keeper.note_session(conversation.executor().journal().await);
        keeper.end(&outcome);
        print_outcome(&outcome, false, console)?;
        self.telemetry.send(run.as_deref(), console).await;
        self.said.push(Said {
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
    console: &Console,
) -> anyhow::Result<(Agent, Connected)> {
    let (mut equipment, _) = args.equipment.settled()?;
    if let Some(name) = model {
        equipment.model.model = Some(name.to_owned());
    }
    let model = equipment.model.open()?;
    let (builder, servers) = equipment.agent(model, Ground::default(), console).await?;
    let agent = builder.build();
    let agent = agent.map_err(|error| Usage::plain(error.to_string()))?;
    Ok((agent, servers))
}
