//! `cellblock model`: models that run on this machine.

use crate::cell_run::Signals;
use crate::commands::setup::find_interpreter;
use crate::failure::Usage;
use crate::process;
use crate::terminal::{Console, DownloadBar, EnvironmentBar, Style, size};
use cellblock::Packages;
use cellblock::env::{Cancel, Environments};
use cellblock_local_model::{
    DEFAULT_MODEL, LOCAL_PREFIX, LocalModels, ServerUse, StoredModel, WeightsSource, catalogue,
};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::Arc;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ModelCommandArgs {
    #[command(subcommand)]
    command: ModelCommand,
}

#[derive(Debug, Subcommand)]
enum ModelCommand {
    /// List the models of this machine, and those that can be had by name
    List(ListArgs),
    /// Bring a model: by name, path, address or from the model hub
    Get(GetArgs),
    /// Run the server of a model until Ctrl-C, for other programs too
    Serve(ServeArgs),
    /// Say which servers run
    Status(ListArgs),
    /// Remove a model and its weights
    Remove(RemoveArgs),
}

const EXAMPLES: &str = "\
The server is llama.cpp's, in an environment of its own. `ask`, `chat` and `eval` start it when they need it; ten minutes
after its last use it ends. It listens on loopback and wants a key that only you can read.

Examples:
  cellblock model get
  cellblock model get ./mistral-7b-q4.gguf
  cellblock model get hub:Qwen/Qwen2.5-Coder-7B-Instruct-GGUF/qwen2.5-coder-7b-instruct-q4_k_m.gguf
  cellblock ask 'How many primes are below a million?' --model local:qwen2.5-coder-1.5b
  cellblock model remove qwen2.5-coder-1.5b";

