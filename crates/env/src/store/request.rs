//! Requests for packages, and the lock that each led to: the same request needs no resolver the next time.

use std::{
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    Error, Interpreter, Package, Requirements,
    dirs::{self, short_name},
    variables::is_trusted,
};

/// The version of the files. Goes up when their form changes.
const FORMAT: u32 = 1;
/// Part of every directory's name. Goes up when environments made earlier can no longer be used.
const DIRECTORY_FORMAT: &str = "2";

/// A request: packages for an interpreter, beside those that are installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InstallRequest {
    pub(crate) requirements: Requirements,
    /// Packages of the session that gets a layer; their versions must stay.
    #[serde(rename = "there")]
    pub(crate) installed: Vec<Package>,
    pub(crate) interpreter: Interpreter,
}

#[derive(Serialize, Deserialize)]
struct SavedLock {
    format: u32,
    request: InstallRequest,
    lock: Vec<String>,
}

impl InstallRequest {
    /// The file with the request's lock.
    pub(crate) fn file(&self, directory: &Path) -> PathBuf {
        let installed: Vec<String> = self.installed.iter().map(Package::pinned).collect();
        let installed = short_name(installed.iter().map(String::as_bytes));
        let requirements = &self.requirements;
        let key = key(
            &self.interpreter,
            &requirements.packages,
            &requirements.imports,
        );
        directory.join(format!("{key}-{installed}.json"))
    }

    /// The lock that the same request led to before.
    pub(crate) fn load_lock(&self, directory: &Path) -> Option<Vec<String>> {
        let file = fs::File::open(self.file(directory)).ok()?;
        if !is_trusted(&file.metadata().ok()?) {
            return None;
        }
        let text = std::io::read_to_string(file).ok()?;
        let saved: SavedLock = serde_json::from_str(&text).ok()?;
        let is_same = saved.format == FORMAT
            && saved.request.requirements == self.requirements
            && saved.request.installed == self.installed
            && saved.request.interpreter.is_same(&self.interpreter);
        is_same.then_some(saved.lock)
    }

    /// Saves the lock that the request led to.
    pub(crate) fn save_lock(&self, directory: &Path, lock: &[String]) -> Result<(), Error> {
        let saved = SavedLock {
            format: FORMAT,
            request: self.clone(),
            lock: lock.to_owned(),
        };
        dirs::write_json(&self.file(directory), &saved)
    }

    /// The name of the directory with the packages of a lock.
    pub(crate) fn directory_name(&self, lock: &[String]) -> String {
        key(&self.interpreter, lock, &self.requirements.imports)
    }
}

/// Whether the packages of a saved lock still exist in one of these directories.
pub(crate) fn is_lock_usable(file: &Path, directories: &[&Path]) -> bool {
    let saved = fs::read(file)
        .ok()
        .and_then(|text| serde_json::from_slice::<SavedLock>(&text).ok());
    saved.is_some_and(|SavedLock { request, lock, .. }| {
        let name = request.directory_name(&lock);
        (lock.is_empty() && !request.installed.is_empty())
            || directories.iter().any(|d| d.join(&name).is_dir())
    })
}

/// A name for these packages and modules on this interpreter.
fn key(interpreter: &Interpreter, packages: &[String], imports: &[String]) -> String {
    let version = interpreter.version.to_string();
    let parts = [
        DIRECTORY_FORMAT.as_bytes(),
        version.as_bytes(),
        interpreter.executable.as_os_str().as_bytes(),
        // A home directory may be shared between machines of different kinds.
        interpreter.platform.as_bytes(),
        interpreter.soabi.as_bytes(),
    ];
    let packages = packages.iter().map(String::as_bytes);
    let imports = imports.iter().map(String::as_bytes);
    let all = parts
        .into_iter()
        .chain(packages)
        .chain([&b""[..]])
        .chain(imports);
    format!("python-{version}-{}", short_name(all))
}
