//! Which place of a session's view a path is in.

use crate::Error;
use std::path::{Component, Path, PathBuf};

/// Places of a session's view, beside the workspace, in which its user can write.
const WRITABLE: [&str; 2] = ["tmp", "dev/shm"];

/// Whether a path is to be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathAccess {
    Read,
    Write,
}

/// A directory of the session, and a path below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundPath {
    /// The directory, relative to the session's root; `None` for the workspace.
    pub(super) directory: Option<PathBuf>,
    pub(super) path: PathBuf,
}

/// Where things are for the code of a session.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// The path of the workspace, as code knows it.
    pub(crate) workspace: PathBuf,
    /// Whether the session has a root of its own. Without one, only the workspace is known to be the session's.
    pub(crate) has_view: bool,
}

impl Layout {
    /// Finds the place of an absolute path. `..` is taken away by the text alone: no link is looked at.
    pub(super) fn find(&self, path: &str, access: PathAccess) -> Result<FoundPath, Error> {
        let refuse = |problem: &str| {
            let kind = std::io::ErrorKind::InvalidInput;
            Err(Error::path(path, std::io::Error::new(kind, problem)))
        };
        if !path.starts_with('/') || path.contains('\0') {
            return refuse("expected an absolute path, such as /tmp/x");
        }
        let full = without_dots(Path::new(path));
        if let Ok(below) = full.strip_prefix(&self.workspace) {
            return Ok(FoundPath {
                directory: None,
                path: below.to_owned(),
            });
        }
        if !self.has_view {
            return refuse(
                "this session has no root of its own: only its workspace can be reached",
            );
        }
        let relative = full.strip_prefix("/").unwrap_or(&full);
        for place in WRITABLE {
            if let Ok(below) = relative.strip_prefix(place) {
                return Ok(FoundPath {
                    directory: Some(PathBuf::from(place)),
                    path: below.to_owned(),
                });
            }
        }
        match access {
            // The host may look into processes that are closed to the session: init and the standbys. What it opens for a caller would show them.
            PathAccess::Read if relative.starts_with("proc") => refuse(
                "files of /proc are not read from outside; code of the session can read them",
            ),
            PathAccess::Read => Ok(FoundPath {
                directory: Some(PathBuf::new()),
                path: relative.to_owned(),
            }),
            PathAccess::Write => refuse(
                "a session can write to its workspace, to /tmp and to /dev/shm; everything else is read-only",
            ),
        }
    }
}

fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn layout(has_view: bool) -> Layout {
        Layout {
            workspace: "/workspace".into(),
            has_view,
        }
    }

    fn found(path: &str) -> (Option<PathBuf>, PathBuf) {
        let place = layout(true).find(path, PathAccess::Read).unwrap();
        (place.directory, place.path)
    }

    #[test]
    fn a_path_is_in_the_workspace_in_a_writable_place_or_elsewhere() {
        assert_eq!(found("/workspace/a/b"), (None, "a/b".into()));
        assert_eq!(found("/workspace"), (None, "".into()));
        assert_eq!(found("/tmp/../workspace/./a"), (None, "a".into()));
        assert_eq!(found("/tmp/a"), (Some("tmp".into()), "a".into()));
        assert_eq!(found("/dev/shm/a"), (Some("dev/shm".into()), "a".into()));
        assert_eq!(found("/workspaces"), (Some("".into()), "workspaces".into()));
        assert_eq!(found("/../../usr"), (Some("".into()), "usr".into()));
    }

    #[test]
    fn what_is_neither_absolute_nor_writable_is_refused() {
        for path in ["", "a", "./a", "../a", "/tmp/\0"] {
            assert!(
                layout(true).find(path, PathAccess::Read).is_err(),
                "{path:?}"
            );
        }
        for path in ["/proc", "/proc/1/mem", "/tmp/../proc/1/maps", "//proc/./1"] {
            assert!(
                layout(true).find(path, PathAccess::Read).is_err(),
                "{path:?}"
            );
        }
        assert!(layout(true).find("/usr/x", PathAccess::Write).is_err());
        assert!(
            layout(true)
                .find("/tmp/../etc/x", PathAccess::Write)
                .is_err()
        );
        assert!(layout(false).find("/tmp/x", PathAccess::Read).is_err());
    }
}
