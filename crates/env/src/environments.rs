//! The environments that were made, and the making of new ones.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::{
    Cancel, Dirs, Environment, Error, Interpreter, Progress, Requirements, Status, Step, Variables,
    bytecode, dirs,
    environment::{self, Marker},
    fonts,
    install::{self, Job, Report},
    lock::Lock,
    partial::Partial,
    warm_up,
};

/// All environments of a user, below `environments` in the cache directory. Each has a name made from its
/// interpreter and its requirements, is complete or not there, and is never changed.
#[derive(Debug, Clone)]
pub struct Environments {
    directory: PathBuf,
    tools: PathBuf,
    variables: Variables,
    installer: Installer,
}

/// What to install with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Installer {
    /// uv, fetched with pip where the machine has none; pip where that fails.
    #[default]
    Automatic,
    /// uv or nothing.
    Uv,
    /// venv and pip.
    Pip,
}

impl Environments {
    /// Those of this process's user.
    pub fn from_process() -> Result<Self, Error> {
        let variables = Variables::from_process();
        let dirs = Dirs::new(&variables)?;
        Ok(Self::new(variables, &dirs))
    }

    /// Those in the given surroundings. Installers see exactly these variables, less the few that would
    /// send the packages elsewhere.
    pub fn new(variables: Variables, dirs: &Dirs) -> Self {
        Self {
            directory: dirs.cache.join("environments"),
            tools: dirs.cache.join("tools"),
            variables: install::cleaned(&variables),
            installer: Installer::Automatic,
        }
    }

    /// Chooses what new environments are made with.
    #[must_use]
    pub fn installer(mut self, installer: Installer) -> Self {
        self.installer = installer;
        self
    }

    /// What is there now. A few file reads; no Python is started and nothing is waited for.
    pub fn status(&self, interpreter: &Interpreter, requirements: &Requirements) -> Status {
        let target = self.target(interpreter, requirements);
        match Environment::open(&target, interpreter, requirements) {
            Some(environment) => Status::Ready(Box::new(environment)),
            None if Lock::is_taken(&Lock::of(&target)) => Status::Building,
            None => Status::Missing,
        }
    }

    /// The environment, made if it is not there. This takes seconds to minutes and needs the package index;
    /// if another process makes the same one, that one is waited for and shared.
    ///
    /// The installers end with the calling thread, so the thread must wait for this call's return.
    pub fn make(
        &self,
        interpreter: &Interpreter,
        requirements: &Requirements,
        cancel: &Cancel,
        report: &mut dyn FnMut(Progress),
    ) -> Result<Environment, Error> {
        let target = self.target(interpreter, requirements);
        let ready = || Environment::open(&target, interpreter, requirements);
        let current = |environment: &Environment| environment.fonts_are_current(&self.variables);
        if let Some(environment) = ready().filter(current) {
            return Ok(environment);
        }
        dirs::create(&self.directory)?;
        let _lock = Lock::take(&Lock::of(&target), cancel, &mut || {
            report(Progress::new(
                Step::Wait,
                0,
                None,
                "another process is making this environment",
            ));
        })?;
        Partial::sweep(&target);
        let job = Job {
            interpreter,
            variables: &self.variables,
            cancel,
            directory: &self.directory,
        };
        match ready() {
            // The process that was waited for has made it.
            Some(environment) if current(&environment) => return Ok(environment),
            Some(environment) => {
                // Taken before the search: a font installed meanwhile is seen the next time.
                let fonts = fonts::fingerprint(&self.variables);
                warm_up::refresh_fonts(&job, &target)?;
                Marker::again(&environment, requirements, fonts).write(&target)?;
            }
            None => self.build(&job, &target, requirements, report)?,
        }
        ready().ok_or_else(|| {
            let vanished = std::io::Error::from(std::io::ErrorKind::NotFound);
            Error::io("use the new environment", &target, vanished)
        })
    }

    /// Makes everything beside the target, and moves it there as the last act.
    fn build(
        &self,
        job: &Job<'_>,
        target: &Path,
        requirements: &Requirements,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        let partial = Partial::of(target);
        let prefix = partial.path();
        let installer = install::install(
            job,
            self.installer,
            &self.tools,
            prefix,
            requirements,
            report,
        )?;
        install::relocate(prefix, target)?;
        bytecode::compile(job, prefix, target, report)?;
        let fonts = fonts::fingerprint(&self.variables);
        warm_up::warm_up(job, prefix, &requirements.imports, report)?;

        let bytes = make_readable(prefix)?;
        let packages =
            environment::installed_packages(&environment::site_packages(prefix, job.interpreter))?;
        Marker::new(
            requirements,
            job.interpreter,
            packages,
            bytes,
            installer,
            fonts,
        )
        .write(prefix)?;
        partial.finish()
    }

    fn target(&self, interpreter: &Interpreter, requirements: &Requirements) -> PathBuf {
        self.directory.join(requirements.key(interpreter))
    }
}

/// Lets every user read the tree and only the owner write, whatever the umask was, and returns its size. A session that root starts
/// runs as an unprivileged user; who may come near the tree is decided by the directories above it.
fn make_readable(path: &Path) -> Result<u64, Error> {
    let failed = |source| Error::io("make readable", path, source);
    let metadata = path.symlink_metadata().map_err(failed)?;
    if metadata.is_symlink() {
        return Ok(0);
    }
    let mode = metadata.permissions().mode();
    let readable = if metadata.is_dir() || mode & 0o100 != 0 {
        0o555
    } else {
        0o444
    };
    let wanted = (mode | readable) & !0o022;
    if wanted != mode {
        fs::set_permissions(path, fs::Permissions::from_mode(wanted)).map_err(failed)?;
    }
    let mut bytes = metadata.len();
    if metadata.is_dir() {
        for entry in fs::read_dir(path).map_err(failed)? {
            bytes += make_readable(&entry.map_err(failed)?.path())?;
        }
    }
    Ok(bytes)
}
