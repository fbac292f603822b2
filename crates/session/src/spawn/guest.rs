//! The guest's modules: carried by the binary, laid out once in the cache, compiled once per Python.

use crate::{Error, Python};
use cellblock_sandbox::private_file;
use std::fs::{DirBuilder, Permissions};
use std::hash::{DefaultHasher, Hasher as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io};

include!(concat!(env!("OUT_DIR"), "/guest_modules.rs"));

/// The directory that holds the package `cellblock_guest`, below `cache`.
pub(crate) fn lay_out(cache: &Path, python: &Python) -> Result<PathBuf, Error> {
    let directory = lay_out_sources(cache)?;
    // Byte code is a convenience: without it every start compiles the modules again.
    let mark = directory.join(format!(
        ".compiled-{:016x}",
        fingerprint(&python.executable)
    ));
    if !mark.exists() && compile(python, &directory) {
        close_to_others(&directory);
        let _ = private_file(&mark);
    }
    Ok(directory)
}

/// Lays the guest's modules out without byte code, for a Python of another machine or container.
pub(crate) fn lay_out_sources(cache: &Path) -> Result<PathBuf, Error> {
    let directory = cache
        .join("guest")
        .join(format!("{:016x}", fingerprint(MODULES)));
    let failed = |what| {
        let path = directory.clone();
        move |source| Error::Storage { what, path, source }
    };
    if !directory.is_dir() {
        write_modules(&directory).map_err(failed("writing the guest's modules to"))?;
    }
    Ok(directory)
}

/// Whole or not at all: into a directory beside it first.
fn write_modules(directory: &Path) -> io::Result<()> {
    static DRAFTS: AtomicU32 = AtomicU32::new(0);
    let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
    let draft = directory.with_extension(format!("draft-{}-{number}", std::process::id()));
    let package = draft.join("cellblock_guest");
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o755).create(&package)?;
    for (name, text) in MODULES {
        fs::write(package.join(name), text)?;
    }
    close_to_others(&draft);
    match fs::rename(&draft, directory) {
        Ok(()) => Ok(()),
        Err(error) => {
            fs::remove_dir_all(&draft)?;
            // Another process was quicker.
            if directory.is_dir() {
                Ok(())
            } else {
                Err(error)
            }
        }
    }
}

/// Every session may read the modules, of root's as another user, and no other user may change them: whatever the umask is.
fn close_to_others(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => close_to_others(&entry.path()),
            Ok(kind) if kind.is_file() => {
                let _ = fs::set_permissions(entry.path(), Permissions::from_mode(0o644));
            }
            _ => {}
        }
    }
    let _ = fs::set_permissions(directory, Permissions::from_mode(0o755));
}

fn compile(python: &Python, directory: &Path) -> bool {
    let mut command = Command::new(&python.executable);
    command
        .args([
            "-I",
            "-S",
            "-m",
            "compileall",
            "-q",
            "--invalidation-mode",
            "unchecked-hash",
        ])
        .arg(directory);
    command
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn fingerprint(value: &(impl std::hash::Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
