//! `cellblock eval`: how well a model does.

mod cluster;
mod models;
mod report;

use crate::agent_run::{AgentArgs, ModelArgs};
use crate::args::{EnvironmentArgs, PythonArgs, ToolboxArgs};
use crate::cell_run::Signals;
use crate::config::ConfigArgs;
use crate::failure::Usage;
use crate::process;
use crate::terminal::Console;
use cellblock::agent::{Agent, CancellationToken, GivenFile, executor};
use cellblock::eval::{
    AskMode, EvalReport, Evaluation, PlainOptions, Suite, TaskFile, replace_score_table,
    score_table,
};
use cellblock::tools::DynamicTool;
use cellblock::{Host, NetworkRule, Preload, SessionOptions};
use clap::{Args, Subcommand};
use cluster::ClusterRunner;
use models::TaskModels;
use report::EvalProgress;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    mut_arg("record", |arg| arg.value_name("DIR").help("Record the exchanges of each task in a file of this directory")),
    after_help = EXAMPLES
)]
pub(crate) struct EvalArgs {
    #[command(subcommand)]
    command: Option<EvalCommand>,
    /// The file of tasks
    #[arg(value_name = "FILE", required = true)]
    file: Option<PathBuf>,
    /// Run this task; may be given several times [default: all]
    #[arg(long, value_name = "TASK")]
    only: Vec<String>,
    /// So many tasks at a time
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// Run each task so often; the score counts tries
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with_all = ["record", "replay"])]
    tries: usize,
    /// Ask the model alone, without the agent: once, with everything in the question
    #[arg(long)]
    plain: bool,
    /// Run the tasks in the queue of a cluster: http(s) addresses of nodes, separated by commas. Model and agent are those of the nodes
    #[arg(long, value_name = "URLS", value_delimiter = ',', conflicts_with_all = NOT_IN_CLUSTER)]
    cluster: Vec<String>,
    /// Write the results to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the files that checks name to this directory, below the name of the task
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Compare with the results in this file; a task that passed there must pass
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// End with 1 if the score is lower, 0 to 1
    #[arg(long, value_name = "SCORE")]
    min_score: Option<f64>,
    /// Take the replies of each task from its recording in this directory
    #[arg(long, value_name = "DIR", conflicts_with_all = ["model", "record"])]
    replay: Option<PathBuf>,
    /// Who answers, for the headers of recordings and the results [default: the model and its address]
    #[arg(long, value_name = "TEXT")]
    source: Option<String>,
    /// Let the code of every task reach a host, such as example.org; the rules are those of ask
    #[arg(long, value_name = "RULE")]
    allow_net: Vec<NetworkRule>,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    agent: AgentArgs,
    #[command(flatten)]
    toolbox: ToolboxArgs,
    #[command(flatten)]
    python: PythonArgs,
    #[command(flatten)]
    environment: EnvironmentArgs,
    #[command(flatten)]
    config: ConfigArgs,
}

#[derive(Debug, Subcommand)]
enum EvalCommand {
    /// Print the scores of many results as a Markdown table
    Table(TableArgs),
}

/// What the nodes of a cluster decide, and what a run over HTTP cannot carry.
const NOT_IN_CLUSTER: &[&str] = &[
    "plain",
    "record",
    "replay",
    "allow_net",
    "base_url",
    "key_variable",
    "context_tokens",
    "reply_tokens",
    "temperature",
    "format",
    "prompt",
    "locale",
    "no_compute",
    "best_of",
    "templates_dir",
    "tools_dir",
    "shell",
    "python",
    "stdlib",
    "env",
    "config",
];

const EXAMPLES: &str = "\
The scores go to standard output, everything else to standard error. docs/eval.md describes the file of tasks.
Ctrl-C ends the tasks that run; what was reached is printed and written.
With --cluster a token for the nodes is taken from CELLBLOCK_TOKEN.

Examples:
  cellblock eval evals/secret/suite.toml --model gpt-4o-mini --format json --jobs 4
  cellblock eval evals/data/suite.toml --model gpt-4o-mini --plain --json plain.json
  cellblock eval evals/data/suite.toml --model gpt-4o-mini --compare yesterday.json --min-score 0.8
  cellblock eval evals/data/suite.toml --cluster http://n1:8742,http://n2:8742 --jobs 200
  cellblock eval evals/secret/suite.toml --stdlib --format xml --replay evals/secret/recordings/xml

Exit status:
  0 it ran
  1 the score is below --min-score, or a task that passed in --compare fails
  130 Ctrl-C, 2 wrong usage, 3 could not start";

/// Evaluates.
pub(crate) fn run(args: EvalArgs, console: &Console) -> anyhow::Result<ExitCode> {
    if let Some(EvalCommand::Table(table)) = &args.command {
        return print_table(table, console);
    }
    let runtime = process::runtime_on_threads(2)?;
    runtime.block_on(evaluate(args, console))
}

