//! The directories of the store: listed, named, removed, and kept within a disk budget.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    Environments, Error, Package, PythonVersion, Requirements, StoredKind, dirs,
    store::{FileLock, InUseLock, Marker, PartialDirectory, request::is_lock_usable},
    variables::is_trusted,
};

/// The name of the default set of packages. A user cannot give it to another set.
const DEFAULT_NAME: &str = "default";
/// The fewest characters of an id that find a directory.
const MIN_ID_CHARS: usize = 4;

/// One environment or layer on disk. As JSON it is what `cellblock env list --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StoredEnvironment {
    /// The id: the end of the directory's name.
    pub id: String,
    /// An environment or a layer.
    pub kind: StoredKind,
    /// The names that the user gave to its set of packages.
    pub names: Vec<String>,
    /// The directory.
    pub path: PathBuf,
    /// The version of its Python.
    #[serde(serialize_with = "serialize_version")]
    pub python: PythonVersion,
    /// The requirements that it was first made for.
    pub requirements: Vec<String>,
    /// The packages in it.
    pub packages: Vec<Package>,
    /// The size on disk.
    pub bytes: u64,
    /// The installer with its version, and whether it ran outside of walls.
    pub installer: String,
    /// When it was made, in seconds since 1970.
    pub made: u64,
    /// When it was used last, in seconds since 1970.
    pub used: u64,
    /// Whether a process uses it now.
    pub in_use: bool,
}

fn serialize_version<S: serde::Serializer>(
    version: &PythonVersion,
    out: S,
) -> Result<S::Ok, S::Error> {
    out.collect_str(version)
}

