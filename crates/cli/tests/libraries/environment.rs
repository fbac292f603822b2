//! The environment that a library is tried in, and the directory that it is made in.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// An environment with some packages. Dropping it removes all that was installed and downloaded for it.
pub(crate) struct Environment {
    /// Names on the package index; none for the default environment.
    pub(crate) requirements: Vec<String>,
    /// In the place of the user's cache, so that no environment of the user's is used or removed.
    cache: Option<TempDir>,
}

impl Environment {
    pub(crate) fn for_requirements(requirements: Vec<String>) -> Environment {
        let cache = (!requirements.is_empty()).then(|| {
            let above = user_cache();
            fs::create_dir_all(&above).unwrap();
            let mut builder = tempfile::Builder::new();
            let builder = builder.prefix("cellblock-libraries-");
            let cache = builder.tempdir_in(above).unwrap();
            fs::write(cache.path().join(REQUIREMENTS), requirements.join("\n")).unwrap();
            cache
        });
        Environment {
            requirements,
            cache,
        }
    }

    /// What a session is told to run in. The environment is made when the first session asks for it.
    pub(crate) fn choice(&self) -> String {
        match &self.cache {
            None => "default".to_owned(),
            Some(cache) => cache.path().join(REQUIREMENTS).display().to_string(),
        }
    }

    pub(crate) fn apply(&self, command: &mut Command) {
        if let Some(cache) = &self.cache {
            command.env("XDG_CACHE_HOME", cache.path());
        }
    }
}

const REQUIREMENTS: &str = "requirements.txt";

/// Below the user's cache and not in `/tmp`: a session has a `/tmp` of its own, and the packages are large.
fn user_cache() -> PathBuf {
    let chosen = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    chosen.unwrap_or_else(|| PathBuf::from(env::var_os("HOME").unwrap()).join(".cache"))
}
