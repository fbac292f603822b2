//! Filling a directory with a Python environment, with whatever installer the machine has.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    Cancel, Error, InstallFailure, Installer, Interpreter, Package, Progress, Step, Variables,
    Walls,
    child::{self, Stopped},
    dirs,
    environment::Kind,
    pip::Pip,
    pip_settings::PipSettings,
    uv::{self, Uv},
    workroom::{Kit, Workroom},
};

/// Half a gigabyte over a slow line takes a while; more than this means that nobody answers.
pub(crate) const LONGEST: Duration = Duration::from_secs(30 * 60);

/// Where progress goes.
pub(crate) type Report<'a> = dyn FnMut(Progress) + 'a;

/// What every step of the making needs.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) interpreter: &'a Interpreter,
    pub(crate) variables: &'a Variables,
    pub(crate) cancel: &'a Cancel,
    /// Where programs run: not where the user stands, whose `pyproject.toml` says nothing here.
    pub(crate) directory: &'a Path,
    /// Where installers of our own are kept.
    pub(crate) tools: &'a Path,
    /// Whoever has walls, for installers to work behind.
    pub(crate) walls: Option<&'a dyn Walls>,
}

/// What installs. Both take wheels only: no code of a package runs at install.
pub(crate) enum Tool {
    Uv(Uv, PipSettings),
    Pip(Pip, PipSettings),
}

/// The directory below a room's that everything is put into.
pub(crate) const MADE: &str = "made";
/// The directory below a room's with wheels that were made for it.
pub(crate) const SHELF: &str = "shelf";

/// Where packages come from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    Index,
    /// Wheels that were made for this: then no index is asked.
    Shelf,
}

/// What is to be found out, and what stands already.
pub(crate) struct Question<'a> {
    pub(crate) packages: &'a [String],
    /// Versions that must stay as they are.
    pub(crate) there: &'a [Package],
}

/// The files of a question, below a room's directory.
pub(crate) const WANTED: &str = "wanted.txt";
pub(crate) const THERE: &str = "there.txt";

impl Question<'_> {
    /// The files with the requirements and the versions that must stay.
    pub(crate) fn files(&self) -> Vec<(PathBuf, String)> {
        let text = |lines: &[String]| lines.join("\n") + "\n";
        let there: Vec<String> = self.there.iter().map(Package::pinned).collect();
        vec![
            (WANTED.into(), text(self.packages)),
            (THERE.into(), text(&there)),
        ]
    }
}

impl Tool {
    /// What it takes with it into a room.
    pub(crate) fn kit(&self, job: &Job<'_>) -> Kit {
        match self {
            Self::Uv(uv, settings) => uv.kit(job, settings),
            Self::Pip(pip, settings) => pip.kit(job, settings),
        }
    }

    /// Every package that is needed, in the version that was chosen (`name==version`), sorted.
    pub(crate) fn resolve(
        &self,
        room: &mut Workroom<'_>,
        question: &Question<'_>,
        from: From,
        report: &mut Report<'_>,
    ) -> Result<Vec<String>, Error> {
        let message = "asking the package index";
        report(Progress::new(Step::Resolve, 0, None, message));
        if question.packages.is_empty() {
            return Ok(Vec::new());
        }
        let mut lock = match self {
            Self::Uv(uv, settings) => uv.resolve(room, question, settings, from)?,
            Self::Pip(pip, _) => pip.resolve(room, from)?,
        };
        lock.sort();
        lock.dedup();
        Ok(lock)
    }

    /// Puts exactly these packages into [`MADE`].
    pub(crate) fn install(
        &self,
        room: &mut Workroom<'_>,
        kind: Kind,
        lock: &[String],
        from: From,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        if kind == Kind::Environment {
            let message = "making the environment";
            report(Progress::new(Step::Download, 0, None, message));
        }
        match self {
            Self::Uv(uv, settings) => uv.install(room, kind, lock, from, settings, report),
            Self::Pip(pip, _) => pip.install(room, kind, lock, from, report),
        }
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::Uv(uv, _) => uv.name(),
            Self::Pip(pip, _) => pip.name(),
        }
    }
}

