//! pip: brings uv where the machine has none, and reports the user's settings. uv does everything else.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Error, dirs,
    install::{
        InstallContext, OnProgress,
        inspect::make_readable,
        pip_settings::PipSettings,
        relocate_scripts,
        staging::{OUTPUT_DIRECTORY, Staging, StagingInputs},
    },
    store::{FileLock, PartialDirectory, python_of},
};

/// A pip that works, of whatever Python.
#[derive(Debug)]
pub(crate) struct Pip {
    program: OsString,
    arguments: Vec<OsString>,
    version: String,
}

impl Pip {
    /// The interpreter's own pip, else one on `PATH`. Debian's Python may have none.
    pub(crate) fn find(context: &InstallContext<'_>) -> Result<Self, Error> {
        Self::of_python(context, &context.interpreter.executable)
            .or_else(|error| on_path(context)?.ok_or(error))
    }

    /// As [`Pip::find`], else a pip in a virtual environment of its own, which is kept among the tools.
    pub(crate) fn find_or_make(
        context: &InstallContext<'_>,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Self, Error> {
        let mut reasons = match Self::find(context) {
            Err(Error::NoInstaller { reasons }) => reasons,
            other => return other,
        };
        let version = context.interpreter.version;
        let target = context.tools.join(format!("pip-{version}"));
        let python = python_of(&target);
        if let Ok(pip) = Self::of_python(context, &python) {
            return Ok(pip);
        }
        dirs::create(context.tools)?;
        let lock = FileLock::path_for(&target);
        let _lock = FileLock::acquire(&lock, context.cancel, &mut || {})?;
        if let Ok(pip) = Self::of_python(context, &python) {
            return Ok(pip);
        }
        PartialDirectory::remove_leftovers(&target);
        let settings = PipSettings::from_variables(context.variables);
        let scratch = PartialDirectory::scratch_for(&target);
        let inputs = staging_inputs(context, &settings, None);
        let mut staging = Staging::open(context, scratch.path(), inputs, on_progress)?;
        let mut command = context.command(&context.interpreter.executable);
        command.args(["-m", "venv", OUTPUT_DIRECTORY]);
        match staging.run("venv", "make an environment with pip", command, &mut |_| {}) {
            Ok(()) => {}
            Err(Error::Install(failure)) => {
                let why = failure.lines.into_iter().next().unwrap_or_default();
                reasons.push(format!("python -m venv failed: {why}"));
                return Err(Error::NoInstaller { reasons });
            }
            Err(error) => return Err(error),
        }
        let partial = PartialDirectory::beside(&target);
        let seen = staging.move_output(partial.path())?;
        relocate_scripts(partial.path(), &seen, &target)?;
        make_readable(partial.path())?;
        partial.finish()?;
        Self::of_python(context, &python)
    }

    /// Downloads one package into a directory of its own. `scratch` is used meanwhile.
    pub(crate) fn download(
        &self,
        context: &InstallContext<'_>,
        package: &str,
        scratch: &Path,
        target: &Path,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<(), Error> {
        let settings = PipSettings::read(context, self);
        let inputs = staging_inputs(context, &settings, self.own_environment());
        let mut staging = Staging::open(context, scratch, inputs, on_progress)?;
        let mut command = self.command(context);
        command
            .arg("install")
            .args(INSTALL_OPTIONS)
            .args(["--target", OUTPUT_DIRECTORY, package]);
        let name = format!("pip {}", self.version);
        staging.run(&name, "download uv", command, &mut |_| {})?;
        staging.move_output(target)?;
        make_readable(target)?;
        Ok(())
    }

    /// The text of `pip config list`; `None` where pip fails.
    pub(crate) fn configuration(&self, context: &InstallContext<'_>) -> Option<String> {
        let mut command = self.command(context);
        command.args(["config", "list"]);
        let mut text = String::new();
        let ran = context.run("pip", "list its configuration", command, &mut |line| {
            text.push_str(line);
            text.push('\n');
        });
        ran.ok().map(|_| text)
    }

    /// The virtual environment that the pip is part of, if it was made by [`Pip::find_or_make`].
    fn own_environment(&self) -> Option<PathBuf> {
        let prefix = Path::new(&self.program).parent()?.parent()?;
        let is_environment = prefix.join("pyvenv.cfg").exists();
        is_environment.then(|| prefix.to_owned())
    }

    fn command(&self, context: &InstallContext<'_>) -> Command {
        let mut command = context.command(&self.program);
        command
            .args(&self.arguments)
            .arg("--disable-pip-version-check");
        command
    }

    /// The pip of a Python. Importing its first module is enough to know its version, and takes a tenth of
    /// the time of `pip --version`.
    fn of_python(context: &InstallContext<'_>, python: &Path) -> Result<Self, Error> {
        Self::probe(
            context,
            python.as_os_str().to_owned(),
            &["-m", "pip"],
            &["-c", VERSION_CODE],
        )
    }

    /// The pip that is started with `arguments`, if asking for its version with `version_arguments` works.
    fn probe(
        context: &InstallContext<'_>,
        program: OsString,
        arguments: &[&str],
        version_arguments: &[&str],
    ) -> Result<Self, Error> {
        let shown = format!("{} {}", program.to_string_lossy(), arguments.join(" "));
        let mut command = context.command(&program);
        command.args(version_arguments);
        let mut version = String::new();
        let ran = context.run_version_command("pip", command, &mut |line| {
            if let Some(rest) = line.strip_prefix("pip ") {
                version = rest.split(' ').next().unwrap_or_default().to_owned();
            }
        });
        let refuse = |why: &str| {
            Err(Error::NoInstaller {
                reasons: vec![format!("{} {why}", shown.trim_end())],
            })
        };
        match ran {
            Err(Error::Cancelled) => Err(Error::Cancelled),
            Err(Error::Install(failure)) => {
                let why = failure.lines.last().map_or("", String::as_str);
                refuse(&format!("does not work ({why})"))
            }
            Err(_) => refuse("does not start"),
            Ok(_) => Ok(Self {
                program,
                arguments: arguments.iter().map(OsString::from).collect(),
                version,
            }),
        }
    }
}

/// Wheels only, so that no code of a package runs.
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

/// Python code that prints the beginning of `pip --version`.
const VERSION_CODE: &str = "import pip; print('pip', pip.__version__)";

fn staging_inputs(
    context: &InstallContext<'_>,
    settings: &PipSettings,
    own_environment: Option<PathBuf>,
) -> StagingInputs {
    let mut sources = settings.package_sources();
    sources.add_variables(context.variables);
    StagingInputs {
        readable: own_environment.into_iter().collect(),
        sources,
        sandbox_variables: settings.pip_variables(),
        files: Vec::new(),
    }
}

fn on_path(context: &InstallContext<'_>) -> Result<Option<Pip>, Error> {
    // A sandbox sees only the system's pip, with the system's Python.
    let is_visible = |path: &PathBuf| context.sandbox.is_none() || path.starts_with("/usr");
    for name in ["pip3", "pip"] {
        let programs = context.variables.programs(name).into_iter();
        for program in programs.filter(is_visible) {
            match Pip::probe(context, program.into(), &[], &["--version"]) {
                Ok(pip) => return Ok(Some(pip)),
                Err(Error::Cancelled) => return Err(Error::Cancelled),
                Err(_) => {}
            }
        }
    }
    Ok(None)
}
