//! Packages of which there is only the source. To build one runs code that its authors wrote, so that happens behind walls or not
//! at all: whoever has walls is asked for wheels.

use std::{
    ffi::OsString,
    fmt, fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    Cancel, Error, InstallFailure, Interpreter, Progress, Step, dirs,
    install::{Job, Question, Report, Tool},
    pip::Pip,
    pip_settings::PipSettings,
};

/// What to do with a package that has no wheel.
#[derive(Clone, Debug, Default)]
pub enum Sources {
    /// It is refused.
    #[default]
    Refused,
    /// It is built by this, behind walls.
    Built(Arc<dyn Builder>),
}

/// Builds wheels behind walls.
pub trait Builder: fmt::Debug + Send + Sync {
    /// Runs the order's command. Its output goes to `line`; a failure comes with the reason.
    fn build(
        &self,
        order: &Order,
        cancel: &Cancel,
        line: &mut dyn FnMut(&str),
    ) -> Result<(), String>;
}

/// A command that must run behind walls.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Order {
    /// The Python that the wheels are for.
    pub interpreter: Interpreter,
    /// The program and its arguments. Relative paths are below `directory`.
    pub command: Vec<OsString>,
    /// Its variables, and no others.
    pub variables: Vec<(OsString, OsString)>,
    /// What it must be able to read.
    pub shown: Vec<PathBuf>,
    /// The hosts of the package indexes, each perhaps with a port: all of the network that it needs.
    pub hosts: Vec<String>,
    /// Where it works, and the only place where it may write.
    pub directory: PathBuf,
}

/// Whether the source may be what is left of a package that could not be found.
pub(crate) fn may_help(failure: &InstallFailure) -> bool {
    let says = |part: &str| failure.lines.iter().any(|line| line.contains(part));
    says("wheels") || says("No matching distribution")
}

/// Has wheels made of everything that is wanted, and returns the directory that holds them.
pub(crate) fn build(
    builder: &dyn Builder,
    job: &Job<'_>,
    tool: &Tool,
    tools: &Path,
    question: &Question<'_>,
    report: &mut Report<'_>,
) -> Result<PathBuf, Error> {
    let message = "building from source, behind walls";
    report(Progress::new(Step::Resolve, 1, None, message));
    let found;
    let pip = match tool {
        Tool::Pip(pip) => pip,
        Tool::Uv(..) => {
            found = Pip::find_or_make(job, tools)?;
            &found
        }
    };
    let settings = PipSettings::read_for_pip(job, pip);
    let directory = question.scratch.join("build");
    dirs::create(&directory)?;
    let inside = Question {
        scratch: &directory,
        ..*question
    };
    inside.write()?;
    let wheels = directory.join("wheels");
    let order = Order {
        interpreter: job.interpreter.clone(),
        command: pip.build_command(),
        variables: settings.for_walls(),
        shown: pip.home().into_iter().chain(settings.paths()).collect(),
        hosts: settings.hosts(),
        directory: directory.clone(),
    };
    let mut last = std::collections::VecDeque::new();
    let outcome = builder.build(&order, job.cancel, &mut |line| {
        if last.len() == 20 {
            last.pop_front();
        }
        last.push_back(line.chars().take(400).collect::<String>());
    });
    if job.cancel.is_cancelled() {
        return Err(Error::Cancelled);
    }
    outcome.map_err(|status| {
        Error::Install(Box::new(InstallFailure {
            tool: pip.name(),
            what: "build the packages from source",
            python: job.interpreter.executable.clone(),
            version: job.interpreter.version,
            status,
            lines: last.into(),
        }))
    })?;
    shelve(&wheels, &question.scratch.join("shelf"))
}

/// Takes over what are really wheels: code that ran in there may have left anything, links to the user's files included.
fn shelve(wheels: &Path, shelf: &Path) -> Result<PathBuf, Error> {
    dirs::create(shelf)?;
    let failed = |source| Error::io("take the wheels from", wheels, source);
    if !fs::symlink_metadata(wheels).map_err(failed)?.is_dir() {
        return Err(failed(std::io::ErrorKind::NotADirectory.into()));
    }
    for entry in fs::read_dir(wheels).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let is_file = entry.file_type().map_err(failed)?.is_file();
        let name = entry.file_name();
        if is_file && Path::new(&name).extension().is_some_and(|e| e == "whl") {
            fs::rename(entry.path(), shelf.join(&name)).map_err(failed)?;
        }
    }
    Ok(shelf.to_owned())
}
