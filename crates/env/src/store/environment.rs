//! Environments and layers on disk, and the marker file that says what each holds.

use std::{
    fmt, fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    Error, Interpreter, Requirements, Variables, dirs,
    find::font_fingerprint,
    requirements::{name_at_start, normalize_name},
    store::InstallRequest,
    variables::is_trusted,
};

/// The name of the marker file. It is written last: a directory without it is no environment.
pub(super) const MARKER_FILE: &str = "cellblock-environment.json";
/// Stands behind an installer's name where it had no sandbox although others have one.
pub(crate) const OUTSIDE_WALLS: &str = "outside of walls";
/// The version of the marker. Goes up when its form changes.
const MARKER_FORMAT: u32 = 2;
/// The headers of a package's metadata stand at its beginning; the description below may be long.
const MAX_METADATA_BYTES: u64 = 256 << 10;

/// A Python with packages: complete, and never written to again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Environment {
    /// The program to start: the virtual environment's `bin/python`, or the bare interpreter.
    pub python: PathBuf,
    /// The environment's directory, or where the bare interpreter is installed.
    pub prefix: PathBuf,
    /// Where the environment's interpreter is installed.
    pub base_prefix: PathBuf,
    /// The directory with the packages. `None` for a bare interpreter, which must be started with `-S`.
    pub site_packages: Option<PathBuf>,
    /// A directory for `MPLCONFIGDIR` that holds matplotlib's list of fonts. matplotlib wants to write there:
    /// give each session a copy, else it searches for fonts again.
    pub matplotlib_config: Option<PathBuf>,
    /// The installed packages, sorted by name.
    pub packages: Vec<Package>,
    /// The size on disk; 0 for a bare interpreter.
    pub bytes: u64,
    /// When the environment was made, in seconds since 1970; 0 for a bare interpreter.
    pub made: u64,
    /// The installer with its version (`uv 0.13.7`), and whether it ran outside of walls. Empty for a bare
    /// interpreter.
    pub installer: String,
    /// The environment's interpreter.
    pub interpreter: Interpreter,
    fonts: String,
}

/// One installed package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Package {
    /// The name as its authors write it.
    pub name: String,
    /// The exact version.
    pub version: String,
}

/// Whether an environment exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvironmentStatus {
    /// The environment can be used.
    Ready(Box<Environment>),
    /// The environment does not exist; [`crate::Environments::make`] makes it.
    Missing,
    /// A process is making the environment; [`crate::Environments::make`] waits for that process.
    Building,
}

impl Environment {
    /// The interpreter alone with its standard library.
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

    /// The version of an installed package. Names are compared as pip does: `scikit_learn` is `scikit-learn`.
    pub fn version_of(&self, name: &str) -> Option<&str> {
        let wanted = normalize_name(name);
        let is_wanted = |package: &&Package| normalize_name(&package.name) == wanted;
        let found = self.packages.iter().find(is_wanted)?;
        Some(&found.version)
    }

    /// The directories that a process must be able to read to run the environment; none is inside another.
    pub fn directories(&self) -> Vec<PathBuf> {
        let mut directories = self.interpreter.directories();
        if !directories.iter().any(|d| self.prefix.starts_with(d)) {
            directories.push(self.prefix.clone());
        }
        directories
    }

    /// Whether the list of fonts was made from the fonts that the machine has now. Costs a few dozen `stat`
    /// calls. [`crate::Environments::make`] makes an outdated list again.
    pub fn fonts_are_current(&self, variables: &Variables) -> bool {
        self.matplotlib_config.is_none() || self.fonts == font_fingerprint(variables)
    }

    /// Opens an environment that is complete and has exactly this interpreter and lock.
    pub(crate) fn open(prefix: &Path, interpreter: &Interpreter, lock: &[String]) -> Option<Self> {
        let marker = Marker::read(prefix)?;
        let is_right = marker.kind == StoredKind::Environment && marker.is_for(interpreter, lock);
        let environment = marker.into_environment(prefix, interpreter);
        // Also false when the interpreter that the link leads to is gone.
        (is_right && environment.python.exists()).then_some(environment)
    }
}

impl Package {
    /// The requirement that only this version meets: `name==1.0`.
    pub(crate) fn pinned(&self) -> String {
        format!("{}=={}", normalize_name(&self.name), self.version)
    }
}

/// A directory of packages that comes last on the path of a session: complete, and never written to again.
///
/// The `Display` text is the answer that a model reads after an install.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layer {
    /// The directory for `sys.path`. `None` when every package was installed already.
    pub path: Option<PathBuf>,
    /// The packages in the layer.
    pub packages: Vec<Package>,
    /// The packages that were asked for and were installed already.
    pub already_installed: Vec<Package>,
    /// The installer with its version, and whether it ran outside of walls. Empty when the layer is empty.
    pub installer: String,
}

impl Layer {
    /// A layer without packages.
    pub(crate) fn empty(request: &InstallRequest) -> Self {
        Self {
            path: None,
            packages: Vec::new(),
            already_installed: wanted_among(&request.requirements, &request.installed),
            installer: String::new(),
        }
    }

