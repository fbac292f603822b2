//! Packages of which there is only the source. To build one runs code that its authors wrote, so that happens behind walls or not
//! at all: whoever has walls is asked for wheels.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    Error, InstallFailure, Order, Progress, Room, Step, Strength, Walls,
    child::Tail,
    dirs,
    install::{Job, Question, Report, Tool},
    pip::Pip,
    pip_settings::PipSettings,
};

/// Compilers take long; an hour means that it hangs.
const LIMIT: Duration = Duration::from_secs(3600);

/// Whether the source may be what is left of a package that could not be found.
pub(crate) fn may_help(failure: &InstallFailure) -> bool {
    let says = |part: &str| failure.lines.iter().any(|line| line.contains(part));
    if !failure.unreached.is_empty() {
        return false;
    }
    says("wheels") || says("No matching distribution")
}

/// Has wheels made of everything that is wanted, and returns the directory that holds them. The room is another one than that of the
/// installer: who builds must not be able to touch what is installed.
pub(crate) fn build(
    walls: &dyn Walls,
    job: &Job<'_>,
    tool: &Tool,
    question: &Question<'_>,
    scratch: &Path,
    report: &mut Report<'_>,
) -> Result<PathBuf, Error> {
    let message = "building from source, behind walls";
    report(Progress::new(Step::Resolve, 1, None, message));
    let found;
    let pip = match tool {
        Tool::Pip(pip, _) => pip,
        Tool::Uv(..) => {
            found = Pip::find_or_make(job, report)?;
            &found
        }
    };
    let settings = PipSettings::read_for_pip(job, pip);
    let kit = pip.kit(job, &settings);
    let directory = scratch.join("build");
    dirs::create(&directory)?;
    for (name, text) in question.files() {
        let path = directory.join(name);
        dirs::write(&path, text).map_err(|source| Error::io("write", &path, source))?;
    }
    let hosts = kit.places.hosts();
    let room = Room {
        interpreter: job.interpreter.clone(),
        shown: kit.shown.into_iter().chain(kit.places.shown()?).collect(),
        // A way to the network can be guarded only behind all walls.
        strength: if hosts.is_empty() {
            Strength::Best
        } else {
            Strength::Full
        },
        hosts,
        proxies: kit.places.proxies,
        directory: directory.clone(),
        limit: LIMIT,
    };
    let order = Order {
        command: pip.build_command(),
        variables: kit.variables,
    };
    let failed = |status: String, lines, unreached| {
        Error::Install(Box::new(InstallFailure {
            tool: pip.name(),
            what: "build the packages from source",
            python: job.interpreter.executable.clone(),
            version: job.interpreter.version,
            status,
            lines,
            unreached,
        }))
    };
    let mut tail = Tail::default();
    let mut opened = walls
        .open(&room)
        .map_err(|no_room| failed(no_room.why().to_owned(), Vec::new(), Vec::new()))?;
    let outcome = opened.run(&order, job.cancel, &mut |line| tail.push(line));
    drop(opened);
    if job.cancel.is_cancelled() {
        return Err(Error::Cancelled);
    }
    outcome.map_err(|ended| {
        let mut lines = tail.into_lines();
        lines.extend(ended.unreached.iter().map(|one| one.why.clone()));
        failed(ended.status, lines, ended.unreached)
    })?;
    shelve(&directory.join("wheels"), &scratch.join("shelf"))
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