#[derive(Debug, Args)]
struct ListArgs {
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct GetArgs {
    /// A name of the list, a GGUF file, an https address, or hub:OWNER/REPOSITORY/FILE.gguf
    #[arg(value_name = "MODEL", default_value = DEFAULT_MODEL)]
    source: String,
    /// The name that it gets [default: from the file]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The SHA-256 of the file at an address
    #[arg(long, value_name = "HEX")]
    sha256: Option<String>,
}

#[derive(Debug, Args)]
struct ServeArgs {
    /// Which model [default: the only one]
    name: Option<String>,
}

#[derive(Debug, Args)]
struct RemoveArgs {
    /// Which model
    name: String,
}

pub(crate) fn run(args: ModelCommandArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let runtime = process::runtime_on_threads(2)?;
    let done = runtime.block_on(async {
        match args.command {
            ModelCommand::List(args) => list(&args, console),
            ModelCommand::Get(args) => interruptible(get_source(&args, console)).await,
            ModelCommand::Serve(args) => serve_until_signal(args, console).await,
            ModelCommand::Status(args) => status(&args, console),
            ModelCommand::Remove(args) => remove(&args, console).await,
        }
    });
    runtime.shutdown_background();
    done
}

/// Downloads the default model, after a person agreed.
pub(crate) async fn get_default(console: &Console) -> anyhow::Result<()> {
    let args = GetArgs {
        source: DEFAULT_MODEL.to_owned(),
        name: None,
        sha256: None,
    };
    get_source(&args, console).await.map(drop)
}

/// Starts the server of a local model, or finds the one that runs.
pub(crate) async fn serve(name: &str, console: &Console) -> anyhow::Result<ServerUse> {
    let models = LocalModels::from_process()?;
    let model = models.find(name).map_err(told)?;
    if models.running(name).is_none() {
        let line = format!("starting the server of {name}");
        console.say(&console.on_err(Style::Dim, &line));
    }
    let python = prepare_server(console).await?;
    models.serve(&model, &python).await.map_err(told)
}

/// The Python with the server program. It is made on the first use.
async fn prepare_server(console: &Console) -> anyhow::Result<std::path::PathBuf> {
    let environments = environments()?;
    let python = find_interpreter(None)?;
    let bar = Arc::new(EnvironmentBar::new(console));
    let shown = Arc::clone(&bar);
    let cancel = Cancel::new();
    // When the caller is gone, the installer ends.
    let _guard = cancel.on_drop();
    let made = tokio::task::spawn_blocking(move || {
        LocalModels::prepare_server(&environments, &python, &cancel, &mut |progress| {
            shown.report(&progress);
        })
    });
    let made = made.await;
    bar.clear();
    made?.map_err(told)
}

async fn get_source(args: &GetArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let variable = |name: &str| std::env::var(name).ok();
    let source = WeightsSource::parse(&args.source, args.sha256.as_deref(), variable);
    let source = source.map_err(told)?;
    let name = args.name.clone().unwrap_or_else(|| source.default_name());
    let models = LocalModels::from_process()?;
    let bar = DownloadBar::new(console, &name);
    let environments = environments()?;
    let python = || find_interpreter(None);
    let progress = &mut |progress: cellblock_local_model::DownloadProgress| {
        bar.report(progress.done, progress.total);
    };
    let got = models
        .get(&name, &source, &environments, python, progress)
        .await;
    bar.clear();
    let model = got.map_err(told)?;
    prepare_server(console).await?;
    console.say(&format!(
        "{} {}, {}; `cellblock ask` uses it where no other model is chosen, --model {LOCAL_PREFIX}{} always",
        console.on_err(Style::Good, "ready:"),
        model.name,
        size(model.bytes),
        model.name
    ));
    Ok(ExitCode::SUCCESS)
}

fn list(args: &ListArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let models = LocalModels::from_process()?;
    let stored = models.list();
    if args.json {
        console.print_json(&stored)?;
        return Ok(ExitCode::SUCCESS);
    }
    for model in &stored {
        let line = row(&model.name, model.bytes, "here");
        console.print_line(&format!("{line}  {}", model.weights.display()))?;
    }
    for model in catalogue() {
        if stored.iter().any(|stored| stored.name == model.name) {
            continue;
        }
        let state = if models.is_partial(model.name) {
            "begun"
        } else {
            "to get"
        };
        let line = row(model.name, model.bytes, state);
        console.print_line(&format!("{line}  {}", model.description))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(name: &str, bytes: u64, state: &str) -> String {
    format!("{name:<24}  {:>8}  {state:<6}", size(bytes))
}

fn status(args: &ListArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let models = LocalModels::from_process()?;
    let running: Vec<(StoredModel, _)> = models
        .list()
        .into_iter()
        .filter_map(|model| Some((model.clone(), models.running(&model.name)?)))
        .collect();
    if args.json {
        let all: Vec<Value> = running
            .iter()
            .map(|(model, server)| json!({"model": model.name, "server": server}))
            .collect();
        console.print_json(&all)?;
    } else if running.is_empty() {
        console.say("no server runs; `cellblock ask` starts one when it needs it");
    } else {
        for (model, server) in &running {
            let (url, pid, context) = (&server.url, server.pid, server.context);
            let name = &model.name;
            console.print_line(&format!(
                "{name:<24}  {url}  process {pid}, {context} tokens of context"
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn serve_until_signal(args: ServeArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new()?;
    let stored = LocalModels::from_process()?.list();
    let name = match (args.name, &stored[..]) {
        (Some(name), _) => name,
        (None, [only]) => only.name.clone(),
        (None, []) => {
            return Err(Usage::hinted(
                "there is no local model",
                "`cellblock model get` brings one",
            ));
        }
        (None, _) => return Err(Usage::plain("there are several local models: name one")),
    };
    let served = serve(&name, console).await?;
    console.print_line(&format!("export CELLBLOCK_BASE_URL={}", served.status.url))?;
    console.print_line(&format!("export CELLBLOCK_MODEL={name}"))?;
    console.print_line(&format!("export CELLBLOCK_API_KEY={}", served.key()))?;
    console.say("Ctrl-C ends it");
    signals.next().await;
    drop(served);
    LocalModels::from_process()?
        .stop(&name)
        .await
        .map_err(told)?;
    Ok(ExitCode::SUCCESS)
}

async fn remove(args: &RemoveArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let freed = LocalModels::from_process()?.remove(&args.name).await;
    let freed = freed.map_err(told)?;
    console.say(&format!("removed {}, {} freed", args.name, size(freed)));
    Ok(ExitCode::SUCCESS)
}

/// Ends early at a signal. What was downloaded stays, and the same command goes on with it.
async fn interruptible(
    work: impl Future<Output = anyhow::Result<ExitCode>>,
) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new()?;
    tokio::select! {
        done = work => done,
        signal = signals.next() => Ok(ExitCode::from(128 + signal as u8)),
    }
}

fn environments() -> Result<Environments, cellblock::Error> {
    Ok(Packages::from_process()?.environments().clone())
}

/// An error of local models, with its hint.
fn told(error: cellblock_local_model::Error) -> anyhow::Error {
    match error.hint() {
        Some(hint) => Usage::hinted(error.to_string(), hint),
        None => anyhow::Error::new(error),
    }
}