async fn evaluate(mut args: EvalArgs, console: &Console) -> anyhow::Result<ExitCode> {
    // The nodes of a cluster have a configuration of their own.
    let mut config = None;
    if args.cluster.is_empty() {
        let config = config.insert(args.config.load()?);
        (args.agent, args.model) = args.agent.resolve_with(&args.model, config)?;
        args.python = args.python.resolve(config)?;
    }
    if args
        .min_score
        .is_some_and(|score| !(0.0..=1.0).contains(&score))
    {
        return Err(Usage::plain("--min-score must be from 0 to 1"));
    }
    let suite = suite(&args)?;
    let unusable = |error: cellblock::eval::ReportError| Usage::plain(error.to_string());
    let earlier = args.compare.as_ref().map(EvalReport::read).transpose();
    let earlier = earlier.map_err(unusable)?;
    let shown = EvalProgress::new(console, suite.tasks.len(), args.json.clone());
    let cancel = CancellationToken::new();
    let (evaluation, servers) = match &config {
        Some(config) => {
            let models = TaskModels::new(&args, &suite, console).await?;
            let gathered = args.toolbox.gather(&args.python, config, console);
            let (tools, servers) = gathered.await?;
            let evaluation = evaluation(&args, suite, models, tools, console).await?;
            (evaluation, Some(servers))
        }
        None => {
            let runner = ClusterRunner::connect(&args, &suite).await?;
            let source = args.source.clone();
            let evaluation = Evaluation::elsewhere(suite, runner).sources(move |_| source.clone());
            (evaluation, None)
        }
    };
    let mut evaluation = evaluation.jobs(args.jobs).tries(args.tries);
    if let Some(directory) = &args.out {
        evaluation = evaluation.out(directory);
    }
    let progress = |happened: cellblock::eval::Progress<'_>| shown.show(happened);
    let running = evaluation.run(&progress, &cancel);
    let mut signals = Signals::new()?;
    tokio::pin!(running);
    let report = loop {
        tokio::select! {
            report = &mut running => break report,
            _ = signals.next() => cancel.cancel(),
        }
    };
    if let Some(servers) = servers {
        servers.close().await;
    }
    shown.clear();
    if let Some(file) = &args.json {
        report.write(file).map_err(unusable)?;
    }
    console.print(&report::task_table(&report, console))?;
    let changes = earlier.map(|earlier| report.compare_with(&earlier));
    if let Some(changes) = &changes {
        console.print(&report::changes(changes, console))?;
    }
    if cancel.is_cancelled() {
        console.error("it was ended before all tasks were done");
        return Ok(ExitCode::from(130));
    }
    let is_low = args
        .min_score
        .is_some_and(|least| report.totals.score < least);
    let is_worse = changes.is_some_and(|changes| !changes.regressions.is_empty());
    Ok(ExitCode::from(u8::from(is_low || is_worse)))
}

fn suite(args: &EvalArgs) -> anyhow::Result<Suite> {
    let file = args.file.as_ref();
    let file = file.ok_or_else(|| Usage::plain("no file of tasks is given"))?;
    let suite = Suite::read(file).map_err(|error| Usage::plain(error.to_string()))?;
    if args.only.is_empty() {
        return Ok(suite);
    }
    suite
        .with_tasks(&args.only)
        .map_err(|problem| Usage::plain(format!("--only: {problem}")))
}

async fn evaluation(
    args: &EvalArgs,
    suite: Suite,
    models: TaskModels,
    tools: Vec<Arc<dyn DynamicTool>>,
    console: &Console,
) -> anyhow::Result<Evaluation> {
    let environment = &args.environment;
    let host = environment
        .host(&args.python, Preload::None, console)
        .await?;
    let (agent, model) = (args.agent.clone(), args.model.clone());
    let options = SessionOptions {
        network: args.allow_net.clone(),
        ..SessionOptions::default()
    };
    let templates = agent.templates()?;
    let agents = move |files: Vec<TaskFile>| {
        let executor = sessions(&host, options.clone(), files);
        let builder = Agent::builder().executor(executor).tools(tools.clone());
        agent.set_up(builder, &model, templates.clone())
    };
    let models = Arc::new(models);
    let sources = Arc::clone(&models);
    let mut evaluation = Evaluation::new(suite, move |task| models.open(task), agents)
        .sources(move |task| sources.source(task));
    if args.plain {
        evaluation = evaluation.mode(AskMode::Plain(PlainOptions {
            max_tokens: args.model.reply_tokens,
            temperature: args.model.temperature,
            time_limit: args.agent.max_time,
        }));
    }
    Ok(evaluation)
}

/// Sessions that begin with these files.
fn sessions(
    host: &Host,
    options: SessionOptions,
    files: Vec<TaskFile>,
) -> cellblock::agent::LocalExecutor {
    let files = files.into_iter().map(|file| GivenFile {
        path: file.path,
        contents: Arc::new(file.contents),
    });
    executor(host.clone(), options, files.collect())
}

#[derive(Debug, Args)]
pub(crate) struct TableArgs {
    /// Results that `cellblock eval --json` wrote
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Put the table into this page, between its lines `<!-- scores: begin … -->` and `<!-- scores: end -->`
    #[arg(long, value_name = "PAGE")]
    into: Option<PathBuf>,
}

fn print_table(args: &TableArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let reports = args.files.iter().map(EvalReport::read);
    let reports = reports.collect::<Result<Vec<EvalReport>, _>>();
    let reports = reports.map_err(|error| Usage::plain(error.to_string()))?;
    let table = score_table(&reports);
    let Some(page) = &args.into else {
        console.print(&table)?;
        return Ok(ExitCode::SUCCESS);
    };
    let wrong = |problem: String| Usage::plain(format!("--into {}: {problem}", page.display()));
    let text = std::fs::read_to_string(page).map_err(|error| wrong(error.to_string()))?;
    let text = replace_score_table(&text, &table).map_err(|error| wrong(error.to_string()))?;
    std::fs::write(page, text).map_err(|error| wrong(error.to_string()))?;
    Ok(ExitCode::SUCCESS)
}
