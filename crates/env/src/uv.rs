//! uv: installs ten times as fast as pip.

use std::{ffi::OsString, fs, path::Path, process::Command};

use crate::{
    Error, Progress, Step, dirs, environment,
    install::{Job, Place, Question, Report},
    lock::Lock,
    partial::Partial,
    pip::Pip,
    pip_settings::PipSettings,
};

/// A uv that works.
#[derive(Debug)]
pub(crate) struct Uv {
    program: OsString,
    arguments: Vec<OsString>,
    pub(crate) version: String,
}

impl Uv {
    /// The user's own on `PATH`, else the one fetched earlier, else the interpreter's `python -m uv`.
    pub(crate) fn find(job: &Job<'_>, tools: &Path) -> Result<Option<Self>, Error> {
        let fetched = tools.join("uv/bin/uv");
        let mut programs = job.variables.programs("uv");
        programs.extend(fetched.exists().then_some(fetched));
        for program in programs {
            if let Some(uv) = Self::works(job, program.into(), &[])? {
                return Ok(Some(uv));
            }
        }
        Self::works(
            job,
            job.interpreter.executable.as_os_str().to_owned(),
            &["-m", "uv"],
        )
    }

    /// Fetches one with pip, and keeps it in `tools`. Two processes fetch it once.
    pub(crate) fn fetch(job: &Job<'_>, tools: &Path, pip: &Pip) -> Result<Self, Error> {
        let home = tools.join("uv");
        let program = home.join("bin/uv");
        dirs::create(tools)?;
        let _lock = Lock::take(&Lock::of(&home), job.cancel, &mut || {})?;
        if let Some(uv) = Self::works(job, program.clone().into(), &[])? {
            return Ok(uv);
        }
        Partial::sweep(&home);
        let partial = Partial::of(&home);
        pip.fetch(job, "uv", partial.path())?;
        partial.finish()?;
        Self::works(job, program.into(), &[])?.ok_or_else(|| Error::NoInstaller {
            reasons: vec!["the uv that was fetched does not start".to_owned()],
        })
    }

    /// Which packages, in which versions.
    pub(crate) fn resolve(
        &self,
        job: &Job<'_>,
        question: &Question<'_>,
        settings: &PipSettings,
    ) -> Result<Vec<String>, Error> {
        let (wanted, there) = question.write()?;
        let answer = question.scratch.join("answer.txt");
        trusting(&mut |certificates| {
            let mut command = self.command(job, settings, certificates);
            command
                .args(["pip", "compile", "--no-header", "--no-annotate"])
                .args(no_index(settings, question.shelf))
                .arg("--only-binary=:all:")
                .arg("--python")
                .arg(&job.interpreter.executable)
                .arg("--constraints")
                .arg(&there)
                .arg("--output-file")
                .arg(&answer)
                .arg(&wanted);
            shelved(&mut command, question.shelf);
            job.run(&self.name(), "find the packages", command, &mut |_| {})
        })?;
        let text =
            fs::read_to_string(&answer).map_err(|source| Error::io("read", &answer, source))?;
        let lines = text.lines().map(str::trim);
        Ok(lines
            .filter(|line| line.contains("=="))
            .map(str::to_owned)
            .collect())
    }

    /// Puts packages into an environment, which it makes, or into a plain directory.
    pub(crate) fn install(
        &self,
        job: &Job<'_>,
        place: Place<'_>,
        lock: &[String],
        shelf: Option<&Path>,
        settings: &PipSettings,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        if let Place::Environment(prefix) = place {
            let mut command = self.command(job, settings, SystemCertificates::No);
            command
                .args(["venv", "--no-project", "--python"])
                .arg(&job.interpreter.executable)
                .arg(prefix);
            job.run(&self.name(), "make the environment", command, &mut |_| {})?;
        }
        if lock.is_empty() {
            return Ok(());
        }
        trusting(&mut |certificates| {
            let mut command = self.command(job, settings, certificates);
            command
                .args(["pip", "install", "--no-deps"])
                .args(no_index(settings, shelf))
                .arg("--python");
            match place {
                Place::Environment(prefix) => command.arg(environment::python(prefix)),
                Place::Layer(directory) => command
                    .arg(&job.interpreter.executable)
                    .arg("--target")
                    .arg(directory),
            };
            // Copies: with links into uv's cache, a change to one environment would be a change to all.
            // It costs a second for half a gigabyte. Wheels only, as with pip.
            command
                .args(["--link-mode=copy", "--only-binary=:all:", "--"])
                .args(lock);
            shelved(&mut command, shelf);
            let mut lines = Lines::default();
            job.run(&self.name(), "install the packages", command, &mut |line| {
                if let Some(progress) = lines.read(line) {
                    report(progress);
                }
            })
        })?;
        Ok(())
    }