/// Does the work with uv, and where pip may do what uv could not, once more with pip.
pub(crate) fn with_tool<T>(
    job: &Job<'_>,
    installer: Installer,
    report: &mut Report<'_>,
    work: &mut dyn FnMut(&Tool, &mut Report<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    report(Progress::new(Step::Prepare, 0, Some(1), "looking for uv"));
    let mut reasons = Vec::new();
    if installer != Installer::Pip {
        match find_uv(job, report) {
            Ok((uv, settings)) => match work(&Tool::Uv(uv, settings), report) {
                Err(error) if installer != Installer::Uv && another_way_may_help(&error) => {
                    reasons.push(error.to_string());
                }
                outcome => return outcome,
            },
            Err(Error::Cancelled) => return Err(Error::Cancelled),
            Err(Error::NoInstaller { reasons: why }) => reasons.extend(why),
            Err(error) => reasons.push(error.to_string()),
        }
        if installer == Installer::Uv {
            return Err(Error::NoInstaller { reasons });
        }
    }
    let pip = Pip::find_or_make(job, report).map_err(|error| match error {
        Error::NoInstaller { reasons: why } => {
            for reason in why {
                // The search for uv may have asked for pip already.
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
            }
            Error::NoInstaller { reasons }
        }
        other => other,
    })?;
    let settings = PipSettings::read_for_pip(job, &pip);
    work(&Tool::Pip(pip, settings), report)
}

/// The largest file that is taken for a script.
const LARGEST_SCRIPT: u64 = 1 << 20;

/// Puts the final path where installers wrote the path they saw: into scripts and `pyvenv.cfg`.
pub(crate) fn relocate(prefix: &Path, seen: &Path, target: &Path) -> Result<(), Error> {
    let (Some(from), Some(to)) = (seen.to_str(), target.to_str()) else {
        return Ok(()); // Then only the scripts of packages would not start; Python itself does.
    };
    let bin = prefix.join("bin");
    let scripts =
        fs::read_dir(&bin).map_err(|source| Error::io("read the directory", &bin, source))?;
    let scripts = scripts.filter_map(Result::ok).map(|entry| entry.path());
    for path in scripts.chain([prefix.join("pyvenv.cfg")]) {
        // Packages put there what they like: a file of gigabytes is no script.
        let is_file = path
            .symlink_metadata()
            .is_ok_and(|metadata| metadata.is_file() && metadata.len() <= LARGEST_SCRIPT);
        // A binary is not text, and has no such path in it.
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

impl Job<'_> {
    /// A command in the cleaned surroundings.
    pub(crate) fn python(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.variables.command(program);
        command.current_dir(self.directory);
        command
    }

    /// Asks a program for its version. One that does not answer soon does not work.
    pub(crate) fn ask(
        &self,
        tool: &str,
        command: Command,
        line: &mut dyn FnMut(&str),
    ) -> Result<Vec<String>, Error> {
        let limit = Some(Duration::from_secs(20));
        self.run_within(limit, tool, "say its version", command, line)
    }

    /// Runs a program; a failure becomes an error with its last lines. Returns the last lines.
    pub(crate) fn run(
        &self,
        tool: &str,
        what: &'static str,
        command: Command,
        line: &mut dyn FnMut(&str),
    ) -> Result<Vec<String>, Error> {
        self.run_within(Some(LONGEST), tool, what, command, line)
    }

    fn run_within(
        &self,
        limit: Option<Duration>,
        tool: &str,
        what: &'static str,
        command: Command,
        line: &mut dyn FnMut(&str),
    ) -> Result<Vec<String>, Error> {
        let failed = |status: String, lines: Vec<String>| {
            Error::Install(Box::new(InstallFailure {
                tool: tool.to_owned(),
                what,
                python: self.interpreter.executable.clone(),
                version: self.interpreter.version,
                status,
                lines,
                unreached: Vec::new(),
            }))
        };
        let command = child::tied(self.interpreter, command);
        match child::run(command, limit, self.cancel, &mut |_, text| line(text)) {
            Ok(ended) if ended.status.success() => Ok(ended.tail),
            Ok(ended) => Err(failed(child::describe(ended.status), ended.tail)),
            Err(Stopped::DidNotStart(error)) => Err(failed(error.to_string(), Vec::new())),
            Err(Stopped::TimedOut) => Err(failed("it did not end in time".to_owned(), Vec::new())),
            Err(Stopped::Cancelled) => Err(Error::Cancelled),
        }
    }
}

/// The variables for installers: the user's, without those that would send the packages elsewhere or change
/// what is installed. What says where packages come from stays.
pub(crate) fn cleaned(variables: &Variables) -> Variables {
    let misleading = [
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
        // Byte code is the point.
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
    let mut cleaned = misleading
        .iter()
        .fold(variables.clone(), |variables, name| variables.without(name));
    if cleaned.get("HOME").is_none()
        && let Ok(home) = dirs::home(variables)
    {
        cleaned = cleaned.with("HOME", home);
    }
    // pip may be used here outside of a virtual environment, as nothing goes into the interpreter's own.
    cleaned
        .with("PIP_REQUIRE_VIRTUALENV", "0")
        // Behind walls nobody sees packages in the user's home, so they do not count anywhere.
        .with("PYTHONNOUSERSITE", "1")
        .with("NO_COLOR", "1")
}

fn find_uv(job: &Job<'_>, report: &mut Report<'_>) -> Result<(Uv, PipSettings), Error> {
    if let Some(uv) = Uv::find(job)? {
        let pip = match Pip::find(job) {
            Err(Error::Cancelled) => return Err(Error::Cancelled),
            found => found.ok(),
        };
        return Ok((uv, PipSettings::read(job, pip.as_ref())));
    }
    report(Progress::new(Step::Prepare, 0, Some(1), "fetching uv"));
    let pip = Pip::find_or_make(job, report)?;
    let uv = Uv::fetch(job, &pip, report)?;
    Ok((uv, PipSettings::read(job, Some(&pip))))
}

/// Whether pip may do what uv could not: a certificate that only pip is told of, or a uv that crashed. A
/// package that does not exist, a missing network and a full disk are the same for both.
fn another_way_may_help(error: &Error) -> bool {
    match error {
        Error::Install(failure) => {
            uv::is_about_certificates(&failure.lines) || failure.status.starts_with("killed")
        }
        _ => false,
    }
}
