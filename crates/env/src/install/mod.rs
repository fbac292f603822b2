//! Installing packages: uv resolves and unpacks them in a staging directory, in a sandbox where there is
//! one; the result is compiled, imported once, and moved into place.
//!
//! [`build`] is the sequence of these steps.

mod build;
mod exchange;
mod find_uv;
mod first_import;
mod inspect;
mod package_sources;
mod pip;
mod pip_settings;
mod sandbox;
mod staging;
mod uv;

use std::{ffi::OsStr, fs, path::Path, process::Command, time::Duration};

use crate::{
    Cancel, Error, FailureCause, ForeignPython, InstallFailure, Interpreter, Variables, dirs,
    program::{self, ProgramStopped},
};

pub(crate) use build::EnvironmentBuild;
pub(crate) use first_import::refresh_fonts;
pub(crate) use package_sources::EXTRA_HOSTS_VARIABLE;
pub use sandbox::{
    CommandFailure, InstallerSandbox, OpenSandbox, ProgramEnd, ProxySettings, SandboxCommand,
    SandboxError, SandboxOptions, SandboxStrength, UnreachedHost,
};
pub(crate) use staging::CACHE_DIRECTORY;

/// The time limit of one step. Half a gigabyte over a slow line takes a while; after half an hour the
/// index does not answer.
const STEP_TIME_LIMIT: Duration = Duration::from_secs(30 * 60);
/// A program that does not tell its version within this time does not work.
const VERSION_TIME_LIMIT: Duration = Duration::from_secs(20);

/// A function that gets the progress of an install.
pub(crate) type OnProgress<'a> = dyn FnMut(InstallProgress) + 'a;

/// One step forward in the making of an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InstallProgress {
    /// The current step.
    pub step: InstallStep,
    /// How many things of this step are done: packages, files or modules.
    pub done: u64,
    /// How many things the step has, when that is known.
    pub total: Option<u64>,
    /// The progress for a person: one line without terminal escapes.
    pub message: String,
}

/// The steps of the making of an environment, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum InstallStep {
    /// Another process makes the same environment; this process waits for it.
    Wait,
    /// Finding or downloading uv.
    Prepare,
    /// This machine has no sandbox for the installer; the message says why. The installer runs without one.
    OutsideWalls,
    /// Choosing packages and their versions.
    Resolve,
    /// Downloading packages.
    Download,
    /// Unpacking packages.
    Install,
    /// Compiling byte code.
    Compile,
    /// Importing once the modules that sessions will import.
    FirstImport,
}

impl InstallProgress {
    pub(crate) fn new(
        step: InstallStep,
        done: u64,
        total: Option<u64>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            step,
            done,
            total,
            message: message.into(),
        }
    }

    /// The share of the whole that is done, from 0 to 1, for one bar over all steps. The weights are
    /// measured times. The fraction does not go backwards as long as the steps come in order.
    pub fn fraction(&self) -> f64 {
        let (from, to) = match self.step {
            InstallStep::Wait => (0.0, 0.0),
            InstallStep::Prepare => (0.0, 0.15),
            InstallStep::OutsideWalls => (0.15, 0.15),
            InstallStep::Resolve => (0.15, 0.25),
            InstallStep::Download => (0.25, 0.40),
            InstallStep::Install => (0.40, 0.45),
            InstallStep::Compile => (0.45, 0.85),
            InstallStep::FirstImport => (0.85, 1.0),
        };
        let inside = match self.total {
            Some(total) if total > 0 => (self.done as f64 / total as f64).min(1.0),
            Some(_) => 0.0,
            // Ever nearer to the end of the step, which is not known.
            None => self.done as f64 / (self.done as f64 + 10.0),
        };
        from + (to - from) * inside
    }
}

/// What every step of an install needs.
#[derive(Clone, Copy)]
pub(crate) struct InstallContext<'a> {
    pub(crate) interpreter: &'a Interpreter,
    /// The system that packages are installed for, where it is not this one.
    pub(crate) target: Option<&'a ForeignPython>,
    pub(crate) variables: &'a Variables,
    pub(crate) cancel: &'a Cancel,
    /// The working directory of programs. Not the user's, whose `pyproject.toml` does not matter here.
    pub(crate) directory: &'a Path,
    /// Where our own copies of uv and pip are kept.
    pub(crate) tools: &'a Path,
    pub(crate) sandbox: Option<&'a dyn InstallerSandbox>,
}

