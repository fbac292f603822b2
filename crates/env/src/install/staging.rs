//! The directory in which an installer works, in a sandbox where there is one. The installer reaches the
//! hosts of the package index, sees what it needs to run, and writes only to this directory. Its output is
//! inspected and moved out after the sandbox is closed.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    Error, FailureCause, InstallFailure, InstallProgress, InstallStep, OpenSandbox, SandboxCommand,
    SandboxError, SandboxOptions, SandboxStrength, dirs,
    install::{
        InstallContext, OnProgress, STEP_TIME_LIMIT,
        inspect::inspect_tree,
        package_sources::{NETRC_FILE, PackageSources, UV_SETTINGS_FILE, netrc_for},
    },
    program::LastLines,
    store::FileLock,
};

/// The directory below a staging directory that the installer's output is put into.
pub(crate) const OUTPUT_DIRECTORY: &str = "output";
/// For temporary files of programs: on disk, because memory is scarce.
const TEMPORARY_DIRECTORY: &str = "tmp";
/// For configuration files of programs.
const CONFIGURATION_DIRECTORY: &str = "config";
/// For the download caches of installers.
pub(crate) const CACHE_DIRECTORY: &str = "downloads";
/// A larger download cache is thrown away.
const MAX_CACHE_BYTES: u64 = 4 << 30;
/// The time limit of a build. Compilers are slow; after an hour a build hangs.
const BUILD_TIME_LIMIT: Duration = Duration::from_secs(3600);
/// With less free space than this, a failure is blamed on the disk.
const MIN_FREE_BYTES: u64 = 256 << 20;

/// What an installer needs in a staging directory.
#[derive(Debug, Default)]
pub(crate) struct StagingInputs {
    /// The installer's own files, which must be readable.
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) sources: PackageSources,
    /// Variables for a sandbox, where the installer does not see the user's files.
    pub(crate) sandbox_variables: Vec<(OsString, OsString)>,
    /// Files to write before, by their path below the staging directory.
    pub(crate) files: Vec<(PathBuf, String)>,
}

impl StagingInputs {
    /// Adds the text of uv's configuration file where uv finds it in a sandbox.
    pub(crate) fn add_uv_settings(&mut self, text: String) {
        let path = Path::new(CONFIGURATION_DIRECTORY).join(UV_SETTINGS_FILE);
        self.files.push((path, text));
    }
}

/// A directory to install in, with the sandbox around it.
pub(crate) struct Staging<'a> {
    context: &'a InstallContext<'a>,
    directory: PathBuf,
    sandbox: Option<Sandbox>,
    /// Moved back after the sandbox is closed, and with it every program that used the cache.
    _download_cache: Option<DownloadCache>,
}

struct Sandbox {
    open: Box<dyn OpenSandbox>,
    variables: Vec<(OsString, OsString)>,
}

