//! `cellblock ask`: a question, and an answer that was computed.

mod inputs;
mod resume;

use crate::agent_run::{
    AgentRunArgs, CheckpointNews, Display, FileArgs, RunOutput, RunRecorder, RunSetup, RunTask,
    Telemetry, print_file_places, print_outcome, read_files, read_template, run_interruptible,
};
use crate::args::ToolServers;
use crate::cell_run::Signals;
use crate::failure::Usage;
use crate::process;
use crate::terminal::{Console, HintPlace};
use cellblock::agent::{Agent, Conversation, Observer, Outcome, RunStatus, TemplateRun, Verify};
use clap::Args;
use resume::to_remember;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

pub(crate) use resume::{ResumeOptions, resume};

#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AskArgs {
    /// The question, or - for standard input
    #[arg(value_name = "QUESTION", required_unless_present = "template")]
    question: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    files: FileArgs,
    /// The answer must fit the JSON schema in this file
    #[arg(long, value_name = "FILE", conflicts_with = "template")]
    schema: Option<PathBuf>,
    /// Run this template instead of a question
    #[arg(long, value_name = "FILE", conflicts_with = "question")]
    template: Option<PathBuf>,
    /// An argument of the template: --arg 'readings=[1, 2, 3]'
    #[arg(long = "arg", value_name = "NAME=JSON", requires = "template")]
    arguments: Vec<String>,
    /// Run the cells of the answer again in a clean session, and report what differs
    #[arg(long, conflicts_with = "workspace")]
    verify: bool,
    /// Print every event as a line of JSON, and nothing else
    #[arg(long)]
    json: bool,
    /// Print the answer alone
    #[arg(short, long)]
    quiet: bool,
    // Records of runs have these under the name that the field had first.
    #[command(flatten)]
    #[serde(rename = "equipment")]
    agent_run_args: AgentRunArgs,
}

const EXAMPLES: &str = "\
The answer goes to standard output, everything else to standard error.
Ctrl-C interrupts the running code; twice ends the run.

Examples:
  cellblock ask 'How many primes are below a million?' --model gpt-4o-mini
  cellblock ask 'Which month sold best?' --file sales.csv --out charts
  cellblock ask 'The mean and the median?' --file data.csv --schema answer.json --verify
  cellblock ask --template outlier_count.md --arg 'readings=[12, 19, 23, 31, 8, 27]'

Exit status:
  0 answered
  10 max_steps, 11 max_time, 12 max_tokens, 13 max_cost, 14 max_failures, 15 stuck,
  16 malformed_replies, 17 invalid_answer, 18 model_error, 130 cancelled: no answer
  19 answered, but unverified (--verify)
  2 wrong usage, 3 could not start";

/// Asks.
pub(crate) fn run(args: &AskArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let runtime = process::runtime_on_threads(2)?;
    let outcome = runtime.block_on(ask(args, console));
    // A thread may still wait for a line on standard input.
    runtime.shutdown_background();
    outcome.map(ExitCode::from)
}

async fn ask(args: &AskArgs, console: &Console) -> anyhow::Result<u8> {
    let (mut agent_run_args, _) = args.agent_run_args.resolve()?;
    agent_run_args.check_options()?;
    let untrusted = agent_run_args.session.untrusted_directories();
    let files = read_files(&args.files.files, &untrusted)?;
    agent_run_args.model = agent_run_args.model.or_found(console).await?;
    let args = &AskArgs {
        agent_run_args,
        ..args.clone()
    };
    let setup = RunSetup {
        files,
        ..RunSetup::default()
    };
    let note = setup.note.clone();
    let prepared = prepare(args, setup, console).await?;
    let mut options = to_remember(args);
    options["format"] = json!(prepared.agent.format());
    let model = prepared.agent.model_name();
    let recorder = RunRecorder::begin(&prepared.question, model, options, console);
    note.attach(&recorder);
    let conversation = prepared.agent.conversation();
    let task = RunTask::Ask(&prepared.question);
    run_and_report(
        args,
        conversation,
        task,
        recorder,
        prepared.servers,
        console,
    )
    .await
}

