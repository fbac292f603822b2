//! Packages for a session that lives already.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use crate::{
    Interpreter, Package, Requirements,
    environment::{Kind, Marker, UNWALLED},
    requirement::{name_at_start, normalize_name},
};

/// A directory of packages that comes after all others on a session's path. Complete, and never written to again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layer {
    /// What goes on `sys.path`. None when everything was there already.
    pub path: Option<PathBuf>,
    /// What it brings.
    pub packages: Vec<Package>,
    /// What was asked for and is there already.
    pub there: Vec<Package>,
    /// With what it was made, and whether that had to run outside of walls; empty when it brings nothing.
    pub installer: String,
}

impl Layer {
    /// A layer with nothing in it.
    pub(crate) fn nothing(wanted: &Requirements, there: &[Package]) -> Self {
        Self {
            path: None,
            packages: Vec::new(),
            there: among(wanted, there),
            installer: String::new(),
        }
    }

    pub(crate) fn open(
        directory: &Path,
        interpreter: &Interpreter,
        lock: &[String],
        wanted: &Requirements,
        there: &[Package],
    ) -> Option<Self> {
        let marker = Marker::read(directory)?;
        let path = packages(directory);
        let right = marker.kind == Kind::Layer && marker.fits(interpreter, lock) && path.is_dir();
        right.then(|| Self {
            path: Some(path),
            packages: marker.packages,
            there: among(wanted, there),
            installer: marker.installer,
        })
    }
}

impl Layer {
    fn tool(&self) -> &str {
        self.installer.split(',').next().unwrap_or_default()
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.packages.is_empty() {
            write!(out, "Installed {}. ", list(&self.packages))?;
        }
        if !self.there.is_empty() {
            write!(out, "Already there: {}. ", list(&self.there))?;
        }
        if self.installer.ends_with(UNWALLED) {
            write!(out, "The installer ({}) ran {UNWALLED}. ", self.tool())?;
        }
        out.write_str("All variables are as they were.")
    }
}

fn list(packages: &[Package]) -> String {
    let all: Vec<String> = packages
        .iter()
        .map(|package| format!("{} {}", package.name, package.version))
        .collect();
    all.join(", ")
}

/// The directory with the packages.
pub(crate) fn packages(directory: &Path) -> PathBuf {
    directory.join("site-packages")
}

fn among(wanted: &Requirements, there: &[Package]) -> Vec<Package> {
    let names: Vec<String> = wanted
        .packages
        .iter()
        .map(|text| normalize_name(name_at_start(text)))
        .collect();
    let is_wanted = |package: &&Package| names.contains(&normalize_name(&package.name));
    there.iter().filter(is_wanted).cloned().collect()
}
