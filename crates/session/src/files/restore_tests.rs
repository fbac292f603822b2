//! Going back as root in a workspace of another user, in which there are files that are closed to that user.

use super::*;
use crate::files::history::ChangeNotice;
use crate::files::workspace::Workspace;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::sync::Arc;
use tempfile::TempDir;

/// The owner of the workspace.
const USER: u32 = 4711;

struct Scene {
    history: FileHistory,
    _place: TempDir,
}

impl Scene {
    /// `None` for an ordinary user, who can give nothing away.
    fn new() -> Option<Scene> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root gives files to others");
            return None;
        }
        let place = tempfile::tempdir().unwrap();
        let workspace = Arc::new(Workspace::fresh(place.path(), "test").unwrap());
        chown(workspace.path(), Some(USER), Some(USER)).unwrap();
        let store = place.path().join("store");
        let never = ChangeNotice::Never;
        let history = FileHistory::new(workspace, store, 1 << 20, &BTreeMap::new(), never);
        Some(Scene {
            history,
            _place: place,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.history.workspace.path().join(name)
    }

    fn exchange(&self, one: &str, other: &str) {
        let (one, other) = (self.path(one), self.path(other));
        renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
    }

    /// Makes something root's alone.
    fn close(&self, name: &str) {
        fs::set_permissions(self.path(name), Permissions::from_mode(0o700)).unwrap();
    }
}

fn access_of(file: &File) -> (u32, u32) {
    let found = file.metadata().unwrap();
    (found.uid(), found.mode() & 0o777)
}

#[test]
fn a_directory_of_another_user_under_the_name_of_one_that_a_cell_made_is_not_given_away() {
    let Some(mut scene) = Scene::new() else {
        return;
    };
    fs::create_dir(scene.path("mine")).unwrap();
    chown(scene.path("mine"), Some(USER), Some(USER)).unwrap();
    fs::create_dir(scene.path("secret")).unwrap();
    fs::write(scene.path("secret/file"), "precious").unwrap();
    scene.close("secret");
    let secret = File::open(scene.path("secret")).unwrap();
    scene.history.note(1, vec!["mine".into()]);
    scene.history.catch_up();
    scene.exchange("mine", "secret");
    scene.history.note(2, vec!["mine".into()]);
    let failed = scene.history.go_back(1, Changes::default(), &[]);
    assert_eq!(access_of(&secret), (0, 0o700), "{failed:?}");
    assert_eq!(failed.len(), 1, "{failed:?}");
}
