//! What an environment shall hold.

use std::os::unix::ffi::OsStrExt;

use serde::{Deserialize, Serialize};

use crate::{Interpreter, hash};

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
const FORMAT: &str = "1";

/// A set of packages. The same set, for the same interpreter, is the same environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Requirements {
    /// Names, or names with version ranges as pip writes them; sorted, each once.
    pub packages: Vec<String>,
    /// Modules that must be importable once it is made. They are imported once, so that what they write
    /// at first use is already there.
    pub imports: Vec<String>,
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
        }
    }

    /// The same, with modules to import once.
    #[must_use]
    pub fn importing<I: Into<String>>(mut self, imports: impl IntoIterator<Item = I>) -> Self {
        self.imports = imports.into_iter().map(Into::into).collect();
        self
    }

    /// The name of the environment's directory.
    pub(crate) fn key(&self, interpreter: &Interpreter) -> String {
        let version = interpreter.version.to_string();
        let parts = [
            FORMAT.as_bytes(),
            version.as_bytes(),
            interpreter.executable.as_os_str().as_bytes(),
            // A home directory may be shared between machines of different kinds.
            interpreter.platform.as_bytes(),
            interpreter.soabi.as_bytes(),
        ];
        let packages = self.packages.iter().map(String::as_bytes);
        let imports = self.imports.iter().map(String::as_bytes);
        let all = parts
            .into_iter()
            .chain(packages)
            .chain([&b""[..]])
            .chain(imports);
        format!("python-{version}-{}", hash::short_name(all))
    }
}
