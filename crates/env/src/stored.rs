//! What is stored: listed, named, removed, and kept within a budget.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    Environments, Error, InUse, Kind, Package, Requirements, Version, access, dirs,
    environment::Marker, in_use, lock::Lock, partial::Partial,
};

/// The name of the default set, which nobody else can have.
const DEFAULT: &str = "default";

/// One environment or layer on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Stored {
    /// Its id: the end of its directory's name.
    pub id: String,
    /// What it is.
    pub kind: Kind,
    /// The names that lead to it.
    pub names: Vec<String>,
    /// Where it is.
    pub path: PathBuf,
    /// The Python that it is for.
    #[serde(serialize_with = "version")]
    pub python: Version,
    /// What was asked for.
    pub requirements: Vec<String>,
    /// What is in it.
    pub packages: Vec<Package>,
    /// Its size on disk.
    pub bytes: u64,
    /// With what it was made, and whether that had to run outside of walls.
    pub installer: String,
    /// When it was made, in seconds since 1970.
    pub made: u64,
    /// When it was used last.
    pub used: u64,
    /// Whether some process uses it now.
    pub in_use: bool,
}

fn version<S: serde::Serializer>(version: &Version, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(version)
}

impl Environments {
    /// Everything there is, the last used first.
    pub fn list(&self) -> Vec<Stored> {
        let names = self.names_by_requirements();
        let mut found: Vec<Stored> = [&self.directory, &self.layers]
            .into_iter()
            .flat_map(|directory| fs::read_dir(directory).into_iter().flatten().flatten())
            .filter_map(|entry| stored(&entry.path(), &names))
            .collect();
        found.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.id.cmp(&b.id)));
        found
    }

    /// The one that a name or the beginning of an id leads to.
    pub fn stored(&self, name: &str) -> Result<Stored, Error> {
        let all = self.list();
        let by_name = all.iter().find(|s| s.names.iter().any(|n| n == name));
        let by_id = || {
            let mut fitting = all
                .iter()
                .filter(|s| name.len() >= 4 && s.id.starts_with(name));
            fitting.next().filter(|_| fitting.next().is_none())
        };
        match by_name.or_else(by_id) {
            Some(stored) => Ok(stored.clone()),
            None => Err(self.no_such(name)),
        }
    }

    /// Removes one, with the names that lead to it. Never one that is in use. A name goes alone, and nothing else, where another one leads to
    /// the same.
    pub fn remove(&self, name: &str) -> Result<Option<Stored>, Error> {
        let stored = match self.stored(name) {
            Ok(stored) => stored,
            // A name may lead to something that was removed already.
            Err(_) if self.names.join(format!("{name}.json")).exists() => {
                self.forget_name(name)?;
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let is_its_name = name != DEFAULT && stored.names.iter().any(|own| own == name);
        if is_its_name && stored.names.len() > 1 {
            self.forget_name(name)?;
            return Ok(None);
        }
        if !self.remove_stored(&stored)? {
            return Err(Error::InUse {
                name: name.to_owned(),
            });
        }
        for name in stored.names.iter().filter(|name| *name != DEFAULT) {
            self.forget_name(name)?;
        }
        Ok(Some(stored))
    }

    /// Removes those that were not used for longest, until the rest fits into the budget; those in use stay. Also
    /// what processes that were killed left behind. Returns what went.
    pub fn collect_garbage(&self, budget: u64) -> Result<Vec<Stored>, Error> {
        for directory in [&self.directory, &self.layers, &self.requests, &self.tools] {
            sweep(directory);
        }
        let all = self.list();
        let mut total: u64 = all.iter().map(|stored| stored.bytes).sum();
        let mut gone = Vec::new();
        for stored in all.into_iter().rev() {
            if total <= budget {
                break;
            }
            if self.remove_stored(&stored)? {
                total -= stored.bytes.min(total);
                gone.push(stored);
            }
        }
        self.forget_answers();
        Ok(gone)
    }

    /// Gives a set of packages a name.
    pub fn name(&self, name: &str, requirements: &Requirements) -> Result<(), Error> {
        check_name(name)?;
        if name == DEFAULT {
            return Err(Error::BadName {
                name: name.to_owned(),
            });
        }
        dirs::create(&self.names)?;
        dirs::write_whole(&self.names.join(format!("{name}.json")), requirements)
    }

    /// The set of packages that has this name.
    pub fn named(&self, name: &str) -> Result<Requirements, Error> {
        check_name(name)?;
        if name == DEFAULT {
            return Ok(Requirements::default_set());
        }
        self.read_name(&self.names.join(format!("{name}.json")))
            .ok_or_else(|| self.no_such(name))
    }

    /// The names there are, in order.
    pub fn all_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.each_name().map(|(name, _)| name).collect();
        names.sort();
        names
    }

    fn each_name(&self) -> impl Iterator<Item = (String, Requirements)> {
        let entries = fs::read_dir(&self.names).into_iter().flatten().flatten();
        entries.filter_map(|entry| {
            let path = entry.path();
            let file = path.file_name()?.to_str()?.strip_suffix(".json")?;
            let requirements = self.read_name(&path)?;
            (!file.starts_with('.')).then(|| (file.to_owned(), requirements))
        })
    }

    fn read_name(&self, path: &Path) -> Option<Requirements> {
        let file = fs::File::open(path).ok()?;
        if !access::is_trusted(&file.metadata().ok()?) {
            return None;
        }
        serde_json::from_reader(file).ok()
    }

    fn forget_name(&self, name: &str) -> Result<(), Error> {
        let path = self.names.join(format!("{name}.json"));
        fs::remove_file(&path).map_err(|source| Error::io("remove", &path, source))
    }

    fn no_such(&self, name: &str) -> Error {
        Error::NoSuchEnvironment {
            name: name.to_owned(),
            there: self.all_names(),
        }
    }

    /// By the text of the requirements, which the marker has too.
    fn names_by_requirements(&self) -> BTreeMap<String, Vec<String>> {
        let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let default = (DEFAULT.to_owned(), Requirements::default_set());
        for (name, requirements) in self.each_name().chain([default]) {
            names
                .entry(requirements.packages.join("\n"))
                .or_default()
                .push(name);
        }
        names.values_mut().for_each(|names| names.sort());
        names
    }

    /// False when it is in use.
    fn remove_stored(&self, stored: &Stored) -> Result<bool, Error> {
        // Not while it is being made, either.
        if Lock::is_taken(&Lock::of(&stored.path)) {
            return Ok(false);
        }
        let Some(_alone) = InUse::none(&stored.path) else {
            return Ok(false);
        };
        // Away in one step: nobody ever sees a part of it.
        let partial = Partial::of(&stored.path);
        fs::rename(&stored.path, partial.path())
            .map_err(|source| Error::io("remove", &stored.path, source))?;
        dirs::remove(partial.path())?;
        let _ = fs::remove_file(in_use::place(&stored.path));
        Ok(true)
    }

    /// Answers that lead nowhere any more are no answers.
    fn forget_answers(&self) {
        for entry in fs::read_dir(&self.requests).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|e| e == "json")
                && !Lock::is_taken(&Lock::of(&path))
                && !crate::answer::leads_somewhere(&path, &[&self.directory, &self.layers])
            {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

fn stored(path: &Path, names: &BTreeMap<String, Vec<String>>) -> Option<Stored> {
    let name = path.file_name()?.to_str()?;
    if name.starts_with('.') {
        return None;
    }
    let marker = Marker::read(path)?;
    let named = match marker.kind {
        Kind::Environment => names.get(&marker.requirements.packages.join("\n")).cloned(),
        Kind::Layer => None,
    };
    Some(Stored {
        id: name.rsplit('-').next()?.to_owned(),
        kind: marker.kind,
        names: named.unwrap_or_default(),
        path: path.to_owned(),
        python: marker.interpreter.version,
        requirements: marker.requirements.packages,
        packages: marker.packages,
        bytes: marker.bytes,
        installer: marker.installer,
        made: marker.made,
        used: InUse::last(path).unwrap_or(0).max(marker.made),
        in_use: InUse::is_there(path),
    })
}

/// Removes half-made directories whose makers are gone: nobody holds their lock.
fn sweep(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(target) = name
            .to_str()
            .and_then(|name| name.strip_prefix('.')?.split_once(".partial-"))
        else {
            continue;
        };
        if !Lock::is_taken(&Lock::of(&directory.join(target.0))) {
            let _ = dirs::remove(&entry.path());
        }
    }
}

/// A name is a word: it is told from a file by that, and becomes a file's name.
fn check_name(name: &str) -> Result<(), Error> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if (1..=64).contains(&name.len()) && !name.starts_with('-') && name.chars().all(good) {
        return Ok(());
    }
    Err(Error::BadName {
        name: name.chars().take(80).collect(),
    })
}
