//! A temporary cache, and packages that come from a directory instead of an index.

#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "helpers of tests, of which no test uses all"
)]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

use cellblock_env::{
    Cancel, Dirs, Environment, Environments, Error, InstallProgress, Interpreter, Requirements,
    Search, Variables,
};

/// The interpreter that this machine's sessions would use.
pub(crate) fn interpreter() -> Interpreter {
    Search::from_process().unwrap().find().unwrap()
}

/// A uv that works: the user's own on `PATH`, else the one that this user's environments are made with. The
/// latter is downloaded if there is none, which needs the package index.
pub(crate) static UV: LazyLock<PathBuf> = LazyLock::new(|| {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut on_path = std::env::split_paths(&path).map(|directory| directory.join("uv"));
    if let Some(uv) = on_path.find(|uv| uv.exists()) {
        return uv;
    }
    let uv = Dirs::from_process().unwrap().cache.join("tools/uv/bin/uv");
    if !uv.exists() {
        let environments = Environments::from_process().unwrap();
        let nothing = Requirements::new(Vec::<String>::new());
        let made = environments.make(&interpreter(), &nothing, &Cancel::new(), &mut |_| {});
        made.unwrap();
    }
    uv
});

/// A home, a cache and a directory of wheels that are removed with the test. No index is ever asked.
pub(crate) struct Scratch {
    root: tempfile::TempDir,
    pub(crate) variables: Variables,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for directory in ["home", "bin", "wheels"] {
            fs::create_dir(root.path().join(directory)).unwrap();
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let variables = Variables::from_process()
            .with("HOME", root.path().join("home"))
            .with("XDG_CACHE_HOME", root.path().join("cache"))
            .with(
                "PATH",
                format!(
                    "{}:{path}:{}",
                    root.path().join("bin").display(),
                    UV.parent().unwrap().display()
                ),
            )
            .with("PIP_NO_INDEX", "1")
            .with("PIP_FIND_LINKS", root.path().join("wheels"))
            // Variables that must not put byte code and packages elsewhere.
            .with("PYTHONDONTWRITEBYTECODE", "1")
            .with("PIP_TARGET", root.path().join("elsewhere"))
            .without("XDG_DATA_HOME");
        Self { root, variables }
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    pub(crate) fn environments(&self) -> Environments {
        let dirs = Dirs::new(&self.variables).unwrap();
        Environments::new(self.variables.clone(), &dirs)
    }

    /// Makes a wheel: a package of one module, with a command of the same name.
    pub(crate) fn wheel(&self, name: &str, files: &[(&str, &str)]) {
        let script = r#"
import sys, zipfile
directory, name, *files = sys.argv[1:]
info = f"{name}-1.0.dist-info"
with zipfile.ZipFile(f"{directory}/{name}-1.0-py3-none-any.whl", "w") as wheel:
    for path, text in zip(files[::2], files[1::2]):
        entry = zipfile.ZipInfo(path)
        entry.external_attr = (0o100755 if ".data/scripts/" in path else 0o100644) << 16
        wheel.writestr(entry, text)
    wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n\nName: not this\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    if not any(".data/scripts/" in path for path in files[::2]):
        wheel.writestr(f"{info}/entry_points.txt", f"[console_scripts]\n{name} = {name}:main\n")
    wheel.writestr(f"{info}/RECORD", "".join(f"{p},,\n" for p in wheel.namelist()))
"#;
        let made = Command::new(interpreter().executable)
            .args(["-I", "-c", script])
            .arg(self.path("wheels"))
            .arg(name)
            .args(files.iter().flat_map(|(path, text)| [path, text]))
            .status()
            .unwrap();
        assert!(made.success());
    }

    /// Makes a program that is found before all others on `PATH`.
    pub(crate) fn program(&self, name: &str, script: &str) {
        let path = self.path("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// The names in the directory of environments.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path("cache/cellblock/environments")) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// Makes an environment, and returns also its progress.
pub(crate) fn make(
    environments: &Environments,
    requirements: &Requirements,
) -> (Result<Environment, Error>, Vec<InstallProgress>) {
    let mut reports = Vec::new();
    let made = environments.make(
        &interpreter(),
        requirements,
        &Cancel::new(),
        &mut |progress| reports.push(progress),
    );
    (made, reports)
}

/// The standard output of a program.
pub(crate) fn output(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
