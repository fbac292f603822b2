//! Sets of packages: written by hand, or read from requirements files, `pyproject.toml` and the headers of
//! scripts (PEP 723).

mod requirement;

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};

use crate::Error;

pub(crate) use requirement::{Requirement, is_python_in_range, name_at_start, normalize_name};

/// The packages of the default environment. `zhplot` is there for its font: charts with Chinese text are right on a machine without one.
pub const DEFAULT_PACKAGES: [&str; 12] = [
    "numpy",
    "pandas",
    "scipy",
    "matplotlib",
    "networkx",
    "scikit-learn",
    "pydantic",
    "requests",
    "beautifulsoup4",
    "lxml",
    "openpyxl",
    "zhplot",
];

/// The modules of the default environment that sessions import. `matplotlib.font_manager` writes the list of
/// fonts.
const DEFAULT_IMPORTS: [&str; 9] = [
    "numpy",
    "pandas",
    "scipy.stats",
    "matplotlib.font_manager",
    "matplotlib.pyplot",
    "networkx",
    "sklearn.linear_model",
    "pydantic",
    "requests",
];

/// A longer list of packages is refused.
const MAX_PACKAGES: usize = 500;
/// A larger file is no list of packages.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// How deep requirements files may include each other.
const MAX_INCLUDE_DEPTH: usize = 8;

/// A set of packages. The same set for the same interpreter is the same environment.
///
/// ```
/// use cellblock_env::Requirements;
///
/// let wanted = Requirements::parse(["numpy>=2", "pandas[excel]"])?;
/// assert_eq!(wanted.packages, ["numpy>=2", "pandas[excel]"]);
/// assert!(Requirements::parse(["./my-package"]).is_err());
/// # Ok::<(), cellblock_env::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Requirements {
    /// Names of packages, each perhaps with a range of versions (PEP 508); sorted, each once.
    pub packages: Vec<String>,
    /// Modules that are imported once when the environment is made. The import must succeed, and the files
    /// that a module writes at its first use exist afterwards.
    pub imports: Vec<String>,
    /// The range of Pythons that the packages are for, such as `>=3.10`.
    #[serde(default, rename = "python", skip_serializing_if = "Option::is_none")]
    pub requires_python: Option<String>,
}

impl Requirements {
    /// The default set: numpy, pandas, scipy, matplotlib, networkx, scikit-learn, pydantic, requests, beautifulsoup4,
    /// lxml, openpyxl, and a font with Chinese glyphs.
    pub fn default_set() -> Self {
        Self::new(DEFAULT_PACKAGES).with_imports(DEFAULT_IMPORTS)
    }

    /// A set from texts that the program itself wrote. The order does not matter.
    ///
    /// The texts are not checked: an installer takes options, paths and addresses too. Use
    /// [`Requirements::parse`] for a text from a user, a file or a model.
    pub fn new<P: Into<String>>(packages: impl IntoIterator<Item = P>) -> Self {
        let mut packages: Vec<String> = packages.into_iter().map(Into::into).collect();
        packages.sort();
        packages.dedup();
        Self {
            packages,
            imports: Vec::new(),
            requires_python: None,
        }
    }

    /// A set from texts that are not trusted: each must be the name of a package on an index, perhaps
    /// with extras, a range of versions and a marker.
    ///
    /// # Errors
    ///
    /// [`Error::BadRequirement`] for an option, a path, an address, a reference to an environment variable,
    /// or a malformed range.
    pub fn parse<P: AsRef<str>>(packages: impl IntoIterator<Item = P>) -> Result<Self, Error> {
        let packages = packages
            .into_iter()
            .map(|text| {
                let text = text.as_ref().trim();
                Requirement::parse(text).map(|_| text.to_owned())
            })
            .collect::<Result<Vec<_>, _>>()?;
        if packages.len() > MAX_PACKAGES {
            return Err(Error::BadRequirement {
                text: format!("{} packages", packages.len()),
                why: format!("at most {MAX_PACKAGES} can be asked for at once"),
            });
        }
        Ok(Self::new(packages))
    }

    /// The same set for a range of Pythons only; `None` for every Python.
    #[must_use]
    pub fn requires_python(mut self, range: Option<String>) -> Self {
        self.requires_python = range;
        self
    }

