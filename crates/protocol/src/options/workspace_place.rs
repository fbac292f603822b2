//! The path of the workspace, as code of a session knows it.

use std::fmt;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json::fields::Field;
use crate::json::invalid::{Invalid, shown_text};

/// The longest path of a workspace inside a session.
const MAX_PLACE_BYTES: usize = 255;

/// Directories at the root of a session that hold something else.
const TAKEN: [&str; 15] = [
    "bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys",
    "tmp", "usr", "var",
];

/// The path of the workspace, as code of a session knows it: `/workspace`, unless another was chosen.
///
/// The working directory of every cell begins there, and the account of the session has its home there. A workspace directly
/// below `/home` is a home: `HOME` is that path, and the account has the name of the directory.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WorkspacePlace(String);

impl WorkspacePlace {
    /// Checks a path. It must be absolute, without `.`, `..`, links or odd characters, and in no directory of the system.
    pub fn new(path: impl Into<String>) -> Result<Self, Invalid> {
        let path = path.into();
        if is_fit(&path) {
            return Ok(Self(path));
        }
        Err(Invalid::value(
            "workspace_at",
            Self::EXPECTED,
            shown_text(&path),
        ))
    }

    /// The path.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path, as a path.
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }

    /// Whether the place is the one that sessions have where none was chosen.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The name of the account whose home the workspace is, where it is directly below `/home`.
    pub fn home_of(&self) -> Option<&str> {
        self.0
            .strip_prefix("/home/")
            .filter(|name| !name.contains('/'))
    }

    /// The name of the session's account.
    pub fn user_name(&self) -> &str {
        self.home_of().unwrap_or("user")
    }
}

/// The path becomes a line of `/etc/passwd`, and a directory between those of the system.
fn is_fit(path: &str) -> bool {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '+' | '@');
    let mut parts = Path::new(path).components();
    let is_root = parts.next() == Some(Component::RootDir);
    let Some(Component::Normal(first)) = parts.next() else {
        return false;
    };
    is_root
        && path.len() <= MAX_PLACE_BYTES
        && path.chars().all(is_plain)
        && path
            .split('/')
            .skip(1)
            .all(|part| !matches!(part, "" | "." | ".."))
        && !TAKEN.iter().any(|taken| first == *taken)
        && path != "/home"
}

impl Default for WorkspacePlace {
    fn default() -> Self {
        Self("/workspace".to_owned())
    }
}

impl fmt::Display for WorkspacePlace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&self.0)
    }
}

impl std::str::FromStr for WorkspacePlace {
    type Err = Invalid;

    fn from_str(path: &str) -> Result<Self, Invalid> {
        Self::new(path)
    }
}

impl TryFrom<String> for WorkspacePlace {
    type Error = Invalid;

    fn try_from(path: String) -> Result<Self, Invalid> {
        Self::new(path)
    }
}

impl From<WorkspacePlace> for String {
    fn from(place: WorkspacePlace) -> String {
        place.0
    }
}

impl Field for WorkspacePlace {
    const EXPECTED: &'static str = "an absolute path such as /home/user or /mnt/data, of letters, digits and . _ - + @, in no directory of the system";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        value
            .as_str()
            .and_then(|path| Self::new(path).ok())
            .ok_or_else(|| Self::refuse(name, &value))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_place_is_an_absolute_path_outside_the_system() {
        for good in [
            "/workspace",
            "/home/user",
            "/mnt/data",
            "/a/b.c/d-e_f",
            "/home/a/b",
        ] {
            assert_eq!(WorkspacePlace::new(good).unwrap().as_str(), good);
        }
        let long = format!("/{}", "a".repeat(MAX_PLACE_BYTES));
        for bad in [
            "", "/", "a", "./a", "/a/", "//a", "/a//b", "/a/../b", "/a/./b", "/usr/x", "/tmp",
            "/tmp/x", "/etc", "/home", "/a b", "/a:b", "/a\nb", "/a\0b", "/\u{e4}", &long,
        ] {
            assert!(WorkspacePlace::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_directory_directly_below_home_names_the_account() {
        let place = |path: &str| WorkspacePlace::new(path).unwrap();
        assert_eq!(place("/home/ada").user_name(), "ada");
        assert_eq!(place("/home/ada/work").user_name(), "user");
        assert_eq!(place("/mnt/data").home_of(), None);
        assert_eq!(WorkspacePlace::default().user_name(), "user");
    }
}