    pub(crate) fn name(&self) -> String {
        format!("uv {}", self.version)
    }

    fn command(
        &self,
        job: &Job<'_>,
        settings: &PipSettings,
        certificates: SystemCertificates,
    ) -> Command {
        let mut command = settings
            .for_uv(job.variables.clone())
            .command(&self.program);
        command
            .args(&self.arguments)
            .args(["--color=never", "--no-python-downloads"])
            .current_dir(job.directory);
        if certificates == SystemCertificates::Yes {
            // The first name is the older one.
            command
                .env("UV_NATIVE_TLS", "1")
                .env("UV_SYSTEM_CERTS", "1");
        }
        command
    }

    fn works(job: &Job<'_>, program: OsString, arguments: &[&str]) -> Result<Option<Self>, Error> {
        let mut command = job.python(&program);
        command.args(arguments).arg("--version");
        let mut version = None;
        let ran = job.ask("uv", command, &mut |line| {
            let number = line
                .strip_prefix("uv ")
                .and_then(|rest| rest.split(' ').next());
            version = number.map(str::to_owned).or(version.take());
        });
        match ran {
            Err(Error::Cancelled) => Err(Error::Cancelled),
            Err(_) => Ok(None),
            Ok(_) => Ok(version.map(|version| Self {
                program,
                arguments: arguments.iter().map(OsString::from).collect(),
                version,
            })),
        }
    }
}

/// Whether uv asks the machine's certificate store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SystemCertificates {
    No,
    Yes,
}

/// uv trusts the authorities built into it. Where a company's own stands between, the machine's store knows it;
/// where that store is empty, it would be the wrong first choice.
fn trusting<T>(
    attempt: &mut dyn FnMut(SystemCertificates) -> Result<T, Error>,
) -> Result<T, Error> {
    match attempt(SystemCertificates::No) {
        Err(Error::Install(failure)) if is_about_certificates(&failure.lines) => {
            attempt(SystemCertificates::Yes)
        }
        other => other,
    }
}

fn no_index(settings: &PipSettings, shelf: Option<&Path>) -> Option<&'static str> {
    (shelf.is_some() || settings.no_index()).then_some("--no-index")
}

/// Wheels that were made here come from nowhere else.
fn shelved(command: &mut Command, shelf: Option<&Path>) {
    if let Some(shelf) = shelf {
        command.env("UV_FIND_LINKS", shelf);
    }
}

pub(crate) fn is_about_certificates(lines: &[String]) -> bool {
    lines.iter().any(|line| line.contains("certificate"))
}

/// Counts along with what uv writes.
#[derive(Default)]
struct Lines {
    packages: Option<u64>,
    fetched: u64,
}

impl Lines {
    fn read(&mut self, line: &str) -> Option<Progress> {
        let line = line.trim_start();
        let (word, rest) = line.split_once(' ')?;
        let count = || rest.split(' ').next()?.parse::<u64>().ok();
        let name = rest.split(' ').next().unwrap_or(rest);
        let (step, done, message) = match word {
            "Resolved" => {
                self.packages = Some(count()?);
                (
                    Step::Download,
                    0,
                    format!("{} packages are needed", count()?),
                )
            }
            "Downloading" => (Step::Download, self.fetched, format!("fetching {rest}")),
            "Downloaded" => {
                self.fetched += 1;
                (Step::Download, self.fetched, format!("fetched {name}"))
            }
            // Small packages come without a line of their own, so the counts jump here.
            "Prepared" => (
                Step::Install,
                0,
                format!("installing {} packages", count()?),
            ),
            "Installed" => (
                Step::Install,
                count()?,
                format!("installed {} packages", count()?),
            ),
            _ => return None,
        };
        Some(Progress::new(step, done, self.packages, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uvs_lines_become_progress() {
        let mut lines = Lines::default();
        let mut read = |line| lines.read(line).map(|p| (p.step, p.done, p.total));
        assert_eq!(read("Using Python 3.11.7 environment at: v1"), None);
        assert_eq!(
            read("Resolved 29 packages in 2.42s"),
            Some((Step::Download, 0, Some(29)))
        );
        assert_eq!(
            read("Downloading pillow (6.8MiB)"),
            Some((Step::Download, 0, Some(29)))
        );
        assert_eq!(
            read(" Downloaded pillow"),
            Some((Step::Download, 1, Some(29)))
        );
        assert_eq!(
            read("Prepared 29 packages in 1.94s"),
            Some((Step::Install, 0, Some(29)))
        );
        assert_eq!(
            read("Installed 29 packages in 92ms"),
            Some((Step::Install, 29, Some(29)))
        );
        assert_eq!(read(" + numpy==2.4.6"), None);
    }
}
