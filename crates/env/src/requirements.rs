//! What an environment shall hold.

use std::os::unix::ffi::OsStrExt;

use serde::{Deserialize, Serialize};

use crate::{Error, Interpreter, hash, requirement::Requirement};

/// The packages of the default environment.
pub const DEFAULT_PACKAGES: [&str; 8] = [
    "numpy",
    "pandas",
    "scipy",
    "matplotlib",
    "networkx",
    "scikit-learn",
    "pydantic",
    "requests",
];

/// What sessions import from it. `matplotlib.font_manager` writes the list of fonts.
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

/// Goes up when environments made earlier can no longer be used.
const FORMAT: &str = "2";
/// More are no list that a person wrote.
const MOST_PACKAGES: usize = 500;

/// A set of packages. The same set, for the same interpreter, is the same environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Requirements {
    /// Names, or names with version ranges as pip writes them; sorted, each once.
    pub packages: Vec<String>,
    /// Modules that must be importable once it is made. They are imported once, so that what they write
    /// at first use is already there.
    pub imports: Vec<String>,
    /// Which versions of Python they are for, such as `>=3.10`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
}

impl Requirements {
    /// numpy, pandas, scipy, matplotlib, networkx, scikit-learn, pydantic and requests.
    pub fn default_set() -> Self {
        Self::new(DEFAULT_PACKAGES).importing(DEFAULT_IMPORTS)
    }

    /// A set of one's own. The order does not matter.
    pub fn new<P: Into<String>>(packages: impl IntoIterator<Item = P>) -> Self {
        let mut packages: Vec<String> = packages.into_iter().map(Into::into).collect();
        packages.sort();
        packages.dedup();
        Self {
            packages,
            imports: Vec::new(),
            python: None,
        }
    }

    /// The same, and what is not the name of a package with a range of versions is refused. For words that others wrote.
    pub fn checked<P: AsRef<str>>(packages: impl IntoIterator<Item = P>) -> Result<Self, Error> {
        let packages = packages
            .into_iter()
            .map(|text| {
                let text = text.as_ref().trim();
                Requirement::parse(text).map(|_| text.to_owned())
            })
            .collect::<Result<Vec<_>, _>>()?;
        if packages.len() > MOST_PACKAGES {
            return Err(Error::BadRequirement {
                text: format!("{} packages", packages.len()),
                why: format!("at most {MOST_PACKAGES} can be asked for at once"),
            });
        }
        Ok(Self::new(packages))
    }

    /// The same, for these versions of Python only.
    #[must_use]
    pub fn for_python(mut self, range: Option<String>) -> Self {
        self.python = range;
        self
    }

    /// Both sets together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let imports = self.imports.into_iter().chain(other.imports);
        let ranges: Vec<String> = self.python.into_iter().chain(other.python).collect();
        Self::new(self.packages.into_iter().chain(other.packages))
            .importing(imports)
            .for_python((!ranges.is_empty()).then(|| ranges.join(",")))
    }

    /// The same, with modules to import once.
    #[must_use]
    pub fn importing<I: Into<String>>(mut self, imports: impl IntoIterator<Item = I>) -> Self {
        self.imports = imports.into_iter().map(Into::into).collect();
        self
    }

    /// The name under which the answer to this request is remembered.
    pub(crate) fn key(&self, interpreter: &Interpreter) -> String {
        key(interpreter, &self.packages, &self.imports)
    }
}

/// A name for these words on this interpreter.
pub(crate) fn key(interpreter: &Interpreter, packages: &[String], imports: &[String]) -> String {
    let version = interpreter.version.to_string();
    let parts = [
        FORMAT.as_bytes(),
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
    format!("python-{version}-{}", hash::short_name(all))
}
