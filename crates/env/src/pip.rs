//! pip: fetches uv, and installs where there is no uv.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::progress::packages;
use crate::{
    Error, Package, Progress, Step, dirs,
    environment::{self, Kind},
    install::{self, From, Job, MADE, Report, SHELF, THERE, WANTED},
    layer,
    lock::Lock,
    partial::Partial,
    pip_settings::PipSettings,
    requirement::normalize_name,
    take_over,
    workroom::{Kit, Workroom},
};

/// The first pip with `--python`, which installs into an environment that has no pip.
const OLDEST: (u32, u32) = (22, 3);

/// A pip that works, whichever Python it belongs to.
#[derive(Debug)]
pub(crate) struct Pip {
    program: OsString,
    arguments: Vec<OsString>,
    pub(crate) version: String,
}

impl Pip {
    /// The interpreter's own, or one on `PATH`. Debian's Python may have none.
    pub(crate) fn find(job: &Job<'_>) -> Result<Self, Error> {
        Self::of_python(job, &job.interpreter.executable)
            .or_else(|error| on_path(job)?.ok_or(error))
    }

    /// As [`Pip::find`], else one in a virtual environment of its own, which is kept among the tools.
    pub(crate) fn find_or_make(job: &Job<'_>, report: &mut Report<'_>) -> Result<Self, Error> {
        let reason = match Self::find(job) {
            Err(Error::NoInstaller { reasons }) => reasons,
            other => return other,
        };
        let home = job.tools.join(format!("pip-{}", job.interpreter.version));
        let python = environment::python(&home);
        if let Ok(pip) = Self::of_python(job, &python) {
            return Ok(pip);
        }
        dirs::create(job.tools)?;
        let _lock = Lock::take(&Lock::of(&home), job.cancel, &mut || {})?;
        if let Ok(pip) = Self::of_python(job, &python) {
            return Ok(pip);
        }
        Partial::sweep(&home);
        let settings = PipSettings::from_variables(job.variables);
        let scratch = Partial::room_for(&home);
        let kit = kit(job, &settings, None);
        let mut room = Workroom::open(job, scratch.path(), kit, report)?;
        let mut command = job.python(&job.interpreter.executable);
        command.args(["-m", "venv", MADE]);
        match room.run("venv", "make an environment with pip", command, &mut |_| {}) {
            Ok(()) => {}
            Err(Error::Install(failure)) => {
                let why = failure.lines.into_iter().next().unwrap_or_default();
                let mut reasons = reason;
                reasons.push(format!("python -m venv failed: {why}"));
                return Err(Error::NoInstaller { reasons });
            }
            Err(error) => return Err(error),
        }
        // The one that comes with an early 3.10 or 3.11 is too old for `--python`.
        let inside = environment::python(Path::new(MADE));
        let mut version = String::new();
        let mut command = job.python(&inside);
        command.args(["-c", VERSION]);
        room.run("pip", "say its version", command, &mut |line| {
            version = line.to_owned();
        })?;
        if is_too_old(version.trim_start_matches("pip ")) {
            let mut command = job.python(&inside);
            command.args(["-m", "pip", "install", "--upgrade", "--no-input", "pip"]);
            room.run("pip", "upgrade itself", command, &mut |_| {})?;
        }
        let partial = Partial::of(&home);
        let prefix = partial.path();
        let seen = room.take_out(prefix)?;
        install::relocate(prefix, &seen, &home)?;
        take_over::make_readable(prefix)?;
        partial.finish()?;
        Self::of_python(job, &python)
    }

    /// What it takes with it into a room.
    pub(crate) fn kit(&self, job: &Job<'_>, settings: &PipSettings) -> Kit {
        kit(job, settings, self.home())
    }

    /// Which packages, in which versions.
    pub(crate) fn resolve(
        &self,
        room: &mut Workroom<'_>,
        from: From,
    ) -> Result<Vec<String>, Error> {
        const ANSWER: &str = "answer.json";
        let job = room.job();
        let mut command = self.command(job);
        command
            .arg("--python")
            .arg(&job.interpreter.executable)
            .args(["install", "--dry-run"])
            .args(INSTALL_OPTIONS)
            .args(from_shelf(from))
            .args(["--constraint", THERE, "--report", ANSWER])
            .args(["--requirement", WANTED]);
        room.run(&self.name(), "find the packages", command, &mut |_| {})?;
        let text = room.read(ANSWER)?;
        let found: Found = serde_json::from_slice(&text).map_err(|error| {
            let path = room.directory().join(ANSWER);
            Error::io("read", &path, std::io::Error::other(error))
        })?;
        let packages = found.install.into_iter().map(|item| item.metadata);
        Ok(packages
            .map(|package| format!("{}=={}", normalize_name(&package.name), package.version))
            .collect())
    }

