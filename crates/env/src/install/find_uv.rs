//! Finding uv, or downloading it with pip.

use std::{ffi::OsString, fs, io::Read as _, path::PathBuf};

use crate::{
    Error, InstallProgress, InstallStep, dirs,
    install::{InstallContext, OnProgress, pip::Pip, pip_settings::PipSettings, uv::Uv},
    store::{FileLock, PartialDirectory, installed_packages},
};

/// The directory with the uv that was downloaded, among the tools.
const DOWNLOADED: &str = "uv";

impl Uv {
    /// The user's uv on `PATH`, else the one downloaded earlier, else the interpreter's `python -m uv`; else
    /// one that pip downloads now.
    pub(crate) fn find_or_download(
        context: &InstallContext<'_>,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Self, Error> {
        on_progress(InstallProgress::new(
            InstallStep::Prepare,
            0,
            Some(1),
            "looking for uv",
        ));
        if let Some(uv) = Self::find(context)? {
            let pip = match Pip::find(context) {
                Err(Error::Cancelled) => return Err(Error::Cancelled),
                found => found.ok(),
            };
            return Ok(Self {
                settings: PipSettings::read_for_uv(context, pip.as_ref()),
                ..uv
            });
        }
        on_progress(InstallProgress::new(
            InstallStep::Prepare,
            0,
            Some(1),
            "downloading uv",
        ));
        let pip = Pip::find_or_make(context, on_progress)?;
        let uv = match Self::download(context, &pip, on_progress) {
            Err(Error::Install(failure)) => {
                return Err(Error::NoInstaller {
                    reasons: vec![format!("uv is not on PATH, and {failure}")],
                });
            }
            uv => uv?,
        };
        Ok(Self {
            settings: PipSettings::read_for_uv(context, Some(&pip)),
            ..uv
        })
    }

    fn find(context: &InstallContext<'_>) -> Result<Option<Self>, Error> {
        for program in context.variables.programs("uv") {
            let Some(program) = startable(context, program) else {
                continue;
            };
            if let Some(uv) = Self::probe(context, program.into(), &[])? {
                return Ok(Some(uv));
            }
        }
        if let Some(uv) = Self::downloaded(context)? {
            return Ok(Some(uv));
        }
        let python = context.interpreter.executable.as_os_str().to_owned();
        Self::probe(context, python, &["-m", "uv"])
    }

    /// Downloads uv with pip and keeps it among the tools. Two processes download it once.
    fn download(
        context: &InstallContext<'_>,
        pip: &Pip,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Self, Error> {
        let target = context.tools.join(DOWNLOADED);
        dirs::create(context.tools)?;
        let lock = FileLock::path_for(&target);
        let _lock = FileLock::acquire(&lock, context.cancel, &mut || {})?;
        if let Some(uv) = Self::downloaded(context)? {
            return Ok(uv);
        }
        PartialDirectory::remove_leftovers(&target);
        let partial = PartialDirectory::beside(&target);
        let scratch = PartialDirectory::scratch_for(&target);
        pip.download(context, "uv", scratch.path(), partial.path(), on_progress)?;
        partial.finish()?;
        Self::downloaded(context)?.ok_or_else(|| Error::NoInstaller {
            reasons: vec!["the uv that was downloaded does not start".to_owned()],
        })
    }

    /// The uv that was downloaded earlier. It came from an index as packages do, so where there is a sandbox,
    /// it is not even asked for its version outside of it.
    fn downloaded(context: &InstallContext<'_>) -> Result<Option<Self>, Error> {
        let directory = context.tools.join(DOWNLOADED);
        let program = directory.join("bin/uv");
        if !program.exists() {
            return Ok(None);
        }
        if context.sandbox.is_none() {
            return Self::probe(context, program.into(), &[]);
        }
        let packages = installed_packages(&directory)?;
        let uv = packages.into_iter().find(|package| package.name == "uv");
        Ok(uv.map(|package| Self {
            program: program.into(),
            arguments: Vec::new(),
            version: package.version,
            settings: PipSettings::default(),
        }))
    }

    fn probe(
        context: &InstallContext<'_>,
        program: OsString,
        arguments: &[&str],
    ) -> Result<Option<Self>, Error> {
        let mut command = context.command(&program);
        command.args(arguments).arg("--version");
        let mut version = None;
        let ran = context.run_version_command("uv", command, &mut |line| {
            let rest = line.strip_prefix("uv ");
            let number = rest.and_then(|rest| rest.split(' ').next());
            version = number.map(str::to_owned).or(version.take());
        });
        match ran {
            Err(Error::Cancelled) => Err(Error::Cancelled),
            Err(_) => Ok(None),
            Ok(_) => Ok(version.map(|version| Self {
                program,
                arguments: arguments.iter().map(OsString::from).collect(),
                version,
                settings: PipSettings::default(),
            })),
        }
    }
}

/// The program itself. A shim of a version manager does not work in a sandbox, so there only a binary counts.
fn startable(context: &InstallContext<'_>, program: PathBuf) -> Option<PathBuf> {
    if context.sandbox.is_none() {
        return Some(program);
    }
    let real = program.canonicalize().ok()?;
    let mut beginning = [0; 4];
    let read = fs::File::open(&real).and_then(|mut file| file.read_exact(&mut beginning));
    let is_itself = real.file_name() == program.file_name();
    (is_itself && read.is_ok() && beginning == *b"\x7fELF").then_some(real)
}
