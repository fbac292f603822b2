//! uv: resolves, downloads, unpacks and builds packages.
//!
//! Decisions follow uv's exit codes, never the text that it writes. Its text is shown to people, and its
//! lines move the progress bar.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Error, FailureCause, InstallProgress, InstallStep, Package, ProgramEnd, Variables, dirs,
    install::{
        InstallContext, OnProgress, count_packages,
        package_sources::{PackageSources, UvSettings, system_uv_settings},
        pip_settings::PipSettings,
        staging::{CACHE_DIRECTORY, OUTPUT_DIRECTORY, OpenError, Staging, StagingInputs},
    },
    store::{StoredKind, layer_packages, python_of},
};

/// uv's exit code where no set of packages meets the requirements, or a package cannot be built.
const EXIT_NO_SOLUTION: ProgramEnd = ProgramEnd::Exit(1);
/// uv's exit code for every other failure: no connection, an untrusted certificate, a full disk.
const EXIT_ERROR: ProgramEnd = ProgramEnd::Exit(2);

/// The file with the requirements, in a staging directory.
const REQUIREMENTS_FILE: &str = "requirements.txt";
/// The file with the versions that must stay, in a staging directory.
const CONSTRAINTS_FILE: &str = "constraints.txt";
/// The file that uv writes the chosen versions to.
const LOCK_FILE: &str = "lock.txt";
/// The directory with wheels that were built from source, in a staging directory.
const BUILT_WHEELS_DIRECTORY: &str = "built-wheels";

/// A uv that works.
#[derive(Debug)]
pub(crate) struct Uv {
    pub(super) program: OsString,
    pub(super) arguments: Vec<OsString>,
    pub(super) version: String,
    /// What pip is told about indexes, for uv to follow too.
    pub(super) settings: PipSettings,
}

/// What is to be resolved.
#[derive(Clone, Copy)]
pub(crate) struct ResolveRequest<'a> {
    pub(crate) requirements: &'a [String],
    /// Packages whose versions must stay as they are.
    pub(crate) installed: &'a [Package],
}

/// Where wheels come from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WheelSource {
    Index,
    /// Also wheels that [`Uv::build_wheels`] made for this staging directory.
    IndexAndBuilt,
}

/// What came of building packages from source.
pub(crate) enum Built {
    /// The wheels are in the staging directory.
    Wheels,
    /// This machine has no sandbox for the build; the text says why.
    NoSandbox(String),
}

impl Uv {
    /// The name with the version: `uv 0.13.7`.
    pub(crate) fn name(&self) -> String {
        format!("uv {}", self.version)
    }

    /// What uv needs in a staging directory to resolve and install.
    pub(crate) fn staging_inputs(
        &self,
        context: &InstallContext<'_>,
        request: &ResolveRequest<'_>,
    ) -> StagingInputs {
        let variables = self.variables(context);
        let text = |name: &str| {
            let value = variables.get(name)?;
            Some(value.to_string_lossy().into_owned())
        };
        let mut sources = PackageSources {
            no_index: self.settings.no_index() || text("UV_NO_INDEX").is_some(),
            ..PackageSources::default()
        };
        UvSettings::read(&variables).add_to(&mut sources);
        if let Some(index) = text("UV_DEFAULT_INDEX").or_else(|| text("UV_INDEX_URL")) {
            sources.default_index = Some(index);
        }
        for name in ["UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"] {
            sources.add(&text(name).unwrap_or_default());
        }
        sources.add_variables(&variables);
        let lines = |lines: &[String]| lines.join("\n") + "\n";
        let constraints: Vec<String> = request.installed.iter().map(Package::pinned).collect();
        let readable = [PathBuf::from(&self.program), system_uv_settings()];
        let mut inputs = StagingInputs {
            readable: readable.into_iter().filter(|path| path.exists()).collect(),
            sources,
            sandbox_variables: Vec::new(),
            files: vec![
                (REQUIREMENTS_FILE.into(), lines(request.requirements)),
                (CONSTRAINTS_FILE.into(), lines(&constraints)),
            ],
        };
        if let Some(text) = UvSettings::users_text(&variables) {
            inputs.add_uv_settings(text);
        }
        inputs
    }

