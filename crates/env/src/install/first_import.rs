//! Byte code for every module, and the first import of the modules that sessions import: done once for all
//! sessions.

use std::{ffi::OsString, fs, path::Path};

use crate::{
    Error, InstallProgress, InstallStep, InstallerSandbox, ProgramEnd, ProxySettings,
    SandboxCommand, SandboxOptions, SandboxStrength, dirs,
    install::{
        InstallContext, OnProgress, STEP_TIME_LIMIT,
        staging::{OUTPUT_DIRECTORY, Staging},
    },
    program::LastLines,
    store::{matplotlib_config, python_of},
};

const IMPORT_SCRIPT: &str = include_str!("python/first_import.py");
const COMPILE_SCRIPT: &str = include_str!("python/compile.py");

/// Compiles the modules below `packages`, in the staging directory. Test suites inside packages are left
/// out: they are half of all files, and sessions do not import them.
///
/// The byte code names the files by their final path, and is valid whatever the times of the files become
/// (`unchecked-hash`), because nothing in an environment ever changes.
pub(crate) fn compile_byte_code(
    staging: &mut Staging<'_>,
    packages: &Path,
    target: &Path,
    on_progress: &mut OnProgress<'_>,
) -> Result<(), Error> {
    let context = staging.context();
    let mut command = context.command(&context.interpreter.executable);
    // Without `site`: a package may bring a `.pth` file, which is code that Python runs when it starts.
    command
        .args(["-I", "-S", "-c", COMPILE_SCRIPT])
        .arg(packages)
        .arg(OUTPUT_DIRECTORY)
        .arg(target);
    staging.run("Python", "compile the byte code", command, &mut |line| {
        let mut numbers = line.split('/').map_while(|part| part.parse().ok());
        if let (Some(done), Some(total)) = (numbers.next(), numbers.next()) {
            let message = format!("compiled {done} of {total} files");
            on_progress(InstallProgress::new(
                InstallStep::Compile,
                done,
                Some(total),
                message,
            ));
        }
    })
}

/// Imports modules of a new environment. This proves that they work on this machine, and makes matplotlib
/// write its list of fonts into the environment: a session has no home to write to, and the search for fonts
/// takes a second.
///
/// An import runs code of the packages, so it happens in a sandbox where there is one.
pub(crate) fn import_modules(
    context: &InstallContext<'_>,
    prefix: &Path,
    modules: &[String],
    on_progress: &mut OnProgress<'_>,
) -> Result<(), Error> {
    if modules.is_empty() {
        return Ok(());
    }
    let has_matplotlib = modules.iter().any(|name| name.starts_with("matplotlib"));
    let config = matplotlib_config(prefix);
    if has_matplotlib {
        dirs::create(&config)?;
    }
    import(context, prefix, &config, modules, on_progress)?;
    if has_matplotlib && !has_font_list(&config) {
        let config = config.display();
        return Err(Error::ImportFailed {
            what: format!("matplotlib wrote no list of fonts into {config}"),
            lines: Vec::new(),
            is_noexec: false,
        });
    }
    Ok(())
}

/// Makes matplotlib search for fonts again, and replaces its list of fonts.
pub(crate) fn refresh_fonts(context: &InstallContext<'_>, prefix: &Path) -> Result<(), Error> {
    let config = matplotlib_config(prefix);
    let new_config = config.with_file_name(format!(".matplotlib-{}", std::process::id()));
    dirs::create(&new_config)?;
    let modules = ["matplotlib.font_manager".to_owned()];
    let imported = import(context, prefix, &new_config, &modules, &mut |_| {});
    let moved = imported.and_then(|()| move_font_lists(&new_config, &config));
    dirs::remove(&new_config)?;
    moved
}

fn import(
    context: &InstallContext<'_>,
    prefix: &Path,
    config: &Path,
    modules: &[String],
    on_progress: &mut OnProgress<'_>,
) -> Result<(), Error> {
    let total = Some(modules.len() as u64);
    let mut done = 0;
    let mut current = String::new();
    let mut on_line = |line: &str| {
        if let Some(name) = line.strip_prefix("import ") {
            let message = format!("importing {name}");
            on_progress(InstallProgress::new(
                InstallStep::FirstImport,
                done,
                total,
                message,
            ));
            done += 1;
            current = name.to_owned();
        }
    };
    let ran = match context.sandbox {
        None => import_unsandboxed(context, prefix, config, modules, &mut on_line),
        Some(sandbox) => import_in_sandbox(sandbox, context, prefix, config, modules, &mut on_line),
    };
    match ran {
        Ok(()) => {
            on_progress(InstallProgress::new(
                InstallStep::FirstImport,
                done,
                total,
                "ready",
            ));
            Ok(())
        }
        Err(ImportError::Failed { end, mut lines }) => {
            lines.retain(|line| !line.starts_with("import "));
            Err(Error::ImportFailed {
                what: format!("import {current}: {end}"),
                lines,
                is_noexec: is_noexec(prefix),
            })
        }
        Err(ImportError::Other(error)) => Err(error),
    }
}