    /// Puts packages into an environment, which it makes, or into a plain directory.
    pub(crate) fn install(
        &self,
        room: &mut Workroom<'_>,
        kind: Kind,
        lock: &[String],
        from: From,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        let job = room.job();
        if kind == Kind::Environment {
            let mut command = job.python(&job.interpreter.executable);
            command.args(["-m", "venv", "--without-pip", MADE]);
            room.run("venv", "make the environment", command, &mut |_| {})?;
        }
        if lock.is_empty() {
            return Ok(());
        }
        let mut command = self.command(job);
        command.arg("--python");
        let made = Path::new(MADE);
        match kind {
            Kind::Environment => command.arg(environment::python(made)).arg("install"),
            Kind::Layer => command
                .arg(&job.interpreter.executable)
                .args(["install", "--target"])
                .arg(layer::packages(made)),
        };
        command
            .args(INSTALL_OPTIONS)
            .args(from_shelf(from))
            .args(["--no-deps", "--"])
            .args(lock);
        let mut collected = 0;
        room.run(&self.name(), "install the packages", command, &mut |line| {
            if let Some(progress) = read_line(line, &mut collected) {
                report(progress);
            }
        })
    }

    /// Puts one package into a directory of its own, for any Python.
    pub(crate) fn fetch(
        &self,
        job: &Job<'_>,
        package: &str,
        scratch: &Path,
        target: &Path,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        let settings = PipSettings::read_for_pip(job, self);
        let mut room = Workroom::open(job, scratch, self.kit(job, &settings), report)?;
        let mut command = self.command(job);
        // Few retries: this is an attempt at something faster, not the last hope.
        command
            .args(["--retries", "1", "install"])
            .args(INSTALL_OPTIONS)
            .args(["--target", MADE, package]);
        room.run(&self.name(), "fetch uv", command, &mut |_| {})?;
        room.take_out(target)?;
        take_over::make_readable(target)?;
        Ok(())
    }

    /// Makes wheels of what `wanted.txt` names, from source where need be, and leaves them in `wheels`.
    pub(crate) fn build_command(&self) -> Vec<OsString> {
        let options = [
            "--disable-pip-version-check",
            "wheel",
            "--no-cache-dir",
            "--no-input",
            "--progress-bar=off",
            "--no-color",
            "--constraint=there.txt",
            "--wheel-dir=wheels",
            "--requirement=wanted.txt",
        ];
        let program = [self.program.clone()].into_iter();
        let options = options.into_iter().map(OsString::from);
        program
            .chain(self.arguments.iter().cloned())
            .chain(options)
            .collect()
    }

    /// The environment that it lives in, where that is one of ours.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        let home = Path::new(&self.program).parent()?.parent()?;
        home.join("pyvenv.cfg").exists().then(|| home.to_owned())
    }

    /// `pip config list`.
    pub(crate) fn configuration(&self, job: &Job<'_>) -> Option<String> {
        let mut command = self.command(job);
        command.args(["config", "list"]);
        let mut text = String::new();
        job.run(
            &self.name(),
            "list its configuration",
            command,
            &mut |line| {
                text.push_str(line);
                text.push('\n');
            },
        )
        .ok()?;
        Some(text)
    }

    pub(crate) fn name(&self) -> String {
        format!("pip {}", self.version)
    }

    fn command(&self, job: &Job<'_>) -> std::process::Command {
        let mut command = job.python(&self.program);
        command
            .args(&self.arguments)
            .arg("--disable-pip-version-check");
        command
    }

    /// The one that a Python has. To import its first module is enough to know its version, and takes a tenth of the time.
    fn of_python(job: &Job<'_>, python: &Path) -> Result<Self, Error> {
        Self::works(
            job,
            python.as_os_str().to_owned(),
            &["-m", "pip"],
            &["-c", VERSION],
        )
    }

    fn works(
        job: &Job<'_>,
        program: OsString,
        arguments: &[&str],
        question: &[&str],
    ) -> Result<Self, Error> {
        let shown = format!("{} {}", program.to_string_lossy(), arguments.join(" "));
        let mut command = job.python(&program);
        command.args(question);
        let mut answer = String::new();
        let ran = job.ask("pip", command, &mut |line| {
            if line.starts_with("pip ") {
                answer = line.to_owned();
            }
        });
        let refuse = |why: &str| {
            Err(Error::NoInstaller {
                reasons: vec![format!("{} {why}", shown.trim_end())],
            })
        };
        match ran {
            Err(Error::Cancelled) => return Err(Error::Cancelled),
            Err(Error::Install(failure)) => {
                let why = failure.lines.last().map_or("", String::as_str);
                return refuse(&format!("does not work ({why})"));
            }
            Err(_) => return refuse("does not start"),
            Ok(_) => {}
        }
        let version = answer.split(' ').nth(1).unwrap_or_default().to_owned();
        if is_too_old(&version) {
            return refuse(&format!("is too old ({version}, 22.3 is needed)"));
        }
        Ok(Self {
            program,
            arguments: arguments.iter().map(OsString::from).collect(),
            version,
        })
    }
}

