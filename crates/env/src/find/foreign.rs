//! A Python on another system, such as the image of a container.

use std::path::PathBuf;

use super::interpreter::{Interpreter, PythonVersion};

/// A Python that packages can be installed for, and that cannot be run here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignPython {
    /// Its version.
    pub version: PythonVersion,
    /// The kind of processor, as `uname` names it: `x86_64`, `aarch64`.
    pub machine: String,
    /// The C library.
    pub libc: Libc,
    /// The tag of compiled modules (`cpython-312-x86_64-linux-gnu`).
    pub soabi: String,
}

/// The C library that compiled modules need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Libc {
    /// That of Debian, Ubuntu, Fedora and most others.
    Glibc,
    /// That of Alpine.
    Musl,
}

impl ForeignPython {
    /// The platform, as uv names it.
    pub(crate) fn uv_platform(&self) -> String {
        let libc = match self.libc {
            Libc::Glibc => "gnu",
            Libc::Musl => "musl",
        };
        format!("{}-unknown-linux-{libc}", self.machine)
    }

    /// The options that make uv install for this Python.
    pub(crate) fn uv_options(&self) -> [String; 2] {
        [
            format!("--python-version={}", self.version),
            format!("--python-platform={}", self.uv_platform()),
        ]
    }

    /// The Python as an interpreter: it names what is installed for it, and is not to be run.
    pub(crate) fn as_interpreter(&self, runner: &Interpreter) -> Interpreter {
        Interpreter {
            executable: PathBuf::from("python3"),
            version: self.version,
            platform: self.uv_platform(),
            soabi: self.soabi.clone(),
            ..runner.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uv_is_told_the_version_and_the_platform() {
        let python = ForeignPython {
            version: PythonVersion {
                major: 3,
                minor: 12,
                micro: 1,
            },
            machine: "aarch64".to_owned(),
            libc: Libc::Musl,
            soabi: String::new(),
        };
        assert_eq!(
            python.uv_options(),
            [
                "--python-version=3.12.1",
                "--python-platform=aarch64-unknown-linux-musl"
            ]
        );
    }
}