/// Why a staging directory has no sandbox.
pub(crate) enum OpenError {
    /// This machine cannot isolate programs as asked; the text says why.
    NoSandbox(String),
    Other(Error),
}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl<'a> Staging<'a> {
    /// Makes the directory and opens a sandbox around it, for an installer that runs no code of packages.
    /// Where this machine has no sandbox, that is reported, and programs run without one.
    pub(crate) fn open(
        context: &'a InstallContext<'a>,
        directory: &Path,
        inputs: StagingInputs,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Self, Error> {
        let mut staging = Self::prepare(context, directory, &inputs)?;
        if context.sandbox.is_none() {
            return Ok(staging);
        }
        let hosts = inputs.sources.hosts();
        if let Some(text) = netrc_for(context.variables, &hosts) {
            write(&directory.join(NETRC_FILE), &text)?;
        }
        let cache = DownloadCache::move_into(context.tools, directory);
        match staging.open_sandbox(inputs, hosts, SandboxStrength::Full, STEP_TIME_LIMIT) {
            Ok(()) => staging._download_cache = Some(cache),
            Err(OpenError::NoSandbox(why)) => {
                let message = format!("the installer runs outside of walls: {why}");
                on_progress(InstallProgress::new(
                    InstallStep::OutsideWalls,
                    0,
                    None,
                    message,
                ));
            }
            Err(OpenError::Other(error)) => return Err(error),
        }
        Ok(staging)
    }

    /// The same for a build, which runs code of packages: only in a sandbox, without the passwords of
    /// `.netrc`, and without the download cache that installers trust.
    pub(crate) fn open_for_build(
        context: &'a InstallContext<'a>,
        directory: &Path,
        inputs: StagingInputs,
    ) -> Result<Self, OpenError> {
        let mut staging = Self::prepare(context, directory, &inputs)?;
        let hosts = inputs.sources.hosts();
        let strength = if hosts.is_empty() {
            SandboxStrength::BestAvailable
        } else {
            SandboxStrength::Full
        };
        staging.open_sandbox(inputs, hosts, strength, BUILD_TIME_LIMIT)?;
        Ok(staging)
    }

    /// Makes the directory with the files that the installer needs.
    fn prepare(
        context: &'a InstallContext<'a>,
        directory: &Path,
        inputs: &StagingInputs,
    ) -> Result<Self, Error> {
        dirs::create(directory)?;
        // Its files may hold passwords of indexes.
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700))
            .map_err(|source| Error::io("close to others", directory, source))?;
        for (name, text) in &inputs.files {
            let path = directory.join(name);
            path.parent().map_or(Ok(()), dirs::create)?;
            write(&path, text)?;
        }
        Ok(Self {
            context,
            directory: directory.to_owned(),
            sandbox: None,
            _download_cache: None,
        })
    }

    fn open_sandbox(
        &mut self,
        inputs: StagingInputs,
        hosts: Vec<String>,
        strength: SandboxStrength,
        time_limit: Duration,
    ) -> Result<(), OpenError> {
        let Some(sandbox) = self.context.sandbox else {
            return Err(OpenError::NoSandbox("there is no sandbox".to_owned()));
        };
        dirs::create(&self.directory.join(TEMPORARY_DIRECTORY))?;
        let mut readable = inputs.sources.readable_paths()?;
        readable.extend(inputs.readable);
        let options = SandboxOptions {
            interpreter: self.context.interpreter.clone(),
            readable,
            hosts,
            proxies: inputs.sources.proxies,
            directory: self.directory.clone(),
            strength,
            time_limit,
        };
        match sandbox.open(&options) {
            Ok(open) => {
                let variables = sandbox_variables(open.directory(), inputs.sandbox_variables);
                self.sandbox = Some(Sandbox { open, variables });
                Ok(())
            }
            Err(SandboxError::Unavailable(why)) => Err(OpenError::NoSandbox(why)),
            Err(SandboxError::Failed(why)) => Err(Error::SandboxFailed { why }.into()),
        }
    }

    /// Whether programs run in a sandbox here.
    pub(crate) fn is_sandboxed(&self) -> bool {
        self.sandbox.is_some()
    }

    /// The directory's path on the host.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The directory's path as programs see it.
    pub(crate) fn inner_directory(&self) -> &Path {
        match &self.sandbox {
            Some(sandbox) => sandbox.open.directory(),
            None => &self.directory,
        }
    }

    pub(crate) fn context(&self) -> &'a InstallContext<'a> {
        self.context
    }

    /// Runs a program. Relative paths are below the staging directory. A failure becomes an error with the
    /// last lines of the program's output.
    pub(crate) fn run(
        &mut self,
        program: &str,
        what: &'static str,
        mut command: Command,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let Some(sandbox) = &mut self.sandbox else {
            command.current_dir(&self.directory);
            let ran = self.context.run(program, what, command, on_line);
            return ran
                .map(drop)
                .map_err(|error| self.with_full_disk_cause(error));
        };
        let mut last_lines = LastLines::default();
        let command = sandbox.command(&command);
        let ran = sandbox
            .open
            .run(&command, self.context.cancel, &mut |text| {
                on_line(text);
                last_lines.push(text);
            });
        if self.context.cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let Err(failure) = ran else {
            return Ok(());
        };
        let mut lines = last_lines.into_lines();
        lines.extend(failure.unreached.iter().map(|host| host.why.clone()));
        let failure = InstallFailure {
            unreached: failure.unreached,
            ..self.context.failure(program, what, failure.end, lines)
        };
        Err(self.with_full_disk_cause(Error::Install(Box::new(failure))))
    }

    /// Names a full disk as the cause of a failure, if the disk is full.
    fn with_full_disk_cause(&self, error: Error) -> Error {
        let free = rustix::fs::statvfs(&self.directory)
            .ok()
            .map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        match (error, free) {
            (Error::Install(mut failure), Some(free)) if free < MIN_FREE_BYTES => {
                failure.cause = FailureCause::DiskFull;
                Error::Install(failure)
            }
            (error, _) => error,
        }
    }

    /// Closes the sandbox, inspects the output and moves it to `target`. Returns the path that the output
    /// had for the programs that wrote it.
    pub(crate) fn move_output(self, target: &Path) -> Result<PathBuf, Error> {
        let output = self.directory.join(OUTPUT_DIRECTORY);
        let inner = self.inner_directory().join(OUTPUT_DIRECTORY);
        let (context, is_sandboxed) = (self.context, self.is_sandboxed());
        drop(self);
        if is_sandboxed {
            inspect_tree(&output, context.interpreter)?;
        }
        fs::rename(&output, target).map_err(|source| Error::io("move", &output, source))?;
        Ok(inner)
    }

    /// Reads a file that a program wrote.
    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        let path = self.directory.join(name);
        let read = match &self.sandbox {
            Some(sandbox) => sandbox.open.read(name).map_err(std::io::Error::other),
            None => fs::read(&path),
        };
        read.map_err(|source| Error::io("read", &path, source))
    }
}

