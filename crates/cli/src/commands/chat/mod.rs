//! `cellblock chat`: a conversation with a model over one session.

mod orders;

use crate::commands::ask::{Display, Equipment, ask_attended, print_outcome};
use crate::commands::live::Signals;
use crate::failure::Usage;
use crate::terminal::Console;
use cellblock::agent::{Agent, Conversation};
use cellblock::mcp::Connected;
use clap::Args;
use orders::{Order, Said};
use std::io::{self, BufRead as _, IsTerminal as _};
use std::process::ExitCode;

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
  /model NAME    go on with another model
  /save FILE     write the conversation as Markdown
  /help, /quit

Examples:
  cellblock chat --model gpt-4o-mini
  cellblock chat --workspace data --approve code";

/// Talks until the person is done.
pub(crate) fn run(args: &ChatArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(talk(args, console));
    runtime.shutdown_background();
    outcome.map(|()| ExitCode::SUCCESS)
}

/// The conversations, of which one is the current one.
struct Chat<'a> {
    args: &'a ChatArgs,
    console: &'a Console,
    branches: Vec<Conversation>,
    current: usize,
    said: Vec<Said>,
    /// Where tools come from, of this model and of those before.
    servers: Vec<Connected>,
}

async fn talk(args: &ChatArgs, console: &Console) -> anyhow::Result<()> {
    let (agent, servers) = make_agent(args, None, console).await?;
    let mut chat = Chat {
        args,
        console,
        branches: vec![agent.conversation()],
        current: 0,
        said: Vec::new(),
        servers: vec![servers],
    };
    let mut signals = Signals::new()?;
    if io::stdin().is_terminal() {
        console.hint("ask anything; /help lists the orders, Ctrl-D ends");
    }
    while let Some(line) = next_line(console, &mut signals).await? {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        match Order::read(line) {
            None => chat.ask(line, &mut signals).await?,
            Some(Ok(Order::Quit)) => break,
            Some(Ok(order)) => {
                if let Err(error) = chat.obey(order).await {
                    console.error(&error.to_string());
                }
            }
            Some(Err(problem)) => console.error(&problem),
        }
    }
    for conversation in &chat.branches {
        conversation.room().close().await;
    }
    for servers in &chat.servers {
        servers.close().await;
    }
    Ok(())
}

impl Chat<'_> {
    async fn ask(&mut self, question: &str, signals: &mut Signals) -> anyhow::Result<()> {
        let observer = Display::new(self.console).observer();
        let Some(conversation) = self.branches.get_mut(self.current) else {
            return Ok(());
        };
        let asked = ask_attended(conversation, question, observer, signals, self.console).await;
        let outcome = asked.map_err(|error| Usage::plain(error.to_string()))?;
        print_outcome(&outcome, false, self.console)?;
        self.said.push(Said {
            question: question.to_owned(),
            outcome,
        });
        Ok(())
    }
}

/// An agent by the flags, or with another model.
pub(super) async fn make_agent(
    args: &ChatArgs,
    model: Option<&str>,
    console: &Console,
) -> anyhow::Result<(Agent, Connected)> {
    let mut equipment = args.equipment.clone();
    if let Some(name) = model {
        equipment.model.model = Some(name.to_owned());
    }
    let model = equipment.model.open()?;
    let (builder, servers) = equipment.agent(model, Vec::new(), console).await?;
    let agent = builder.build();
    let agent = agent.map_err(|error| Usage::plain(error.to_string()))?;
    Ok((agent, servers))
}

/// The next line that the person types; none at the end, or at Ctrl-C.
async fn next_line(console: &Console, signals: &mut Signals) -> anyhow::Result<Option<String>> {
    if io::stdin().is_terminal() {
        console.say_guest("\n> ");
    }
    let reading = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin()
            .lock()
            .read_line(&mut line)
            .map(|bytes| (bytes > 0).then_some(line))
    });
    match signals.or(reading).await {
        Ok(line) => Ok(line??),
        Err(_) => Ok(None),
    }
}