    /// Opens a layer that is complete and has exactly this interpreter and lock.
    pub(crate) fn open(
        directory: &Path,
        request: &InstallRequest,
        lock: &[String],
    ) -> Option<Self> {
        let marker = Marker::read(directory)?;
        let path = layer_packages(directory);
        let is_right = marker.kind == StoredKind::Layer
            && marker.is_for(&request.interpreter, lock)
            && path.is_dir();
        is_right.then(|| Self {
            path: Some(path),
            packages: marker.packages,
            already_installed: wanted_among(&request.requirements, &request.installed),
            installer: marker.installer,
        })
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |packages: &[Package]| {
            let all = packages.iter();
            all.map(|package| format!("{} {}", package.name, package.version))
                .collect::<Vec<_>>()
                .join(", ")
        };
        if !self.packages.is_empty() {
            write!(out, "Installed {}. ", list(&self.packages))?;
        }
        if !self.already_installed.is_empty() {
            write!(out, "Already there: {}. ", list(&self.already_installed))?;
        }
        if self.installer.ends_with(OUTSIDE_WALLS) {
            let name = self.installer.split(',').next().unwrap_or_default();
            write!(out, "The installer ({name}) ran {OUTSIDE_WALLS}. ")?;
        }
        out.write_str("All variables are as they were.")
    }
}

/// The installed packages whose names the requirements name.
fn wanted_among(requirements: &Requirements, installed: &[Package]) -> Vec<Package> {
    let names: Vec<String> = requirements
        .packages
        .iter()
        .map(|text| normalize_name(name_at_start(text)))
        .collect();
    let is_wanted = |package: &&Package| names.contains(&normalize_name(&package.name));
    installed.iter().filter(is_wanted).cloned().collect()
}

/// What a directory in the store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoredKind {
    /// A Python with packages, in which sessions start.
    Environment,
    /// Packages that were added to running sessions.
    Layer,
}

/// The content of the marker file. It holds no path of the directory, so that the directory can be moved
/// into place after the marker was written.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Marker {
    format: u32,
    pub(crate) kind: StoredKind,
    /// The requirements that it was first made for.
    pub(crate) requirements: Requirements,
    /// The exact versions that the resolver chose.
    pub(crate) lock: Vec<String>,
    pub(crate) interpreter: Interpreter,
    pub(crate) packages: Vec<Package>,
    pub(crate) bytes: u64,
    /// In seconds since 1970.
    pub(crate) made: u64,
    pub(crate) installer: String,
    /// The fingerprint of the machine's fonts at the first import.
    pub(crate) fonts: String,
}

impl Marker {
    /// A marker of the current format and time, without installer and fonts.
    pub(crate) fn new(
        kind: StoredKind,
        request: &InstallRequest,
        lock: &[String],
        packages: Vec<Package>,
        bytes: u64,
    ) -> Self {
        let since_1970 = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            format: MARKER_FORMAT,
            kind,
            requirements: request.requirements.clone(),
            lock: lock.to_owned(),
            interpreter: request.interpreter.clone(),
            packages,
            bytes,
            made: since_1970.as_secs(),
            installer: String::new(),
            fonts: String::new(),
        }
    }

    /// Reads the marker of a directory, if it is complete and belongs to this user or to root.
    pub(crate) fn read(prefix: &Path) -> Option<Self> {
        let file = fs::File::open(prefix.join(MARKER_FILE)).ok()?;
        if !is_trusted(&file.metadata().ok()?) {
            return None;
        }
        let marker: Self = serde_json::from_str(&std::io::read_to_string(file).ok()?).ok()?;
        (marker.format == MARKER_FORMAT).then_some(marker)
    }

    /// Whether the directory holds exactly this lock for this interpreter.
    pub(crate) fn is_for(&self, interpreter: &Interpreter, lock: &[String]) -> bool {
        self.lock == lock && self.interpreter.is_same(interpreter)
    }

    /// Writes the marker in one step: a reader sees the whole marker or none.
    pub(crate) fn write(&self, prefix: &Path) -> Result<(), Error> {
        dirs::write_json(&prefix.join(MARKER_FILE), self)
    }

    fn into_environment(self, prefix: &Path, interpreter: &Interpreter) -> Environment {
        let config = matplotlib_config(prefix);
        Environment {
            python: python_of(prefix),
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

/// The Python of an environment.
pub(crate) fn python_of(prefix: &Path) -> PathBuf {
    prefix.join("bin/python")
}

/// The directory with the packages of an environment.
pub(crate) fn site_packages(prefix: &Path, interpreter: &Interpreter) -> PathBuf {
    let version = interpreter.version;
    let suffix = if interpreter.free_threaded { "t" } else { "" };
    prefix.join(format!(
        "lib/python{}.{}{suffix}/site-packages",
        version.major, version.minor
    ))
}

/// The directory with the packages of a layer.
pub(crate) fn layer_packages(directory: &Path) -> PathBuf {
    directory.join("site-packages")
}

/// The directory with matplotlib's list of fonts in an environment.
pub(crate) fn matplotlib_config(prefix: &Path) -> PathBuf {
    prefix.join("share/cellblock/matplotlib")
}

/// The installed packages, read from the metadata that every installer writes (PEP 376).
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

fn read_beginning(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path).ok()?;
    file.take(MAX_METADATA_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn parse_metadata(text: &str) -> Option<Package> {
    // The headers end at the first empty line; the description below may contain "Name: " as well.
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