impl Sandbox {
    fn command(&self, command: &Command) -> SandboxCommand {
        let mut variables: Vec<(OsString, OsString)> = command
            .get_envs()
            .filter(|(name, _)| is_passed_on(name))
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
            .collect();
        for (name, value) in &self.variables {
            variables.retain(|(other, _)| other != name);
            variables.push((name.clone(), value.clone()));
        }
        SandboxCommand {
            arguments: [command.get_program()]
                .into_iter()
                .chain(command.get_args())
                .map(OsStr::to_owned)
                .collect(),
            variables,
        }
    }
}

/// The variables of every program in a sandbox: all directories are below the staging directory.
fn sandbox_variables(
    directory: &Path,
    own: Vec<(OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let cache = directory.join(CACHE_DIRECTORY);
    let mut all: Vec<(OsString, OsString)> = [
        ("HOME", directory.to_owned()),
        ("TMPDIR", directory.join(TEMPORARY_DIRECTORY)),
        ("XDG_CONFIG_HOME", directory.join(CONFIGURATION_DIRECTORY)),
        ("UV_CACHE_DIR", cache.join("uv")),
        ("PIP_CACHE_DIR", cache.join("pip")),
        ("PIP_CONFIG_FILE", "/dev/null".into()),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .into();
    all.extend(own);
    all
}

/// Whether a variable of the user's is passed into a sandbox: settings of uv, certificates, and how Python
/// behaves. Settings of pip come in [`StagingInputs::sandbox_variables`]; every other variable stays outside.
fn is_passed_on(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let is_uvs = name.starts_with("UV_") && !name.starts_with("UV_PUBLISH_");
    let is_directory = name.ends_with("_DIR") && name != "SSL_CERT_DIR";
    (is_uvs && !is_directory && name != "UV_CONFIG_FILE")
        || name.starts_with("SSL_")
        || [
            "CURL_CA_BUNDLE",
            "NO_COLOR",
            "PIP_REQUIRE_VIRTUALENV",
            "PYTHONNOUSERSITE",
            "REQUESTS_CA_BUNDLE",
        ]
        .contains(&name)
}

/// The files that installers downloaded before. The cache is moved into one staging directory at a time,
/// because a sandbox has one writable directory. Dropping the value moves it back: no program may use it
/// any more by then.
#[derive(Debug)]
struct DownloadCache {
    path: PathBuf,
    staged_path: PathBuf,
    /// `None` while another staging directory has the cache: then the installer begins with an empty one.
    lock: Option<FileLock>,
}

impl DownloadCache {
    fn move_into(tools: &Path, staging: &Path) -> Self {
        let (path, staged_path) = (tools.join(CACHE_DIRECTORY), staging.join(CACHE_DIRECTORY));
        let lock = dirs::create(tools)
            .ok()
            .and_then(|()| FileLock::try_acquire(&FileLock::path_for(&path)));
        if lock.is_some() {
            let _ = fs::rename(&path, &staged_path);
        }
        Self {
            path,
            staged_path,
            lock,
        }
    }
}

impl Drop for DownloadCache {
    fn drop(&mut self) {
        if self.lock.is_none() {
            return;
        }
        // A program may have put a link in its place.
        let metadata = fs::symlink_metadata(&self.staged_path);
        let is_directory = metadata.is_ok_and(|metadata| metadata.is_dir());
        if is_directory && tree_bytes(&self.staged_path, MAX_CACHE_BYTES) < MAX_CACHE_BYTES {
            let _ = fs::rename(&self.staged_path, &self.path);
        }
    }
}

/// The size of a tree; counting stops at `enough`.
fn tree_bytes(path: &Path, enough: u64) -> u64 {
    let mut bytes = 0;
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        bytes += if metadata.is_dir() {
            tree_bytes(&entry.path(), enough)
        } else {
            metadata.len()
        };
        if bytes >= enough {
            break;
        }
    }
    bytes
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    dirs::write(path, text).map_err(|source| Error::io("write", path, source))
}
