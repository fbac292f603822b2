//! Kernelspecs: the directories by which Jupyter finds kernels.

use serde_json::{Value, json};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The name of the file that describes a kernel.
const FILE: &str = "kernel.json";
/// The key of the metadata by which our own kernels are found.
const MARK: &str = "cellblock";

/// A kernel as Jupyter finds it.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelSpec {
    /// The name of its directory, by which notebooks refer to it.
    pub name: String,
    /// The name that people see.
    pub display_name: String,
    /// The command that starts it; `{connection_file}` stands for the connection file.
    pub argv: Vec<String>,
}

/// Why a kernelspec could not be written, read or removed.
#[derive(Debug, thiserror::Error)]
pub enum KernelSpecError {
    /// The name is none that Jupyter takes.
    #[error("`{0}` is no name for a kernel: letters, digits, `.`, `_` and `-` are")]
    Name(String),
    /// A kernel of another program has the name.
    #[error("{0} is a kernel of another program")]
    Foreign(PathBuf),
    /// There is no kernel with the name.
    #[error("there is no Cellblock kernel `{0}`")]
    Missing(String),
    /// A file could not be used.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

impl KernelSpec {
    /// The text of `kernel.json`.
    pub fn to_json(&self) -> Value {
        json!({
            "argv": self.argv,
            "display_name": self.display_name,
            "language": "python",
            "interrupt_mode": "message",
            "kernel_protocol_version": crate::PROTOCOL_VERSION,
            "metadata": {MARK: {}},
        })
    }

    /// Writes the kernelspec below a data directory of Jupyter. A kernel of ours with the same name is replaced, one of another program is not.
    pub fn install(&self, data_directory: &Path) -> Result<PathBuf, KernelSpecError> {
        check_name(&self.name)?;
        let directory = data_directory.join("kernels").join(&self.name);
        let file = directory.join(FILE);
        if file.exists() && read(&file, &self.name).is_none() {
            return Err(KernelSpecError::Foreign(directory));
        }
        fs::create_dir_all(&directory).map_err(on(&directory))?;
        let text = format!("{:#}\n", self.to_json());
        fs::write(&file, text).map_err(on(&file))?;
        let logo = directory.join("logo-svg.svg");
        fs::write(&logo, LOGO).map_err(on(&logo))?;
        Ok(directory)
    }
}

/// The kernels of ours below a data directory of Jupyter, with their directories, sorted by name.
pub fn installed(data_directory: &Path) -> Vec<(PathBuf, KernelSpec)> {
    let kernels = data_directory.join("kernels");
    let entries = fs::read_dir(kernels).into_iter().flatten().flatten();
    let mut found: Vec<(PathBuf, KernelSpec)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let spec = read(&entry.path().join(FILE), &name)?;
            Some((entry.path(), spec))
        })
        .collect();
    found.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
    found
}

/// Removes a kernel of ours. Returns the directory that it had.
pub fn uninstall(data_directory: &Path, name: &str) -> Result<PathBuf, KernelSpecError> {
    check_name(name)?;
    let found = installed(data_directory)
        .into_iter()
        .find(|(_, spec)| spec.name == name);
    let Some((directory, _)) = found else {
        return Err(KernelSpecError::Missing(name.to_owned()));
    };
    fs::remove_dir_all(&directory).map_err(on(&directory))?;
    Ok(directory)
}

fn check_name(name: &str) -> Result<(), KernelSpecError> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(fits) {
        return Err(KernelSpecError::Name(name.to_owned()));
    }
    Ok(())
}

/// The kernelspec in a file, if it is one of ours.
fn read(file: &Path, name: &str) -> Option<KernelSpec> {
    let text = fs::read(file).ok()?;
    let spec: Value = serde_json::from_slice(&text).ok()?;
    spec.get("metadata")?.get(MARK)?;
    let argv = spec.get("argv")?.as_array()?.iter();
    Some(KernelSpec {
        name: name.to_owned(),
        display_name: spec.get("display_name")?.as_str()?.to_owned(),
        argv: argv
            .filter_map(|word| word.as_str().map(str::to_owned))
            .collect(),
    })
}

fn on(path: &Path) -> impl FnOnce(io::Error) -> KernelSpecError {
    let path = path.to_owned();
    |source| KernelSpecError::File { path, source }
}

/// A block with a window: the picture of the kernel in a launcher.
const LOGO: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><rect x="6" y="6" width="52" height="52" rx="8" fill="#1f2937"/><g stroke="#f9fafb" stroke-width="5" stroke-linecap="round"><path d="M22 20v24M32 20v24M42 20v24"/></g></svg>
"##;

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str) -> KernelSpec {
        KernelSpec {
            name: name.to_owned(),
            display_name: "Cellblock".to_owned(),
            argv: vec!["cellblock".to_owned(), "{connection_file}".to_owned()],
        }
    }

    #[test]
    fn a_kernel_is_found_after_it_was_installed_and_gone_after_it_was_removed() {
        let data = tempfile::tempdir().unwrap();
        let directory = spec("one").install(data.path()).unwrap();
        spec("one").install(data.path()).unwrap();
        assert_eq!(installed(data.path()), [(directory.clone(), spec("one"))]);
        assert_eq!(uninstall(data.path(), "one").unwrap(), directory);
        assert_eq!(installed(data.path()), []);
        assert!(matches!(
            uninstall(data.path(), "one"),
            Err(KernelSpecError::Missing(_))
        ));
    }

    #[test]
    fn kernels_of_other_programs_are_left_alone() {
        let data = tempfile::tempdir().unwrap();
        let directory = data.path().join("kernels/python3");
        fs::create_dir_all(&directory).unwrap();
        let text = r#"{"argv": [], "display_name": "Python 3", "language": "python"}"#;
        fs::write(directory.join(FILE), text).unwrap();
        assert!(matches!(
            spec("python3").install(data.path()),
            Err(KernelSpecError::Foreign(_))
        ));
        assert!(uninstall(data.path(), "python3").is_err());
        assert_eq!(fs::read_to_string(directory.join(FILE)).unwrap(), text);
    }

    #[test]
    fn a_name_cannot_lead_out_of_the_directory() {
        let data = tempfile::tempdir().unwrap();
        for name in ["", "..", "a/b", ".hidden", "a b"] {
            let refused = spec(name).install(data.path());
            assert!(matches!(refused, Err(KernelSpecError::Name(_))), "{name:?}");
        }
    }
}