/// Carries a run out, prints what came of it, and says with which status to end.
async fn run_and_report(
    args: &AskArgs,
    mut conversation: Conversation,
    task: RunTask<'_>,
    recorder: RunRecorder,
    servers: ToolServers,
    console: &Console,
) -> anyhow::Result<u8> {
    let untrusted = args.agent_run_args.session.untrusted_directories();
    let output = RunOutput::open(&args.files, &untrusted)?;
    let mut signals = Signals::new()?;
    let mut news = None;
    let observer: Observer = if args.json {
        let console = console.clone();
        Arc::new(move |event| {
            // When the reader is gone, the run goes on, and the exit status tells its outcome.
            let _ = console.print_json(event);
        })
    } else if args.quiet {
        Arc::new(|_| {})
    } else {
        let workspace = args.agent_run_args.session.workspace_kind();
        let labels = args.agent_run_args.labels();
        let display = Display::new(console, HintPlace::Ask, workspace, labels);
        let observer = display.observer();
        let replay = args.agent_run_args.session.replay();
        news = Some(CheckpointNews { display, replay });
        observer
    };
    let telemetry = Telemetry::start(&args.agent_run_args.configuration()?)?;
    let run = recorder.id();
    if let Some(id) = &run {
        conversation.set_run_id(id);
    }
    let observer = recorder.observer(observer);
    let asked = run_interruptible(
        &mut conversation,
        task,
        observer,
        news,
        &mut signals,
        console,
    );
    let outcome = asked.await;
    let outcome = outcome.map_err(|error| Usage::plain(error.to_string()))?;
    recorder.end(&outcome);
    let told = tell(args, &outcome, console);
    if let Some(run) = &run
        && outcome.status == RunStatus::ModelError
        && !args.json
    {
        console.hint(&format!(
            "`cellblock runs resume {run}` goes on from here when the model answers again"
        ));
    }
    telemetry.send(run.as_deref(), console).await;
    let taken = match &output {
        Some(output) => output.take(&outcome, &conversation, console).await,
        None => {
            if !args.json && !args.quiet {
                print_file_places(&outcome, &conversation, console).await;
            }
            Ok(())
        }
    };
    conversation.executor().close().await;
    servers.close().await;
    told?;
    taken?;
    Ok(status(&outcome))
}

/// An agent with its question, and the servers that tools of it come from.
struct Prepared {
    agent: Agent,
    question: String,
    servers: ToolServers,
}

async fn prepare(args: &AskArgs, setup: RunSetup, console: &Console) -> anyhow::Result<Prepared> {
    let question = match args.question.as_deref() {
        Some("-") => inputs::read_standard_input()?,
        Some(question) => question.to_owned(),
        None => String::new(),
    };
    if args.template.is_none() && question.trim().is_empty() {
        return Err(Usage::plain("the question is empty"));
    }
    let schema = args
        .schema
        .as_deref()
        .map(inputs::read_schema)
        .transpose()?;
    let template = args.template.as_deref();
    let template = template
        .map(|path| read_template("--template", path))
        .transpose()?;
    let model = args.agent_run_args.model.open(console).await?;
    let (builder, servers) = args.agent_run_args.agent(model, setup, console).await?;
    let mut builder = builder.verify(if args.verify { Verify::On } else { Verify::Off });
    if let Some(schema) = schema {
        builder = builder.answer_schema(schema);
    }
    let unfit = |error: cellblock::agent::AgentError| Usage::plain(error.to_string());
    let agent = builder.build().map_err(unfit)?;
    let TemplateRun { agent, question } = match template {
        Some(template) => agent
            .prepare_template(&template, inputs::arguments(&args.arguments)?)
            .map_err(unfit)?,
        None => TemplateRun { agent, question },
    };
    Ok(Prepared {
        agent,
        question,
        servers,
    })
}

fn tell(args: &AskArgs, outcome: &Outcome, console: &Console) -> anyhow::Result<()> {
    if args.json {
        console.print_json(&json!({"event": "outcome", "outcome": outcome}))?;
        return Ok(());
    }
    print_outcome(outcome, args.quiet, args.agent_run_args.labels(), console)?;
    Ok(())
}

fn status(outcome: &Outcome) -> u8 {
    match outcome.status {
        RunStatus::Answered => match &outcome.verification {
            Some(verification) if !verification.is_confirmed() => 19,
            _ => 0,
        },
        RunStatus::MaxSteps => 10,
        RunStatus::MaxTime => 11,
        RunStatus::MaxTokens => 12,
        RunStatus::MaxCost => 13,
        RunStatus::MaxFailures => 14,
        RunStatus::Stuck => 15,
        RunStatus::MalformedReplies => 16,
        RunStatus::InvalidAnswer => 17,
        RunStatus::ModelError => 18,
        RunStatus::Cancelled => 130,
    }
}