/// Wheels only: no code of a package runs at install, and nobody waits an hour for a compiler. Byte code is
/// made in a step of its own.
const INSTALL_OPTIONS: [&str; 8] = [
    "--only-binary=:all:",
    "--no-compile",
    "--no-input",
    "--no-user",
    "--progress-bar=off",
    "--no-warn-script-location",
    "--no-color",
    "--ignore-installed",
];

/// What a Python prints that has pip, as `pip --version` begins.
const VERSION: &str = "import pip; print('pip', pip.__version__)";

fn is_too_old(version: &str) -> bool {
    let mut numbers = version.split('.').map_while(|part| part.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < OLDEST
}

fn kit(job: &Job<'_>, settings: &PipSettings, home: Option<PathBuf>) -> Kit {
    let mut places = settings.places();
    places.add_common(job.variables);
    Kit {
        shown: home.into_iter().collect(),
        places,
        variables: settings.for_walls(),
        files: Vec::new(),
    }
}

/// Wheels that were made here come from nowhere else.
fn from_shelf(from: From) -> &'static [&'static str] {
    match from {
        From::Index => &[],
        From::Shelf => &["--no-index", "--find-links", SHELF],
    }
}

/// What `pip install --report` writes, as far as it matters.
#[derive(Deserialize)]
struct Found {
    install: Vec<FoundItem>,
}

#[derive(Deserialize)]
struct FoundItem {
    metadata: Package,
}

fn on_path(job: &Job<'_>) -> Result<Option<Pip>, Error> {
    for name in ["pip3", "pip"] {
        // Behind walls there is only the system's, whose Python is there too.
        let is_there = |path: &PathBuf| job.walls.is_none() || path.starts_with("/usr");
        for program in job.variables.programs(name).into_iter().filter(is_there) {
            match Pip::works(job, program.into(), &[], &["--version"]) {
                Ok(pip) => return Ok(Some(pip)),
                Err(Error::Cancelled) => return Err(Error::Cancelled),
                Err(_) => {}
            }
        }
    }
    Ok(None)
}

fn read_line(line: &str, collected: &mut u64) -> Option<Progress> {
    if let Some(name) = line.strip_prefix("Collecting ") {
        *collected += 1;
        let name = name.split(' ').next().unwrap_or(name);
        Some(Progress::new(
            Step::Download,
            *collected,
            None,
            format!("fetching {name}"),
        ))
    } else if let Some(names) = line.strip_prefix("Installing collected packages: ") {
        let total = names.split(", ").count() as u64;
        Some(Progress::new(
            Step::Install,
            0,
            Some(total),
            format!("installing {}", packages(total)),
        ))
    } else if line.starts_with("WARNING: Retrying") {
        Some(Progress::new(
            Step::Download,
            *collected,
            None,
            "the package index does not answer, trying again",
        ))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pips_lines_become_progress() {
        let mut collected = 0;
        let mut read = |line| read_line(line, &mut collected).map(|p| (p.step, p.done, p.total));
        assert_eq!(read("Looking in links: /x"), None);
        assert_eq!(read("Collecting numpy"), Some((Step::Download, 1, None)));
        assert_eq!(
            read("Collecting six>=1.5 (from python-dateutil)"),
            Some((Step::Download, 2, None))
        );
        assert_eq!(
            read("Installing collected packages: six, numpy"),
            Some((Step::Install, 0, Some(2)))
        );
    }
}
