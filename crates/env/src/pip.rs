//! pip: fetches uv, and installs where there is no uv.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{
    Error, Package, Progress, Step, dirs, environment,
    install::{Job, Place, Question, Report},
    lock::Lock,
    partial::Partial,
    requirement::normal,
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
        Self::works(
            job,
            job.interpreter.executable.as_os_str().to_owned(),
            &["-m", "pip"],
        )
        .or_else(|error| on_path(job)?.ok_or(error))
    }

    /// As [`Pip::find`], else one in a virtual environment of its own, which is kept in `tools`.
    pub(crate) fn find_or_make(job: &Job<'_>, tools: &Path) -> Result<Self, Error> {
        let reason = match Self::find(job) {
            Err(Error::NoInstaller { reasons }) => reasons,
            other => return other,
        };
        let home = tools.join(format!("pip-{}", job.interpreter.version));
        let python = environment::python(&home);
        if let Ok(pip) = Self::works(job, python.clone().into(), &["-m", "pip"]) {
            return Ok(pip);
        }
        dirs::create(tools)?;
        let _lock = Lock::take(&Lock::of(&home), job.cancel, &mut || {})?;
        if let Ok(pip) = Self::works(job, python.clone().into(), &["-m", "pip"]) {
            return Ok(pip);
        }
        Partial::sweep(&home);
        let partial = Partial::of(&home);
        let made = job.run(
            "venv",
            "make an environment with pip",
            {
                let mut command = job.python(&job.interpreter.executable);
                command.args(["-m", "venv"]).arg(partial.path());
                command
            },
            &mut |_| {},
        );
        match made {
            Ok(_) => {}
            Err(Error::Install(failure)) => {
                let why = failure.lines.into_iter().next().unwrap_or_default();
                let mut reasons = reason;
                reasons.push(format!("python -m venv failed: {why}"));
                return Err(Error::NoInstaller { reasons });
            }
            Err(error) => return Err(error),
        }
        // The one that comes with an early 3.10 or 3.11 is too old for `--python`.
        let inside = environment::python(partial.path());
        if Self::works(job, inside.clone().into(), &["-m", "pip"]).is_err() {
            let mut command = job.python(&inside);
            command.args(["-m", "pip", "install", "--upgrade", "--no-input", "pip"]);
            job.run("pip", "upgrade itself", command, &mut |_| {})?;
        }
        partial.finish()?;
        Self::works(job, python.into(), &["-m", "pip"])
    }

    /// Which packages, in which versions.
    pub(crate) fn resolve(
        &self,
        job: &Job<'_>,
        question: &Question<'_>,
    ) -> Result<Vec<String>, Error> {
        let (wanted, there) = question.write()?;
        let answer = question.scratch.join("answer.json");
        let mut command = self.command(job);
        command
            .arg("--python")
            .arg(&job.interpreter.executable)
            .args(["install", "--dry-run"])
            .args(INSTALL_OPTIONS)
            .args(from_shelf(question.shelf))
            .arg("--constraint")
            .arg(&there)
            .arg("--report")
            .arg(&answer)
            .arg("--requirement")
            .arg(&wanted);
        job.run(&self.name(), "find the packages", command, &mut |_| {})?;
        let failed = |source| Error::io("read", &answer, source);
        let text = fs::read(&answer).map_err(failed)?;
        let found: Found =
            serde_json::from_slice(&text).map_err(|error| failed(std::io::Error::other(error)))?;
        let packages = found.install.into_iter().map(|item| item.metadata);
        Ok(packages
            .map(|package| format!("{}=={}", normal(&package.name), package.version))
            .collect())
    }

    /// Puts packages into an environment, which it makes, or into a plain directory.
    pub(crate) fn install(
        &self,
        job: &Job<'_>,
        place: Place<'_>,
        lock: &[String],
        shelf: Option<&Path>,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        if let Place::Environment(prefix) = place {
            let mut command = job.python(&job.interpreter.executable);
            command.args(["-m", "venv", "--without-pip"]).arg(prefix);
            job.run("venv", "make the environment", command, &mut |_| {})?;
        }
        if lock.is_empty() {
            return Ok(());
        }
        let mut command = self.command(job);
        command.arg("--python");
        match place {
            Place::Environment(prefix) => command.arg(environment::python(prefix)).arg("install"),
            Place::Layer(directory) => command
                .arg(&job.interpreter.executable)
                .args(["install", "--target"])
                .arg(directory),
        };
        command
            .args(INSTALL_OPTIONS)
            .args(from_shelf(shelf))
            .args(["--no-deps", "--"])
            .args(lock);
        let mut collected = 0;
        job.run(&self.name(), "install the packages", command, &mut |line| {
            if let Some(progress) = read_line(line, &mut collected) {
                report(progress);
            }
        })?;
        Ok(())
    }

    /// Puts one package into a directory of its own, for any Python.
    pub(crate) fn fetch(&self, job: &Job<'_>, package: &str, target: &Path) -> Result<(), Error> {
        let mut command = self.command(job);
        // Few retries: this is an attempt at something faster, not the last hope.
        command
            .args(["--retries", "1", "install"])
            .args(INSTALL_OPTIONS)
            .arg("--target")
            .arg(target)
            .arg(package);
        job.run(&self.name(), "fetch uv", command, &mut |_| {})?;
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

    fn works(job: &Job<'_>, program: OsString, arguments: &[&str]) -> Result<Self, Error> {
        let shown = format!("{} {}", program.to_string_lossy(), arguments.join(" "));
        let mut command = job.python(&program);
        command.args(arguments).arg("--version");
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
        let mut numbers = version.split('.').map_while(|part| part.parse().ok());
        if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < OLDEST {
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

/// Wheels that were made here come from nowhere else.
fn from_shelf(shelf: Option<&Path>) -> Vec<OsString> {
    let Some(shelf) = shelf else {
        return Vec::new();
    };
    vec!["--no-index".into(), "--find-links".into(), shelf.into()]
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
        for program in job.variables.programs(name) {
            match Pip::works(job, program.into(), &[]) {
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
            format!("installing {total} packages"),
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