    /// Chooses every package that is needed, with its version (`name==version`), sorted. Wheels only.
    pub(crate) fn resolve(
        &self,
        staging: &mut Staging<'_>,
        request: &ResolveRequest<'_>,
        wheels: WheelSource,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Vec<String>, Error> {
        let message = "asking the package index";
        on_progress(InstallProgress::new(InstallStep::Resolve, 0, None, message));
        if request.requirements.is_empty() {
            return Ok(Vec::new());
        }
        let context = staging.context();
        let make_command = |certificates| {
            let mut command = self.command(context, certificates, wheels);
            command
                .args(["pip", "compile", "--no-header", "--no-annotate"])
                .args(self.no_index())
                .arg("--only-binary=:all:")
                .arg("--python")
                .arg(&context.interpreter.executable)
                .args(context.target_options())
                .args(["--output-file", LOCK_FILE, REQUIREMENTS_FILE])
                .args(constraints(request));
            command
        };
        self.run(staging, "find the packages", &make_command, &mut |_| {})?;
        let text = staging.read(LOCK_FILE)?;
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().map(str::trim);
        let mut lock: Vec<String> = lines
            .filter(|line| line.contains("=="))
            .map(str::to_owned)
            .collect();
        lock.sort();
        lock.dedup();
        Ok(lock)
    }

    /// Puts exactly these packages into the staging directory's output: into an environment, which is made
    /// first, or into a plain directory.
    pub(crate) fn install(
        &self,
        staging: &mut Staging<'_>,
        kind: StoredKind,
        lock: &[String],
        wheels: WheelSource,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<(), Error> {
        let context = staging.context();
        let output = Path::new(OUTPUT_DIRECTORY);
        if kind == StoredKind::Environment {
            let message = "making the environment";
            on_progress(InstallProgress::new(
                InstallStep::Download,
                0,
                None,
                message,
            ));
            let make_command = |certificates| {
                let mut command = self.command(context, certificates, wheels);
                command
                    .args(["venv", "--no-project", "--python"])
                    .arg(&context.interpreter.executable)
                    .arg(output);
                command
            };
            self.run(staging, "make the environment", &make_command, &mut |_| {})?;
        }
        if lock.is_empty() {
            return Ok(());
        }
        let make_command = |certificates| {
            let mut command = self.command(context, certificates, wheels);
            command
                .args(["pip", "install", "--no-deps"])
                .args(self.no_index())
                .args(context.target_options())
                .arg("--python");
            match kind {
                StoredKind::Environment => command.arg(python_of(output)),
                StoredKind::Layer => command
                    .arg(&context.interpreter.executable)
                    .arg("--target")
                    .arg(layer_packages(output)),
            };
            // Copies: with links into uv's cache, a change to one environment would be a change to all.
            // They cost a second for half a gigabyte.
            command
                .args(["--link-mode=copy", "--only-binary=:all:", "--"])
                .args(lock);
            command
        };
        let mut progress = UvOutput::new(lock.len());
        self.run(
            staging,
            "install the packages",
            &make_command,
            &mut |line| {
                if let Some(progress) = progress.read(line) {
                    on_progress(progress);
                }
            },
        )
    }

    /// Builds wheels of the packages of which there is only the source, and moves them into `staging`.
    ///
    /// A build runs code of the package's authors. So it happens in a staging directory of its own, which
    /// cannot touch the installed files: uv installs everything there, and of the result only the wheels are
    /// used that uv built and keeps in its cache.
    pub(crate) fn build_wheels(
        &self,
        staging: &Staging<'_>,
        request: &ResolveRequest<'_>,
        scratch: &Path,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Built, Error> {
        let message = "building from source, behind walls";
        on_progress(InstallProgress::new(InstallStep::Resolve, 1, None, message));
        let context = staging.context();
        let directory = scratch.join("build");
        let inputs = self.staging_inputs(context, request);
        let mut build = match Staging::open_for_build(context, &directory, inputs) {
            Ok(build) => build,
            Err(OpenError::NoSandbox(why)) => return Ok(Built::NoSandbox(why)),
            Err(OpenError::Other(error)) => return Err(error),
        };
        let make_command = |certificates| {
            let mut command = self.command(context, certificates, WheelSource::Index);
            command
                .args(["pip", "install"])
                .args(self.no_index())
                .arg("--python")
                .arg(&context.interpreter.executable)
                .args(["--target", OUTPUT_DIRECTORY])
                .args(["--requirements", REQUIREMENTS_FILE])
                .args(constraints(request));
            command
        };
        self.run(
            &mut build,
            "find the packages, or build them from source",
            &make_command,
            &mut |_| {},
        )?;
        drop(build);
        let wheels = staging.directory().join(BUILT_WHEELS_DIRECTORY);
        dirs::create(&wheels)?;
        move_wheels(&directory.join(CACHE_DIRECTORY), &wheels)?;
        Ok(Built::Wheels)
    }

    /// Runs uv in a staging directory. uv trusts the certificate authorities that are built into it. Where it
    /// fails although every host was reached, it is run again with those of the machine: a company's own
    /// authority may stand between. They are not the first choice, because a machine may have none.
    fn run(
        &self,
        staging: &mut Staging<'_>,
        what: &'static str,
        make_command: &dyn Fn(Certificates) -> Command,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let mut attempt = |certificates| {
            let command = make_command(certificates);
            staging.run(&self.name(), what, command, on_line)
        };
        let ran = match attempt(Certificates::BuiltIn) {
            Err(Error::Install(failure))
                if failure.end == EXIT_ERROR
                    && failure.unreached.is_empty()
                    && failure.cause == FailureCause::Unknown =>
            {
                attempt(Certificates::Machine)
            }
            ran => ran,
        };
        ran.map_err(|error| match error {
            Error::Install(mut failure) if failure.cause == FailureCause::Unknown => {
                if failure.end == EXIT_NO_SOLUTION {
                    failure.cause = FailureCause::NoSolution;
                } else if failure.end == EXIT_ERROR {
                    failure.cause = FailureCause::IndexUnusable;
                }
                Error::Install(failure)
            }
            other => other,
        })
    }

    fn no_index(&self) -> Option<&'static str> {
        self.settings.no_index().then_some("--no-index")
    }

    fn variables(&self, context: &InstallContext<'_>) -> Variables {
        self.settings.uv_variables(context.variables.clone())
    }

    fn command(
        &self,
        context: &InstallContext<'_>,
        certificates: Certificates,
        wheels: WheelSource,
    ) -> Command {
        let mut variables = self.variables(context);
        if certificates == Certificates::Machine {
            // The first name is the older one.
            variables = variables
                .with("UV_NATIVE_TLS", "1")
                .with("UV_SYSTEM_CERTS", "1");
        }
        if wheels == WheelSource::IndexAndBuilt {
            let links = variables.get("UV_FIND_LINKS").map(OsString::from);
            let mut all = links.map_or_else(OsString::new, |mut links| {
                links.push(",");
                links
            });
            all.push(BUILT_WHEELS_DIRECTORY);
            variables = variables.with("UV_FIND_LINKS", all);
        }
        let mut command = variables.command(&self.program);
        command
            .args(&self.arguments)
            .args(["--color=never", "--no-python-downloads"])
            .current_dir(context.directory);
        command
    }
}

/// The certificate authorities that uv trusts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Certificates {
    BuiltIn,
    Machine,
}

/// The options that name the versions which must stay. uv warns of an empty file, and the warning would
/// stand among the lines of every error.
fn constraints(request: &ResolveRequest<'_>) -> &'static [&'static str] {
    match request.installed {
        [] => &[],
        _ => &["--constraints", CONSTRAINTS_FILE],
    }
}

/// Moves every wheel below `from` into the directory `to`. Only plain files are moved: code of a build may
/// have left anything there, also links to the user's files.
fn move_wheels(from: &Path, to: &Path) -> Result<(), Error> {
    let failed = |source| Error::io("take the built wheels from", from, source);
    let mut directories = vec![from.to_owned()];
    while let Some(directory) = directories.pop() {
        let is_directory = fs::symlink_metadata(&directory).is_ok_and(|found| found.is_dir());
        if !is_directory {
            continue;
        }
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            let name = entry.file_name();
            if kind.is_dir() {
                directories.push(entry.path());
            } else if kind.is_file() && Path::new(&name).extension().is_some_and(|e| e == "whl") {
                fs::rename(entry.path(), to.join(&name)).map_err(failed)?;
            }
        }
    }
    Ok(())
}

/// Turns the lines that uv writes while it installs into progress. A line that is not understood moves
/// nothing.
struct UvOutput {
    total: u64,
    downloaded: u64,
}

impl UvOutput {
    fn new(packages: usize) -> Self {
        Self {
            total: packages as u64,
            downloaded: 0,
        }
    }