impl InstallContext<'_> {
    /// The options of uv that name another system, where packages are installed for one.
    fn target_options(&self) -> Vec<String> {
        let options = self.target.map(ForeignPython::uv_options);
        options.into_iter().flatten().collect()
    }

    /// A command with the variables for installers.
    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.variables.command(program);
        command.current_dir(self.directory);
        command
    }

    /// Runs a command that prints the version of a program.
    fn run_version_command(
        &self,
        name: &str,
        command: Command,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<Vec<String>, Error> {
        self.run_within(
            VERSION_TIME_LIMIT,
            name,
            "tell its version",
            command,
            on_line,
        )
    }

    /// Runs a program outside of a sandbox and returns its last lines. A failure becomes an error with them.
    fn run(
        &self,
        name: &str,
        what: &'static str,
        command: Command,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<Vec<String>, Error> {
        self.run_within(STEP_TIME_LIMIT, name, what, command, on_line)
    }

    fn run_within(
        &self,
        time_limit: Duration,
        name: &str,
        what: &'static str,
        command: Command,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<Vec<String>, Error> {
        let command = program::end_with_parent(self.interpreter, command);
        let ran = program::run(command, Some(time_limit), self.cancel, &mut |_, text| {
            on_line(text);
        });
        let (end, lines) = match ran {
            Ok(ended) if ended.status.success() => return Ok(ended.tail),
            Ok(ended) => (program::program_end(ended.status), ended.tail),
            Err(ProgramStopped::DidNotStart(error)) => {
                (ProgramEnd::Other(error.to_string()), Vec::new())
            }
            Err(ProgramStopped::TimedOut) => (ProgramEnd::TimedOut(time_limit), Vec::new()),
            Err(ProgramStopped::Cancelled) => return Err(Error::Cancelled),
        };
        let failure = self.failure(name, what, end, lines);
        Err(Error::Install(Box::new(failure)))
    }

    /// A failure of a program, with no cause known yet.
    fn failure(
        &self,
        name: &str,
        what: &'static str,
        end: ProgramEnd,
        lines: Vec<String>,
    ) -> InstallFailure {
        InstallFailure {
            program: name.to_owned(),
            what,
            python: self.interpreter.executable.clone(),
            version: self.interpreter.version,
            end,
            cause: FailureCause::Unknown,
            lines,
            unreached: Vec::new(),
        }
    }
}

/// The largest file that is taken for a script.
const MAX_SCRIPT_BYTES: u64 = 1 << 20;

/// Replaces the path that installers saw by the final path, in scripts and in `pyvenv.cfg`.
fn relocate_scripts(prefix: &Path, seen: &Path, target: &Path) -> Result<(), Error> {
    let (Some(from), Some(to)) = (seen.to_str(), target.to_str()) else {
        return Ok(()); // The scripts of packages would not start; Python itself does.
    };
    let bin = prefix.join("bin");
    let scripts =
        fs::read_dir(&bin).map_err(|source| Error::io("read the directory", &bin, source))?;
    let scripts = scripts.filter_map(Result::ok).map(|entry| entry.path());
    for path in scripts.chain([prefix.join("pyvenv.cfg")]) {
        // Packages may put any file there. A file of gigabytes is no script, and is not read.
        let metadata = path.symlink_metadata();
        let is_file =
            metadata.is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MAX_SCRIPT_BYTES);
        // A binary is not text, and does not contain the path.
        let Some(text) = is_file.then(|| fs::read_to_string(&path).ok()).flatten() else {
            continue;
        };
        if text.contains(from) {
            fs::write(&path, text.replace(from, to))
                .map_err(|source| Error::io("write", &path, source))?;
        }
    }
    Ok(())
}

/// The variables for installers: the user's, without those that would put packages elsewhere or change what
/// is installed. Variables that say where packages come from stay.
pub(crate) fn installer_variables(variables: &Variables) -> Variables {
    let removed = [
        "CONDA_PREFIX",
        "PIP_DRY_RUN",
        "PIP_NO_BINARY",
        "PIP_NO_COMPILE",
        "PIP_ONLY_BINARY",
        "PIP_PREFIX",
        "PIP_PYTHON",
        "PIP_QUIET",
        "PIP_REPORT",
        "PIP_ROOT",
        "PIP_TARGET",
        "PIP_USER",
        "PIP_VERBOSE",
        // Byte code is compiled on purpose.
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONHOME",
        "PYTHONOPTIMIZE",
        "PYTHONPATH",
        "PYTHONPYCACHEPREFIX",
        "PYTHONSTARTUP",
        "PYTHONWARNINGS",
        "UV_COMPILE_BYTECODE",
        "UV_LINK_MODE",
        "UV_NO_BINARY",
        "UV_PROJECT",
        "UV_PYTHON",
        "UV_PYTHON_DOWNLOADS",
        "UV_SYSTEM_PYTHON",
        "UV_TARGET",
        "UV_VENV_SEED",
        "UV_WORKING_DIRECTORY",
        "VIRTUAL_ENV",
    ];
    let mut kept = removed
        .iter()
        .fold(variables.clone(), |variables, name| variables.without(name));
    if kept.get("HOME").is_none()
        && let Ok(home) = dirs::home(variables)
    {
        kept = kept.with("HOME", home);
    }
    // pip may run outside of a virtual environment here, because nothing is installed into the interpreter.
    kept.with("PIP_REQUIRE_VIRTUALENV", "0")
        // A sandbox does not show packages in the user's home, so they count nowhere.
        .with("PYTHONNOUSERSITE", "1")
        .with("NO_COLOR", "1")
}

/// A number of packages in words.
fn count_packages(count: u64) -> String {
    match count {
        1 => "1 package".to_owned(),
        _ => format!("{count} packages"),
    }
}
