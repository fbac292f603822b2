use super::*;
use crate::files::history::ChangeNotice;
use crate::files::workspace::Workspace;
use std::collections::BTreeMap;
use std::fs;
use tempfile::TempDir;

struct Scene {
    history: SharedHistory,
    workspace: Arc<Workspace>,
    _place: TempDir,
}

impl Scene {
    fn new() -> Scene {
        let place = tempfile::tempdir().unwrap();
        let workspace = Arc::new(Workspace::fresh(place.path(), "test").unwrap());
        let store = place.path().join("store");
        let known = BTreeMap::new();
        let files = FileHistory::new(
            Arc::clone(&workspace),
            store,
            1 << 20,
            &known,
            ChangeNotice::Never,
        );
        Scene {
            history: SharedHistory::new(files),
            workspace,
            _place: place,
        }
    }

    /// A cell that was kept wrote this to the file `x`.
    fn cell_wrote(&self, cell: u64, text: &str) {
        fs::write(self.workspace.path().join("x"), text).unwrap();
        self.history.lock().note(cell, vec!["x".into()]);
    }

    fn contents(&self) -> String {
        fs::read_to_string(self.workspace.path().join("x")).unwrap()
    }

    async fn panic_under_the_lock(&self) {
        let outcome = self.history.with(|_| panic!("on purpose")).await;
        let problem = outcome.map(|()| String::new()).unwrap_err();
        assert!(problem.contains("on purpose"), "{problem}");
    }
}

const DAMAGE: &str = "the files of the workspace: the host failed while it worked on their history, so some may not be as they were";

#[tokio::test]
async fn without_a_panic_all_is_put_back_and_nothing_is_said() {
    let scene = Scene::new();
    scene.cell_wrote(1, "one");
    scene.history.lock().catch_up();
    scene.cell_wrote(2, "two");
    let failed = scene
        .history
        .restore_to(1, Changes::default(), Vec::new())
        .await;
    assert_eq!((failed, scene.contents()), (Vec::new(), "one".to_owned()));
    assert_eq!(scene.history.lock().unrestorable_reason(), None);
}

#[tokio::test]
async fn after_a_panic_what_can_be_is_put_back_and_the_rest_is_told() {
    let scene = Scene::new();
    scene.cell_wrote(1, "one");
    scene.history.lock().catch_up();
    scene.panic_under_the_lock().await;
    // From here on the lock was poisoned: nothing that is noted may be lost.
    scene.cell_wrote(2, "two");
    assert!(scene.history.lock().is_behind());
    let failed = scene
        .history
        .restore_to(1, Changes::default(), Vec::new())
        .await;
    assert_eq!(
        (failed, scene.contents()),
        (vec![DAMAGE.to_owned()], "one".to_owned())
    );
    // No later checkpoint is what it should be either.
    assert_eq!(
        scene.history.lock().unrestorable_reason().as_deref(),
        Some(DAMAGE)
    );
}

#[tokio::test]
async fn a_panic_while_files_are_put_back_is_told() {
    let scene = Scene::new();
    let outcome = scene.history.with(|_| panic!("on purpose")).await;
    let failed = not_put_back(outcome);
    assert!(
        failed.len() == 1 && failed[0].contains("while it put them back"),
        "{failed:?}"
    );
}

#[tokio::test]
async fn a_copy_that_did_not_fit_is_a_flaw_until_there_is_room() {
    let scene = Scene::new();
    scene.cell_wrote(1, "one");
    // A file where the store's directory should be: no copy can be made.
    let store = scene.workspace.path().parent().unwrap().parent().unwrap();
    let store = store.join("store");
    fs::write(&store, "in the way").unwrap();
    scene.history.lock().catch_up();
    let unrestorable_reason = scene.history.lock().unrestorable_reason().unwrap();
    assert!(
        unrestorable_reason.starts_with("no copy could be made of every file: x: "),
        "{unrestorable_reason}"
    );
    fs::remove_file(&store).unwrap();
    scene.history.lock().catch_up();
    assert_eq!(scene.history.lock().unrestorable_reason(), None);
    scene.cell_wrote(2, "two");
    let failed = scene
        .history
        .restore_to(1, Changes::default(), Vec::new())
        .await;
    assert_eq!((failed, scene.contents()), (Vec::new(), "one".to_owned()));
}