    fn read(&mut self, line: &str) -> Option<InstallProgress> {
        let (word, rest) = line.trim_start().split_once(' ')?;
        let name = rest.split(' ').next().unwrap_or(rest);
        let all = count_packages(self.total);
        let (step, done, message) = match word {
            "Downloading" => (
                InstallStep::Download,
                self.downloaded,
                format!("downloading {rest}"),
            ),
            "Downloaded" => {
                self.downloaded += 1;
                (
                    InstallStep::Download,
                    self.downloaded,
                    format!("downloaded {name}"),
                )
            }
            // Small packages come without a line of their own, so the count jumps here.
            "Prepared" => (InstallStep::Install, 0, format!("installing {all}")),
            "Installed" => (InstallStep::Install, self.total, format!("installed {all}")),
            _ => return None,
        };
        Some(InstallProgress::new(step, done, Some(self.total), message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uvs_lines_become_progress() {
        let mut progress = UvOutput::new(29);
        let mut read = |line| progress.read(line).map(|p| (p.step, p.done, p.total));
        assert_eq!(read("Using Python 3.11.7 environment at: v1"), None);
        assert_eq!(
            read("Downloading pillow (6.8MiB)"),
            Some((InstallStep::Download, 0, Some(29)))
        );
        assert_eq!(
            read(" Downloaded pillow"),
            Some((InstallStep::Download, 1, Some(29)))
        );
        assert_eq!(
            read("Prepared 29 packages in 1.94s"),
            Some((InstallStep::Install, 0, Some(29)))
        );
        assert_eq!(
            read("Installed 29 packages in 92ms"),
            Some((InstallStep::Install, 29, Some(29)))
        );
        assert_eq!(read(" + numpy==2.4.6"), None);
    }

    #[test]
    fn only_plain_wheels_are_taken_from_a_build() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("from"), directory.path().join("to"));
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(from.join("a/b/good-1.0-py3-none-any.whl"), "wheel").unwrap();
        fs::write(from.join("a/other.txt"), "text").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", from.join("link-1.0-py3-none-any.whl")).unwrap();
        std::os::unix::fs::symlink("/etc", from.join("directory")).unwrap();
        move_wheels(&from, &to).unwrap();
        let taken: Vec<_> = fs::read_dir(&to).unwrap().flatten().collect();
        assert_eq!(taken.len(), 1);
        assert_eq!(taken[0].file_name(), "good-1.0-py3-none-any.whl");
    }
}