    /// The packages, imports and ranges of Pythons of both sets.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        let imports = self.imports.into_iter().chain(other.imports);
        let ranges = self.requires_python.into_iter();
        let ranges: Vec<String> = ranges.chain(other.requires_python).collect();
        Self::new(self.packages.into_iter().chain(other.packages))
            .with_imports(imports)
            .requires_python((!ranges.is_empty()).then(|| ranges.join(",")))
    }

    /// The same set with modules to import once.
    #[must_use]
    pub fn with_imports<I: Into<String>>(mut self, imports: impl IntoIterator<Item = I>) -> Self {
        self.imports = imports.into_iter().map(Into::into).collect();
        self
    }

    /// Reads a set from a file: `pyproject.toml`, a script with a header, else a requirements file of pip.
    ///
    /// # Errors
    ///
    /// [`Error::BadFile`] names the file and, for a requirements file, the line.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        let text = read(path)?;
        let extension = path.extension().and_then(|e| e.to_str());
        match extension {
            Some("toml") => Self::from_pyproject(&text).map_err(|why| bad_file(path, why)),
            Some("py") => match Self::from_script(&text)? {
                Some(found) => Ok(found),
                None => Err(bad_file(
                    path,
                    "it has no header with dependencies (PEP 723: a comment block that begins with `# /// script`)",
                )),
            },
            _ => {
                let mut packages = Vec::new();
                collect(path, &text, 0, &mut packages)?;
                Self::parse(packages)
            }
        }
    }

    /// Reads the dependencies in the header of a script (PEP 723); `None` where the script has no header.
    pub fn from_script(code: &str) -> Result<Option<Self>, Error> {
        let Some(header) = script_header(code) else {
            return Ok(None);
        };
        let header: ScriptHeader = toml::from_str(&header).map_err(|error| Error::BadHeader {
            why: error.message().to_owned(),
        })?;
        let found = Self::parse(header.dependencies)?;
        Ok(Some(found.requires_python(header.requires_python)))
    }

    fn from_pyproject(text: &str) -> Result<Self, String> {
        let file: Pyproject = toml::from_str(text).map_err(|error| error.to_string())?;
        let project = file.project.ok_or("it has no table [project]")?;
        if project.dynamic.iter().any(|name| name == "dependencies") {
            return Err(
                "its dependencies are dynamic: only a build of the project could tell them"
                    .to_owned(),
            );
        }
        let found = Self::parse(project.dependencies).map_err(|error| error.to_string())?;
        Ok(found.requires_python(project.requires_python))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ScriptHeader {
    #[serde(default)]
    dependencies: Vec<String>,
    requires_python: Option<String>,
}

#[derive(Deserialize)]
struct Pyproject {
    project: Option<Project>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Project {
    #[serde(default)]
    dependencies: Vec<String>,
    #[serde(default)]
    dynamic: Vec<String>,
    requires_python: Option<String>,
}

/// The TOML between `# /// script` and `# ///`. A block without an end is no header.
fn script_header(code: &str) -> Option<String> {
    let mut lines = code
        .lines()
        .skip_while(|line| line.trim_end() != "# /// script")
        .skip(1);
    let mut text = String::new();
    loop {
        let line = lines.next()?.trim_end();
        if line == "# ///" {
            return Some(text);
        }
        let inside = match line.strip_prefix('#') {
            Some("") => "",
            Some(rest) => rest.strip_prefix(' ')?,
            None => return None,
        };
        text.push_str(inside);
        text.push('\n');
    }
}

/// Collects the requirements of a requirements file and of the files that it includes.
fn collect(path: &Path, text: &str, depth: usize, found: &mut Vec<String>) -> Result<(), Error> {
    let joined = text.replace("\\\r\n", " ").replace("\\\n", " ");
    for (number, line) in joined.lines().enumerate() {
        let line = without_comment(line).trim();
        if line.is_empty() {
            continue;
        }
        let option = line
            .strip_prefix("--requirement")
            .or(line.strip_prefix("-r"));
        if let Some(other) = option {
            let other = other.trim_start_matches(['=', ' ', '\t']);
            if depth == MAX_INCLUDE_DEPTH {
                return Err(bad_file(path, "files include each other too deeply"));
            }
            let other = path.parent().unwrap_or(Path::new("")).join(other);
            let text = read(&other)?;
            collect(&other, &text, depth + 1, found)?;
            continue;
        }
        // Hashes of the packages' files are not checked: the lock has the versions.
        let line = line.split(" --hash").next().unwrap_or(line);
        Requirement::parse(line)
            .map_err(|error| bad_file(path, format!("line {}: {error}", number + 1)))?;
        found.push(line.trim().to_owned());
    }
    Ok(())
}

fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with('#') {
        return "";
    }
    line.split(" #").next().unwrap_or(line)
}

fn read(path: &Path) -> Result<String, Error> {
    let failed = |source| Error::io("read", path, source);
    let metadata = fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(bad_file(path, "it is not a file"));
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(bad_file(path, "it is larger than 1 MiB"));
    }
    let bytes = fs::read(path).map_err(failed)?;
    String::from_utf8(bytes).map_err(|_| bad_file(path, "it is not UTF-8"))
}

fn bad_file(path: &Path, why: impl Into<String>) -> Error {
    Error::BadFile {
        path: path.to_owned(),
        why: why.into(),
    }
}
