//! `cellblock jupyter`: the kernel for notebooks, and its place among Jupyter's kernels.

use crate::args::{EnvironmentArgs, PythonArgs, SessionArgs};
use crate::cell_run::Signals;
use crate::config::ConfigArgs;
use crate::failure::Usage;
use crate::process;
use crate::terminal::{Console, HintPlace, WorkspaceKind, remedy};
use anyhow::Context as _;
use cellblock::env::{EnvironmentStatus, Requirements};
use cellblock::{CellResult, Host, Preload, Session, SessionOptions, Shell};
use cellblock_jupyter::kernelspec::{self, KernelSpec};
use cellblock_jupyter::{Advice, ConnectionFile, KernelAbout, SessionOpener, serve};
use clap::{Args, Parser, Subcommand};
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::SignalKind;
use tokio::sync::mpsc;

/// What notebooks need beside the packages of an environment: magics, completion by IPython, and widgets.
const NOTEBOOK_PACKAGES: [&str; 2] = ["ipython", "ipywidgets"];
/// The time of a cell that is not limited by a flag or by the configuration: the longest that there is.
const CELL_TIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

#[derive(Debug, Args)]
pub(crate) struct JupyterArgs {
    #[command(subcommand)]
    command: JupyterCommand,
}

#[derive(Debug, Subcommand)]
enum JupyterCommand {
    /// Make the kernel known to Jupyter
    Install(InstallArgs),
    /// List the kernels that `install` made
    List(PlaceArgs),
    /// Remove a kernel that `install` made
    Uninstall(UninstallArgs),
    /// Run a kernel; Jupyter does this
    Kernel(Box<KernelArgs>),
}

/// Where Jupyter looks for kernels.
#[derive(Debug, Args)]
struct PlaceArgs {
    /// In the Python environment that is active, instead of for this user
    #[arg(long)]
    sys_prefix: bool,
    /// In this Python environment
    #[arg(long, value_name = "DIR", conflicts_with = "sys_prefix")]
    prefix: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = INSTALL_EXAMPLES)]
struct InstallArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// The name by which notebooks refer to the kernel
    #[arg(long, value_name = "NAME", default_value = "cellblock")]
    name: String,
    /// The name that people see
    #[arg(long, value_name = "TEXT", default_value = "Cellblock (Python 3)")]
    display_name: String,
    /// Do not make the environment with IPython and widgets now
    #[arg(long)]
    no_packages: bool,
    /// Flags of the kernel, after `--`: see `cellblock jupyter kernel --help`
    #[arg(last = true, value_name = "KERNEL FLAGS")]
    kernel_flags: Vec<String>,
}

const INSTALL_EXAMPLES: &str = "\
Examples:
  cellblock jupyter install
  cellblock jupyter install -- --workspace .
  cellblock jupyter install --name data --display-name 'Cellblock, data' -- --env data --memory 8GiB --allow-net example.org";

#[derive(Debug, Args)]
struct UninstallArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// The name of the kernel
    #[arg(long, value_name = "NAME", default_value = "cellblock")]
    name: String,
}

#[derive(Debug, Args)]
struct KernelArgs {
    /// The file in which Jupyter says where to listen
    #[arg(value_name = "CONNECTION_FILE")]
    connection_file: PathBuf,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    python: PythonArgs,
    #[command(flatten)]
    environment: EnvironmentArgs,
}

/// The flags after `--`, to check them before they are written down.
#[derive(Debug, Parser)]
#[command(name = "cellblock jupyter kernel", no_binary_name = true)]
struct KernelFlags {
    #[command(flatten)]
    kernel: KernelArgs,
}

/// Runs the command that was asked for.
pub(crate) fn run(args: JupyterArgs, console: &Console) -> anyhow::Result<ExitCode> {
    match args.command {
        JupyterCommand::Install(args) => install(&args, console),
        JupyterCommand::List(place) => list(&place, console),
        JupyterCommand::Uninstall(args) => {
            let directory = kernelspec::uninstall(&args.place.data_directory()?, &args.name)?;
            console.say(&format!("removed {}", directory.display()));
            Ok(ExitCode::SUCCESS)
        }
        JupyterCommand::Kernel(args) => {
            let runtime = process::runtime_on_threads(2)?;
            let outcome = runtime.block_on(run_kernel(&args, console));
            runtime.shutdown_background();
            outcome
        }
    }
}

fn install(args: &InstallArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("finding this program")?;
    let mut argv = vec![
        program.display().to_string(),
        "jupyter".to_owned(),
        "kernel".to_owned(),
        "{connection_file}".to_owned(),
    ];
    let checked = [argv[3].clone()];
    let flags = checked.iter().chain(&args.kernel_flags);
    let KernelFlags { kernel } = KernelFlags::try_parse_from(flags)
        .map_err(|error| Usage::plain(error.render().to_string()))?;
    argv.extend(args.kernel_flags.iter().cloned());
    let spec = KernelSpec {
        name: args.name.clone(),
        display_name: args.display_name.clone(),
        argv,
    };
    let directory = spec.install(&args.place.data_directory()?)?;
    console.say(&format!("installed {}", directory.display()));
    if !args.no_packages {
        let runtime = process::runtime_on_threads(2)?;
        let made = runtime.block_on(kernel.make_environment(console));
        runtime.shutdown_background();
        made?;
    }
    Ok(ExitCode::SUCCESS)
}