impl Environments {
    /// Every environment and layer, the last used first.
    pub fn list(&self) -> Vec<StoredEnvironment> {
        let names = self.names_by_packages();
        let mut all: Vec<StoredEnvironment> = [&self.directory, &self.layers]
            .into_iter()
            .flat_map(|directory| fs::read_dir(directory).into_iter().flatten().flatten())
            .filter_map(|entry| read_stored(&entry.path(), &names))
            .collect();
        all.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.id.cmp(&b.id)));
        all
    }

    /// The environment or layer that has this name, or whose id begins with this text (at least four
    /// characters, and only one id may fit).
    pub fn find(&self, name: &str) -> Result<StoredEnvironment, Error> {
        let all = self.list();
        let by_name = all.iter().find(|s| s.names.iter().any(|n| n == name));
        let by_id = || {
            let mut fitting = all
                .iter()
                .filter(|s| name.len() >= MIN_ID_CHARS && s.id.starts_with(name));
            fitting.next().filter(|_| fitting.next().is_none())
        };
        match by_name.or_else(by_id) {
            Some(stored) => Ok(stored.clone()),
            None => Err(self.no_such(name)),
        }
    }

    /// Removes an environment or layer with its names, and returns it. Where another name leads to the same
    /// environment, only this name is removed, and the answer is `None`.
    ///
    /// # Errors
    ///
    /// [`Error::InUse`] while a process uses it.
    pub fn remove(&self, name: &str) -> Result<Option<StoredEnvironment>, Error> {
        let stored = match self.find(name) {
            Ok(stored) => stored,
            // The environment of a name may be removed already.
            Err(_) if self.name_file(name).exists() => {
                self.remove_name(name)?;
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let is_own_name = name != DEFAULT_NAME && stored.names.iter().any(|own| own == name);
        if is_own_name && stored.names.len() > 1 {
            self.remove_name(name)?;
            return Ok(None);
        }
        if self.remove_stored(&stored)? == Removal::InUse {
            return Err(Error::InUse {
                name: name.to_owned(),
            });
        }
        for name in stored.names.iter().filter(|name| *name != DEFAULT_NAME) {
            self.remove_name(name)?;
        }
        Ok(Some(stored))
    }

    /// Removes the least recently used environments and layers until the rest takes at most `budget_bytes`;
    /// those in use stay. Removes also what killed processes left unfinished. Returns what was removed.
    pub fn collect_garbage(&self, budget_bytes: u64) -> Result<Vec<StoredEnvironment>, Error> {
        for directory in [&self.directory, &self.layers, &self.requests, &self.tools] {
            PartialDirectory::remove_abandoned(directory);
        }
        let all = self.list();
        let mut total: u64 = all.iter().map(|stored| stored.bytes).sum();
        let mut removed = Vec::new();
        for stored in all.into_iter().rev() {
            if total <= budget_bytes {
                break;
            }
            if self.remove_stored(&stored)? == Removal::Done {
                total -= stored.bytes.min(total);
                removed.push(stored);
            }
        }
        self.remove_unusable_locks();
        Ok(removed)
    }

    /// Gives a set of packages a name. A name that exists is given to the new set.
    pub fn save_name(&self, name: &str, requirements: &Requirements) -> Result<(), Error> {
        check_name(name)?;
        if name == DEFAULT_NAME {
            return Err(Error::BadName {
                name: name.to_owned(),
            });
        }
        dirs::create(&self.names)?;
        dirs::write_json(&self.name_file(name), requirements)
    }

    /// The set of packages that has this name.
    pub fn requirements_named(&self, name: &str) -> Result<Requirements, Error> {
        check_name(name)?;
        if name == DEFAULT_NAME {
            return Ok(Requirements::default_set());
        }
        read_requirements(&self.name_file(name)).ok_or_else(|| self.no_such(name))
    }

    /// All names, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.named_sets().map(|(name, _)| name).collect();
        names.sort();
        names
    }

    fn named_sets(&self) -> impl Iterator<Item = (String, Requirements)> {
        let entries = fs::read_dir(&self.names).into_iter().flatten().flatten();
        entries.filter_map(|entry| {
            let path = entry.path();
            let name = path.file_name()?.to_str()?.strip_suffix(".json")?;
            let requirements = read_requirements(&path)?;
            (!name.starts_with('.')).then(|| (name.to_owned(), requirements))
        })
    }

    fn name_file(&self, name: &str) -> PathBuf {
        self.names.join(format!("{name}.json"))
    }

    fn remove_name(&self, name: &str) -> Result<(), Error> {
        let path = self.name_file(name);
        fs::remove_file(&path).map_err(|source| Error::io("remove", &path, source))
    }

    fn no_such(&self, name: &str) -> Error {
        Error::NoSuchEnvironment {
            name: name.to_owned(),
            known: self.names(),
        }
    }

    /// The names of each set of packages. The key is the text of the packages, which the marker has too.
    fn names_by_packages(&self) -> BTreeMap<String, Vec<String>> {
        let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let default = (DEFAULT_NAME.to_owned(), Requirements::default_set());
        for (name, requirements) in self.named_sets().chain([default]) {
            names
                .entry(requirements.packages.join("\n"))
                .or_default()
                .push(name);
        }
        names.values_mut().for_each(|names| names.sort());
        names
    }

    fn remove_stored(&self, stored: &StoredEnvironment) -> Result<Removal, Error> {
        // Also not while it is being made.
        if FileLock::is_held(&FileLock::path_for(&stored.path)) {
            return Ok(Removal::InUse);
        }
        let Some(_exclusive) = InUseLock::acquire_for_removal(&stored.path) else {
            return Ok(Removal::InUse);
        };
        // Moved away in one step: no process ever sees a part of it.
        let partial = PartialDirectory::beside(&stored.path);
        fs::rename(&stored.path, partial.path())
            .map_err(|source| Error::io("remove", &stored.path, source))?;
        dirs::remove(partial.path())?;
        let _ = fs::remove_file(InUseLock::path_for(&stored.path));
        Ok(Removal::Done)
    }

    /// Removes the saved locks of packages that do not exist any more.
    fn remove_unusable_locks(&self) {
        for entry in fs::read_dir(&self.requests).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|e| e == "json")
                && !FileLock::is_held(&FileLock::path_for(&path))
                && !is_lock_usable(&path, &[&self.directory, &self.layers])
            {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Removal {
    Done,
    InUse,
}

fn read_requirements(path: &Path) -> Option<Requirements> {
    let file = fs::File::open(path).ok()?;
    if !is_trusted(&file.metadata().ok()?) {
        return None;
    }
    serde_json::from_reader(file).ok()
}

fn read_stored(path: &Path, names: &BTreeMap<String, Vec<String>>) -> Option<StoredEnvironment> {
    let name = path.file_name()?.to_str()?;
    if name.starts_with('.') {
        return None;
    }
    let marker = Marker::read(path)?;
    let names = match marker.kind {
        StoredKind::Environment => names.get(&marker.requirements.packages.join("\n")).cloned(),
        StoredKind::Layer => None,
    };
    Some(StoredEnvironment {
        id: name.rsplit('-').next()?.to_owned(),
        kind: marker.kind,
        names: names.unwrap_or_default(),
        path: path.to_owned(),
        python: marker.interpreter.version,
        requirements: marker.requirements.packages,
        packages: marker.packages,
        bytes: marker.bytes,
        installer: marker.installer,
        made: marker.made,
        used: InUseLock::last_used(path).unwrap_or(0).max(marker.made),
        in_use: InUseLock::is_held(path),
    })
}

/// Refuses what cannot be the name of an environment. A name is told from a file by its characters, and
/// becomes the name of a file.
fn check_name(name: &str) -> Result<(), Error> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if (1..=64).contains(&name.len()) && !name.starts_with('-') && name.chars().all(is_allowed) {
        return Ok(());
    }
    Err(Error::BadName {
        name: name.chars().take(80).collect(),
    })
}