enum ImportError {
    Failed { end: ProgramEnd, lines: Vec<String> },
    Other(Error),
}

impl From<Error> for ImportError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

fn import_unsandboxed(
    context: &InstallContext<'_>,
    prefix: &Path,
    config: &Path,
    modules: &[String],
    on_line: &mut dyn FnMut(&str),
) -> Result<(), ImportError> {
    let mut command = context.command(python_of(prefix));
    command
        .args(["-I", "-c", IMPORT_SCRIPT])
        .args(modules)
        .env("MPLCONFIGDIR", config)
        .env("MPLBACKEND", "Agg");
    match context.run("Python", "import the packages", command, on_line) {
        Ok(_) => Ok(()),
        Err(Error::Install(failure)) => Err(ImportError::Failed {
            end: failure.end,
            lines: failure.lines,
        }),
        Err(error) => Err(error.into()),
    }
}

fn import_in_sandbox(
    sandbox: &dyn InstallerSandbox,
    context: &InstallContext<'_>,
    prefix: &Path,
    config: &Path,
    modules: &[String],
    on_line: &mut dyn FnMut(&str),
) -> Result<(), ImportError> {
    let directory = config.with_file_name(format!(".import-{}", std::process::id()));
    dirs::create(&directory)?;
    let options = SandboxOptions {
        interpreter: context.interpreter.clone(),
        readable: vec![prefix.to_owned()],
        hosts: Vec::new(),
        proxies: ProxySettings::default(),
        directory: directory.clone(),
        strength: SandboxStrength::BestAvailable,
        time_limit: STEP_TIME_LIMIT,
    };
    let imported = run_imports(sandbox, &options, context, prefix, modules, on_line)
        .and_then(|()| Ok(move_font_lists(&directory, config)?));
    let _ = dirs::remove(&directory);
    imported
}

fn run_imports(
    sandbox: &dyn InstallerSandbox,
    options: &SandboxOptions,
    context: &InstallContext<'_>,
    prefix: &Path,
    modules: &[String],
    on_line: &mut dyn FnMut(&str),
) -> Result<(), ImportError> {
    let script = ["-I", "-c", IMPORT_SCRIPT].into_iter().map(OsString::from);
    let command = SandboxCommand {
        arguments: [python_of(prefix).into_os_string()]
            .into_iter()
            .chain(script)
            .chain(modules.iter().map(OsString::from))
            .collect(),
        // The working directory is the sandbox's own.
        variables: [("MPLCONFIGDIR", "."), ("MPLBACKEND", "Agg")]
            .map(|(name, value)| (name.into(), value.into()))
            .into(),
    };
    let mut last_lines = LastLines::default();
    let ran = match sandbox.open(options) {
        Ok(mut open) => open
            .run(&command, context.cancel, &mut |line| {
                on_line(line);
                last_lines.push(line);
            })
            .map_err(|failure| failure.end),
        Err(error) => Err(ProgramEnd::Other(error.to_string())),
    };
    if context.cancel.is_cancelled() {
        return Err(Error::Cancelled.into());
    }
    ran.map_err(|end| ImportError::Failed {
        end,
        lines: last_lines.into_lines(),
    })
}

/// Moves matplotlib's lists of fonts. Only plain files are moved: code of packages may have left anything
/// else there.
fn move_font_lists(from: &Path, to: &Path) -> Result<(), Error> {
    let entries = fs::read_dir(from).map_err(|e| Error::io("read the directory", from, e))?;
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && is_font_list(&name.to_string_lossy()) {
            let target = to.join(&name);
            fs::rename(entry.path(), &target).map_err(|e| Error::io("write", &target, e))?;
        }
    }
    Ok(())
}

fn has_font_list(config: &Path) -> bool {
    fs::read_dir(config).is_ok_and(|entries| {
        entries
            .filter_map(Result::ok)
            .any(|entry| is_font_list(&entry.file_name().to_string_lossy()))
    })
}

fn is_font_list(name: &str) -> bool {
    name.starts_with("fontlist-") && name.ends_with(".json")
}

/// Whether the file system of a path forbids to execute files, and so to load the libraries of packages.
fn is_noexec(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|disk| {
        let noexec = rustix::fs::StatVfsMountFlags::NOEXEC;
        disk.f_flag.contains(noexec)
    })
}
