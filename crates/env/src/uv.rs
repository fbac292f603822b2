//! uv: installs ten times as fast as pip.

use std::{
    ffi::OsString,
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::Command,
};

use crate::progress::packages;
use crate::{
    Error, Progress, Step, dirs,
    environment::{self, Kind},
    install::{From, Job, MADE, Question, Report, SHELF, THERE, WANTED},
    layer,
    lock::Lock,
    partial::Partial,
    pip::Pip,
    pip_settings::PipSettings,
    places::Places,
    uv_configuration::{self, UvConfiguration},
    workroom::{Kit, Workroom, configuration},
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
    pub(crate) fn find(job: &Job<'_>) -> Result<Option<Self>, Error> {
        for program in job.variables.programs("uv") {
            let Some(program) = startable(job, program) else {
                continue;
            };
            if let Some(uv) = Self::works(job, program.into(), &[])? {
                return Ok(Some(uv));
            }
        }
        if let Some(uv) = Self::fetched(job)? {
            return Ok(Some(uv));
        }
        Self::works(
            job,
            job.interpreter.executable.as_os_str().to_owned(),
            &["-m", "uv"],
        )
    }

    /// Fetches one with pip, and keeps it among the tools. Two processes fetch it once.
    pub(crate) fn fetch(job: &Job<'_>, pip: &Pip, report: &mut Report<'_>) -> Result<Self, Error> {
        let home = job.tools.join(FETCHED);
        dirs::create(job.tools)?;
        let _lock = Lock::take(&Lock::of(&home), job.cancel, &mut || {})?;
        if let Some(uv) = Self::fetched(job)? {
            return Ok(uv);
        }
        Partial::sweep(&home);
        let partial = Partial::of(&home);
        let scratch = Partial::room_for(&home);
        pip.fetch(job, "uv", scratch.path(), partial.path(), report)?;
        partial.finish()?;
        Self::fetched(job)?.ok_or_else(|| Error::NoInstaller {
            reasons: vec!["the uv that was fetched does not start".to_owned()],
        })
    }

    /// The one that was fetched earlier. It came from an index as packages do, so where there are walls it is not even asked
    /// for its version outside of them.
    fn fetched(job: &Job<'_>) -> Result<Option<Self>, Error> {
        let home = job.tools.join(FETCHED);
        let program = home.join("bin/uv");
        if !program.exists() {
            return Ok(None);
        }
        if job.walls.is_none() {
            return Self::works(job, program.into(), &[]);
        }
        let packages = environment::installed_packages(&home)?;
        let uv = packages.into_iter().find(|package| package.name == "uv");
        Ok(uv.map(|package| Self {
            program: program.into(),
            arguments: Vec::new(),
            version: package.version,
        }))
    }

    /// What it takes with it into a room.
    pub(crate) fn kit(&self, job: &Job<'_>, settings: &PipSettings) -> Kit {
        let variables = settings.for_uv(job.variables.clone());
        let text = |name: &str| {
            variables
                .get(name)
                .map(|v| v.to_string_lossy().into_owned())
        };
        let mut places = Places {
            no_index: settings.no_index() || text("UV_NO_INDEX").is_some(),
            ..Places::default()
        };
        UvConfiguration::read(&variables).add_to(&mut places);
        if let Some(index) = text("UV_DEFAULT_INDEX").or_else(|| text("UV_INDEX_URL")) {
            places.default_index = Some(index);
        }
        for name in ["UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"] {
            places.add(&text(name).unwrap_or_default());
        }
        places.add_common(&variables);
        let own = Path::new(&self.program);
        let shown = [own.to_owned(), uv_configuration::of_the_system()];
        Kit {
            shown: shown.into_iter().filter(|path| path.exists()).collect(),
            places,
            variables: Vec::new(),
            files: UvConfiguration::users(&variables)
                .map(configuration)
                .into_iter()
                .collect(),
        }
    }

    /// Which packages, in which versions.
    pub(crate) fn resolve(
        &self,
        room: &mut Workroom<'_>,
        question: &Question<'_>,
        settings: &PipSettings,
        from: From,
    ) -> Result<Vec<String>, Error> {
        const ANSWER: &str = "answer.txt";
        let job = room.job();
        trusting(&mut |certificates| {
            let mut command = self.command(job, settings, certificates);
            command
                .args(["pip", "compile", "--no-header", "--no-annotate"])
                .args(no_index(settings, from))
                .arg("--only-binary=:all:")
                .arg("--python")
                .arg(&job.interpreter.executable)
                .args(["--output-file", ANSWER, WANTED]);
            // uv complains about an empty file, and that would stand among the lines of every error.
            if !question.there.is_empty() {
                command.args(["--constraints", THERE]);
            }
            shelved(&mut command, from);
            room.run(&self.name(), "find the packages", command, &mut |_| {})
        })?;
        let answer = room.read(ANSWER)?;
        let text = String::from_utf8_lossy(&answer);
        let lines = text.lines().map(str::trim);
        Ok(lines
            .filter(|line| line.contains("=="))
            .map(str::to_owned)
            .collect())
    }

    /// Puts packages into an environment, which it makes, or into a plain directory.
    pub(crate) fn install(
        &self,
        room: &mut Workroom<'_>,
        kind: Kind,
        lock: &[String],
        from: From,
        settings: &PipSettings,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        let job = room.job();
        if kind == Kind::Environment {
            let mut command = self.command(job, settings, SystemCertificates::No);
            command
                .args(["venv", "--no-project", "--python"])
                .arg(&job.interpreter.executable)
                .arg(MADE);
            room.run(&self.name(), "make the environment", command, &mut |_| {})?;
        }
        if lock.is_empty() {
            return Ok(());
        }
        trusting(&mut |certificates| {
            let mut command = self.command(job, settings, certificates);
            command
                .args(["pip", "install", "--no-deps"])
                .args(no_index(settings, from))
                .arg("--python");
            match kind {
                Kind::Environment => command.arg(environment::python(Path::new(MADE))),
                Kind::Layer => command
                    .arg(&job.interpreter.executable)
                    .arg("--target")
                    .arg(layer::packages(Path::new(MADE))),
            };
            // Copies: with links into uv's cache, a change to one environment would be a change to all.
            // It costs a second for half a gigabyte. Wheels only, as with pip.
            command
                .args(["--link-mode=copy", "--only-binary=:all:", "--"])
                .args(lock);
            shelved(&mut command, from);
            let mut lines = Lines::default();
            room.run(&self.name(), "install the packages", command, &mut |line| {
                if let Some(progress) = lines.read(line) {
                    report(progress);
                }
            })
        })
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

fn no_index(settings: &PipSettings, from: From) -> Option<&'static str> {
    (from == From::Shelf || settings.no_index()).then_some("--no-index")
}

/// Wheels that were made here come from nowhere else.
fn shelved(command: &mut Command, from: From) {
    if from == From::Shelf {
        command.env("UV_FIND_LINKS", SHELF);
    }
}

/// The name of the directory with a uv that was fetched.
const FETCHED: &str = "uv";

/// The program itself. Behind walls a shim of a version manager does not find what it stands for, so there it does not count.
fn startable(job: &Job<'_>, program: PathBuf) -> Option<PathBuf> {
    if job.walls.is_none() {
        return Some(program);
    }
    let real = program.canonicalize().ok()?;
    let mut beginning = [0; 4];
    let read = fs::File::open(&real).and_then(|mut file| file.read_exact(&mut beginning));
    let is_itself = real.file_name() == program.file_name();
    (is_itself && read.is_ok() && beginning == *b"\x7fELF").then_some(real)
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
                (Step::Download, 0, format!("needed: {}", packages(count()?)))
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
                format!("installing {}", packages(count()?)),
            ),
            "Installed" => (
                Step::Install,
                count()?,
                format!("installed {}", packages(count()?)),
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
