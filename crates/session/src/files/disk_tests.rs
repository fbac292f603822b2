use super::*;
use crate::files::history::{ChangeNotice, FileHistory};
use crate::files::watch::Watcher;
use crate::files::workspace::Workspace;
use std::collections::BTreeMap;
use tempfile::TempDir;

struct Scene {
    disk: Disk,
    history: SharedHistory,
    _place: TempDir,
}

impl Scene {
    fn new() -> Scene {
        let place = tempfile::tempdir().unwrap();
        let workspace = Arc::new(Workspace::fresh(place.path(), "test").unwrap());
        let (store, never) = (place.path().join("store"), ChangeNotice::Never);
        let files = FileHistory::new(Arc::clone(&workspace), store, 0, &BTreeMap::new(), never);
        let history = SharedHistory::new(files);
        let processes = Processes::of_container(None, workspace.path());
        let tracker = Tracker::new(workspace, &Watcher::new());
        Scene {
            disk: Disk::new(tracker, None, processes, history.clone()),
            history,
            _place: place,
        }
    }

    /// Why the state of the session would come back without some of its files.
    fn reason(&self) -> Option<String> {
        self.history.lock().unrestorable_reason()
    }

    /// A look at the files fails in the host.
    fn fail(&self) {
        let tracker = Arc::clone(&self.disk.meter.tracker);
        let looking = std::thread::spawn(move || {
            let _locked = tracker.lock().unwrap();
            panic!("on purpose");
        });
        assert!(looking.join().is_err());
    }
}

#[tokio::test]
async fn a_look_that_succeeds_leaves_nothing_to_say() {
    let scene = Scene::new();
    assert_eq!(scene.disk.changes().await, Changes::default());
    assert_eq!(scene.reason(), None);
}

#[tokio::test]
async fn after_a_look_that_failed_no_state_counts_as_restorable() {
    let scene = Scene::new();
    scene.fail();
    scene.disk.changes().await;
    assert!(
        scene.reason().is_some(),
        "what changed meanwhile is not known"
    );
}

#[tokio::test]
async fn a_look_that_fails_on_a_thread_of_its_own_is_told_too() {
    let scene = Scene::new();
    // Nothing can be done at once while another look is under way.
    let (sender, held) = std::sync::mpsc::channel();
    let tracker = Arc::clone(&scene.disk.meter.tracker);
    let other_look = std::thread::spawn(move || {
        let _locked = tracker.lock().unwrap();
        sender.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(300));
    });
    held.recv().unwrap();
    scene.disk.with_tracker(|_| panic!("on purpose")).await;
    other_look.join().unwrap();
    assert!(scene.reason().is_some());
}

#[tokio::test]
async fn what_was_added_is_still_known_after_a_look_that_failed() {
    let scene = Scene::new();
    scene.fail();
    assert_eq!(scene.disk.meter.measured(), Some(Added::default()));
}
