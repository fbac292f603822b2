//! Going back as root in a workspace of another user, in which there are files that are closed to that user.

use super::*;
use crate::files::history::ChangeNotice;
use crate::files::workspace::Workspace;
use rustix::fs::{CWD, Mode, RenameFlags, mkfifoat, renameat_with};
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
    let failed = scene.history.restore_to(1, Changes::default(), &[]);
    assert_eq!(access_of(&secret), (0, 0o700), "{failed:?}");
    assert_eq!(failed.len(), 1, "{failed:?}");
}

fn make_pipe(scene: &Scene, name: &str, owner: u32) {
    mkfifoat(CWD, scene.path(name), Mode::from_raw_mode(0o600)).unwrap();
    chown(scene.path(name), Some(owner), Some(owner)).unwrap();
}

fn owner_of(scene: &Scene, name: &str) -> u32 {
    fs::symlink_metadata(scene.path(name)).unwrap().uid()
}

#[test]
fn a_pipe_of_another_user_under_the_name_of_one_that_a_cell_made_is_not_given_away() {
    let Some(mut scene) = Scene::new() else {
        return;
    };
    make_pipe(&scene, "mine", USER);
    make_pipe(&scene, "secret", 0);
    scene.history.note(1, vec!["mine".into()]);
    scene.history.catch_up();
    scene.exchange("mine", "secret");
    scene.history.note(2, vec!["mine".into()]);
    let failed = scene.history.restore_to(1, Changes::default(), &[]);
    assert_eq!(owner_of(&scene, "mine"), 0, "{failed:?}");
    assert_eq!(failed.len(), 1, "{failed:?}");
}

#[test]
fn a_pipe_that_is_made_again_belongs_to_the_owner_of_the_workspace() {
    let Some(mut scene) = Scene::new() else {
        return;
    };
    make_pipe(&scene, "mine", USER);
    scene.history.note(1, vec!["mine".into()]);
    scene.history.catch_up();
    fs::remove_file(scene.path("mine")).unwrap();
    scene.history.note(2, vec!["mine".into()]);
    let failed = scene.history.restore_to(1, Changes::default(), &[]);
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(owner_of(&scene, "mine"), USER);
}
