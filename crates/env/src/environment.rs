//! A Python environment that is ready for use, and the file that says so.

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    Error, Interpreter, Requirements, Variables, access, dirs, fonts, requirement::normalize_name,
};

/// The marker's name inside an environment. It is written last: without it there is no environment.
const MARKER: &str = "cellblock-environment.json";
/// What the marker says of an installer that had no walls, where others have.
pub(crate) const UNWALLED: &str = "outside of walls";
/// Goes up when the marker's shape changes.
const FORMAT: u32 = 2;

/// A Python with packages, complete and never written to again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Environment {
    /// What to start: the virtual environment's `bin/python`, or the bare interpreter.
    pub python: PathBuf,
    /// The environment's directory, or where the bare interpreter is installed.
    pub prefix: PathBuf,
    /// Where the interpreter below it is installed.
    pub base_prefix: PathBuf,
    /// Where the packages are; none for a bare interpreter, which must then be started with `-S`.
    pub site_packages: Option<PathBuf>,
    /// A value for `MPLCONFIGDIR` that has matplotlib's list of fonts. matplotlib wants to write there:
    /// give each session a copy, else it searches for fonts anew.
    pub matplotlib_config: Option<PathBuf>,
    /// What is installed, by name.
    pub packages: Vec<Package>,
    /// Its size on disk, 0 for a bare interpreter.
    pub bytes: u64,
    /// When it was made, in seconds since 1970; 0 for a bare interpreter.
    pub made: u64,
    /// With what it was made (`uv 0.13.7`), and whether that had to run outside of walls; empty for a bare interpreter.
    pub installer: String,
    /// The interpreter below it.
    pub interpreter: Interpreter,
    fonts: String,
}

/// One installed package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Package {
    /// As its authors write it.
    pub name: String,
    /// The exact version.
    pub version: String,
}

/// What is there of an environment that one would like to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It can be used.
    Ready(Box<Environment>),
    /// Nothing is there; [`crate::Environments::make`] makes it.
    Missing,
    /// Some process is making it now; [`crate::Environments::make`] waits for that one.
    Building,
}

impl Environment {
    /// The interpreter alone with its standard library: what sessions run on until there is more.
    pub fn standard_library(interpreter: &Interpreter) -> Self {
        Self {
            python: interpreter.executable.clone(),
            prefix: interpreter.base_prefix.clone(),
            base_prefix: interpreter.base_prefix.clone(),
            site_packages: None,
            matplotlib_config: None,
            packages: Vec::new(),
            bytes: 0,
            made: 0,
            installer: String::new(),
            interpreter: interpreter.clone(),
            fonts: String::new(),
        }
    }

    /// The version of an installed package, found as pip would (`scikit_learn` is `scikit-learn`).
    pub fn version_of(&self, name: &str) -> Option<&str> {
        let wanted = normalize_name(name);
        let found = self
            .packages
            .iter()
            .find(|p| normalize_name(&p.name) == wanted)?;
        Some(&found.version)
    }

    /// The directories that a process must be able to read to run it, none inside another.
    pub fn directories(&self) -> Vec<PathBuf> {
        let mut directories = self.interpreter.directories();
        if !directories.iter().any(|d| self.prefix.starts_with(d)) {
            directories.push(self.prefix.clone());
        }
        directories
    }

    /// Whether the list of fonts was made from the fonts that the machine has now. A few dozen `stat`s.
    /// When it was not, [`crate::Environments::make`] makes the list anew.
    pub fn fonts_are_current(&self, variables: &Variables) -> bool {
        self.matplotlib_config.is_none() || self.fonts == fonts::fingerprint(variables)
    }

    /// Reads an environment that is complete and made for exactly this.
    pub(crate) fn open(prefix: &Path, interpreter: &Interpreter, lock: &[String]) -> Option<Self> {
        let marker = Marker::read(prefix)?;
        let right = marker.kind == Kind::Environment && marker.fits(interpreter, lock);
        let environment = marker.environment(prefix, interpreter);
        // Also false when the interpreter behind the link is gone.
        (right && environment.python.exists()).then_some(environment)
    }
}

impl Package {
    /// As a requirement that only this version meets.
    pub(crate) fn pinned(&self) -> String {
        format!("{}=={}", normalize_name(&self.name), self.version)
    }
}