fn list(place: &PlaceArgs, console: &Console) -> anyhow::Result<ExitCode> {
    for (directory, spec) in kernelspec::installed(&place.data_directory()?) {
        let line = format!(
            "{}  {}  {}\n",
            spec.name,
            spec.display_name,
            directory.display()
        );
        console.print(&line)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl PlaceArgs {
    /// The data directory of Jupyter that the flags name.
    fn data_directory(&self) -> anyhow::Result<PathBuf> {
        let below = |prefix: PathBuf| prefix.join("share/jupyter");
        if let Some(prefix) = &self.prefix {
            return Ok(below(prefix.clone()));
        }
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        if self.sys_prefix {
            let active = variable("VIRTUAL_ENV").or_else(|| variable("CONDA_PREFIX"));
            return active.map(|prefix| below(prefix.into())).ok_or_else(|| {
                Usage::hinted(
                    "no Python environment is active".to_owned(),
                    "activate one, or name it with --prefix DIR",
                )
            });
        }
        if let Some(directory) = variable("JUPYTER_DATA_DIR") {
            return Ok(directory.into());
        }
        let home = variable("HOME").context("HOME is not set")?;
        Ok(match variable("XDG_DATA_HOME") {
            Some(data) => PathBuf::from(data).join("jupyter"),
            None => PathBuf::from(home).join(".local/share/jupyter"),
        })
    }
}

/// The packages that the sessions of notebooks shall have.
fn requirements(environment: &EnvironmentArgs, host: &Host) -> anyhow::Result<Requirements> {
    let base = match &environment.env {
        Some(env) => host.requirements_of(env)?,
        None => Requirements::default_set(),
    };
    Ok(base.merge(Requirements::new(NOTEBOOK_PACKAGES)))
}

/// A host for notebooks. Its sessions have IPython where `install` made an environment with it.
pub(crate) async fn notebook_host(
    python: &PythonArgs,
    environment: &EnvironmentArgs,
    console: &Console,
) -> anyhow::Result<Host> {
    let builder = python.host_builder(Preload::Full);
    let plain = builder.clone().build()?;
    if !python.stdlib {
        let wanted = requirements(environment, &plain)?;
        let interpreter = &plain.environment().interpreter;
        let status = plain.packages().environments().status(interpreter, &wanted);
        if let EnvironmentStatus::Ready(environment) = status {
            return Ok(builder.environment(*environment).build()?);
        }
    }
    environment.build(builder, None, console).await
}

/// What a kernel adds to the error of a cell.
pub(crate) type KernelAdvice = fn(&CellResult) -> Option<Advice>;

/// What helps in this place against the limit or the wall that a cell of a notebook ran into.
pub(crate) fn advice(
    place: HintPlace,
    workspace: WorkspaceKind,
    result: &CellResult,
) -> Option<Advice> {
    remedy(place, workspace, result).map(|remedy| Advice {
        text: remedy.text,
        replaces_hint: remedy.replaces_hint,
    })
}

/// What the kernel of a host tells about itself, and what it advises.
pub(crate) fn about(host: &Host, advice: KernelAdvice) -> KernelAbout {
    KernelAbout {
        python_version: host.environment().interpreter.version.to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ports: None,
        advice,
    }
}

impl KernelArgs {
    async fn make_environment(&self, console: &Console) -> anyhow::Result<()> {
        let config = self.config.load()?;
        let python = self.python.resolve(&config)?;
        if python.stdlib {
            return Ok(());
        }
        let builder = python.host_builder(Preload::None);
        let host = EnvironmentArgs::default()
            .build(builder, None, console)
            .await?;
        let wanted = requirements(&self.environment, &host)?;
        host.environment_with(wanted).await?;
        Ok(())
    }
}

async fn run_kernel(args: &KernelArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new()?;
    let connection = ConnectionFile::read(&args.connection_file)?;
    let config = args.config.load()?;
    let python = args.python.resolve(&config)?;
    let session = args.session.resolve(&config)?;
    let mut options = session.options()?;
    if session.timeout.is_none() {
        options.limits.wall = CELL_TIME;
    }
    options.shell = Shell::Ipython;
    let host = notebook_host(&python, &args.environment, console).await?;
    let advice: KernelAdvice = match session.workspace_kind() {
        WorkspaceKind::Fresh => |result| advice(HintPlace::Kernel, WorkspaceKind::Fresh, result),
        WorkspaceKind::Named => |result| advice(HintPlace::Kernel, WorkspaceKind::Named, result),
    };
    let about = about(&host, advice);
    let opener = Arc::new(HostOpener { host, options });
    let (interrupt, interrupts) = mpsc::channel(1);
    let serving = serve(&connection, opener, about, interrupts);
    tokio::pin!(serving);
    let mut interrupt = Some(interrupt);
    loop {
        tokio::select! {
            served = &mut serving => {
                served?;
                return Ok(ExitCode::SUCCESS);
            }
            signal = signals.next(), if interrupt.is_some() => {
                // Ctrl-C in the terminal of Jupyter reaches the kernel too: there it means the cell.
                match &interrupt {
                    Some(sender) if signal == SignalKind::interrupt().as_raw_value() => {
                        let _ = sender.try_send(());
                    }
                    _ => interrupt = None,
                }
            }
        }
    }
}

/// Opens the sessions of a kernel.
pub(crate) struct HostOpener {
    pub(crate) host: Host,
    pub(crate) options: SessionOptions,
}

impl SessionOpener for HostOpener {
    fn open(&self) -> Pin<Box<dyn Future<Output = Result<Session, String>> + Send + '_>> {
        Box::pin(async move {
            let opened = self.host.open(self.options.clone()).await;
            opened.map_err(|error| error.to_string())
        })
    }
}
