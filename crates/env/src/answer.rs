//! What a request was answered with, kept so that the same request needs no resolver the next time.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{Error, Interpreter, Package, Requirements, access, dirs, hash, requirements};

const FORMAT: u32 = 1;

/// A request: packages for an interpreter, beside those that are there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) requirements: Requirements,
    /// Versions that must stay as they are: those of the session that gets a layer.
    pub(crate) there: Vec<Package>,
    pub(crate) interpreter: Interpreter,
}

#[derive(Serialize, Deserialize)]
struct Answer {
    format: u32,
    request: Request,
    lock: Vec<String>,
}

impl Request {
    /// Where its answer is.
    pub(crate) fn file(&self, directory: &Path) -> PathBuf {
        let there: Vec<String> = self.there.iter().map(Package::pinned).collect();
        let there = hash::short_name(there.iter().map(String::as_bytes));
        let key = self.requirements.key(&self.interpreter);
        directory.join(format!("{key}-{there}.json"))
    }

    /// The lock that it led to, if it was answered before.
    pub(crate) fn recall(&self, directory: &Path) -> Option<Vec<String>> {
        let file = fs::File::open(self.file(directory)).ok()?;
        if !access::is_trusted(&file.metadata().ok()?) {
            return None;
        }
        let text = std::io::read_to_string(file).ok()?;
        let answer: Answer = serde_json::from_str(&text).ok()?;
        let same = answer.format == FORMAT
            && answer.request.requirements == self.requirements
            && answer.request.there == self.there
            && answer.request.interpreter.is_same(&self.interpreter);
        same.then_some(answer.lock)
    }

    pub(crate) fn remember(&self, directory: &Path, lock: &[String]) -> Result<(), Error> {
        let answer = Answer {
            format: FORMAT,
            request: self.clone(),
            lock: lock.to_owned(),
        };
        dirs::write_whole(&self.file(directory), &answer)
    }

    /// The name of the directory that holds what the lock says.
    pub(crate) fn directory_name(&self, lock: &[String]) -> String {
        requirements::key(&self.interpreter, lock, &self.requirements.imports)
    }
}

/// Whether an answer's lock is still to be found in one of these directories.
pub(crate) fn leads_somewhere(file: &Path, directories: &[&Path]) -> bool {
    let answer = fs::read(file)
        .ok()
        .and_then(|text| serde_json::from_slice::<Answer>(&text).ok());
    answer.is_some_and(|Answer { request, lock, .. }| {
        let name = request.directory_name(&lock);
        (lock.is_empty() && !request.there.is_empty())
            || directories.iter().any(|d| d.join(&name).is_dir())
    })
}