/// What a directory of packages is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A Python with packages, for sessions to begin in.
    Environment,
    /// Packages that were added to sessions while they lived.
    Layer,
}

/// The marker: the description of something complete. Paths are not in it, so that the directory can be
/// moved into place after it was written.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Marker {
    pub(crate) format: u32,
    pub(crate) kind: Kind,
    /// The request that it was first made for.
    pub(crate) requirements: Requirements,
    /// What the resolver chose.
    pub(crate) lock: Vec<String>,
    pub(crate) interpreter: Interpreter,
    pub(crate) packages: Vec<Package>,
    pub(crate) bytes: u64,
    pub(crate) made: u64,
    pub(crate) installer: String,
    pub(crate) fonts: String,
}

impl Marker {
    /// Reads one that is whole and this user's own, or root's.
    pub(crate) fn read(prefix: &Path) -> Option<Self> {
        let file = fs::File::open(prefix.join(MARKER)).ok()?;
        if !access::is_trusted(&file.metadata().ok()?) {
            return None;
        }
        let marker: Self = serde_json::from_str(&std::io::read_to_string(file).ok()?).ok()?;
        (marker.format == FORMAT).then_some(marker)
    }

    pub(crate) fn fits(&self, interpreter: &Interpreter, lock: &[String]) -> bool {
        self.lock == lock && self.interpreter.is_same(interpreter)
    }

    /// Writes it in one step: a reader sees all of it or none.
    pub(crate) fn write(&self, prefix: &Path) -> Result<(), Error> {
        let path = prefix.join(MARKER);
        dirs::write_whole(&path, self)
    }

    fn environment(self, prefix: &Path, interpreter: &Interpreter) -> Environment {
        let config = matplotlib_config(prefix);
        Environment {
            python: python(prefix),
            prefix: prefix.to_owned(),
            base_prefix: interpreter.base_prefix.clone(),
            site_packages: Some(site_packages(prefix, interpreter)),
            matplotlib_config: config.exists().then_some(config),
            packages: self.packages,
            bytes: self.bytes,
            made: self.made,
            installer: self.installer,
            interpreter: interpreter.clone(),
            fonts: self.fonts,
        }
    }
}

/// The format that markers have now, and the time, for who makes one.
pub(crate) fn stamp() -> (u32, u64) {
    let since_1970 = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    (FORMAT, since_1970.as_secs())
}

pub(crate) fn python(prefix: &Path) -> PathBuf {
    prefix.join("bin/python")
}

pub(crate) fn site_packages(prefix: &Path, interpreter: &Interpreter) -> PathBuf {
    let version = interpreter.version;
    let suffix = if interpreter.free_threaded { "t" } else { "" };
    prefix.join(format!(
        "lib/python{}.{}{suffix}/site-packages",
        version.major, version.minor
    ))
}

pub(crate) fn matplotlib_config(prefix: &Path) -> PathBuf {
    prefix.join("share/cellblock/matplotlib")
}

/// Reads what is installed from the metadata that every installer leaves (PEP 376).
pub(crate) fn installed_packages(site_packages: &Path) -> Result<Vec<Package>, Error> {
    let entries = fs::read_dir(site_packages)
        .map_err(|source| Error::io("read the directory", site_packages, source))?;
    let mut packages: Vec<Package> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "dist-info"))
        .filter_map(|path| read_beginning(&path.join("METADATA")))
        .filter_map(|metadata| parse_metadata(&String::from_utf8_lossy(&metadata)))
        .collect();
    packages.sort_by_key(|package| normalize_name(&package.name));
    Ok(packages)
}

/// The headers stand at the beginning; a description below may be of any length.
fn read_beginning(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path).ok()?;
    file.take(256 << 10).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn parse_metadata(text: &str) -> Option<Package> {
    // The headers end at the first empty line; the description below may say "Name: " as well.
    let header = |name: &str| {
        text.lines()
            .take_while(|line| !line.is_empty())
            .find_map(|line| line.strip_prefix(name))
            .map(|value| value.trim().to_owned())
    };
    Some(Package {
        name: header("Name:")?,
        version: header("Version:")?,
    })
}
