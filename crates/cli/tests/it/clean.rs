//! What ended sessions leave on disk, and how it goes.

use crate::support::Place;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

const WRITES: &[u8] = b"open('a.txt', 'w').write('a' * 10_000)\n";

fn workspaces(place: &Place) -> Vec<PathBuf> {
    let all = fs::read_dir(place.path().join("state/cellblock/workspaces"));
    let all = all.into_iter().flatten().map(|entry| entry.unwrap().path());
    all.filter(|path| path.is_dir()).collect()
}

/// As if the session had ended eight days ago.
fn make_old(workspace: &Path) {
    let then = SystemTime::now() - Duration::from_secs(8 * 24 * 3600);
    for path in [workspace.join("a.txt"), workspace.to_owned()] {
        File::open(path).unwrap().set_modified(then).unwrap();
    }
}

#[test]
fn a_workspace_with_files_outlives_its_session_until_it_is_removed() {
    let place = Place::new();
    place.run_with(["repl", "--stdlib"], WRITES);
    let [workspace] = &workspaces(&place)[..] else {
        panic!("{:?}", workspaces(&place))
    };
    let shown = place.run(["clean", "--dry-run"]);
    assert!(
        shown.stdout.contains(" kept ")
            && shown
                .stdout
                .ends_with(&format!("{}\n", workspace.display())),
        "{}",
        shown.stdout
    );
    place.run(["clean"]);
    assert!(workspace.exists(), "it is young and small");
    let cleaned = place.run(["clean", "--all", "--json"]);
    let cleaned: Value = serde_json::from_str(&cleaned.stdout).unwrap();
    assert_eq!(cleaned["workspaces"][0]["removed"], true, "{cleaned}");
    assert!(cleaned["freed"].as_u64().unwrap() >= 10_000, "{cleaned}");
    let directory = place.path().join("state/cellblock/workspaces");
    assert_eq!(fs::read_dir(directory).unwrap().count(), 0);
}

#[test]
fn the_workspace_of_a_living_session_stays() {
    let place = Place::new();
    let mut pipe = place.pipe();
    pipe.send(json!({"id": 1, "op": "run", "code": "open('a.txt', 'w').write('a')"}));
    pipe.result();
    // The pipe keeps further sessions ready.
    let all = workspaces(&place);
    let workspace = all.iter().find(|path| path.join("a.txt").exists());
    let workspace = workspace.unwrap();
    make_old(workspace);
    let cleaned = place.run(["clean", "--all"]);
    assert!(cleaned.stdout.contains(" in use "), "{}", cleaned.stdout);
    assert!(workspace.join("a.txt").exists());
    pipe.end();
    place.run(["clean"]);
    assert!(!workspace.exists(), "nothing changed in it for eight days");
}

#[test]
fn what_is_kept_ready_or_was_removed_is_not_shown_as_a_workspace() {
    let place = Place::new();
    let mut pipe = place.pipe();
    pipe.send(json!({"id": 1, "op": "run", "code": "open('a.txt', 'w').write('a' * 10_000)"}));
    pipe.result();
    let shown = place.run(["clean", "--dry-run", "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let all = shown["workspaces"].as_array().unwrap();
    assert_eq!(all.len(), 1, "only one has files: {shown}");
    pipe.end();

    let listed = || {
        let listed = place.run(["sessions", "list", "--json"]);
        serde_json::from_str::<Value>(&listed.stdout).unwrap()[0]["workspace_removed"].clone()
    };
    let table = || place.run(["sessions", "list"]).stdout;
    assert_eq!(listed(), false);
    assert!(table().contains("/workspaces/"), "{}", table());
    place.run(["clean", "--all"]);
    assert_eq!(listed(), true);
    assert!(table().trim_end().ends_with("removed"), "{}", table());
}

#[test]
fn old_workspaces_go_by_themselves_when_a_session_is_opened() {
    let place = Place::new();
    place.run_with(["repl", "--stdlib"], WRITES);
    let [workspace] = &workspaces(&place)[..] else {
        panic!("{:?}", workspaces(&place))
    };
    make_old(workspace);
    let _ = fs::remove_file(place.path().join("state/cellblock/workspaces-checked"));
    // The command ends without waiting for the removal, so it runs until that is done.
    let mut pipe = place.pipe();
    pipe.ask(json!({"id": 1, "op": "vars"}));
    let deadline = Instant::now() + Duration::from_secs(30);
    while workspace.exists() {
        assert!(Instant::now() < deadline, "it is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
    pipe.end();
}

#[test]
fn removing_a_journal_removes_the_workspace_too_but_no_directory_of_the_user() {
    let place = Place::new();
    let own = place.path().join("own");
    fs::create_dir(&own).unwrap();
    place.run_with(["repl", "--stdlib"], WRITES);
    place.run_with(["repl", "--stdlib", "--workspace", "own"], WRITES);
    assert_eq!(workspaces(&place).len(), 1);
    let removed = place.run(["sessions", "remove", "--all"]);
    assert_eq!(removed.status, 0, "{}", removed.stderr);
    let said = "2 journals and 1 workspace removed, ";
    assert!(removed.stderr.starts_with(said), "{}", removed.stderr);
    assert_eq!(workspaces(&place), [] as [PathBuf; 0]);
    assert!(own.join("a.txt").exists());
}

#[test]
fn a_wrong_time_in_the_environment_is_named() {
    let place = Place::new();
    let mut command = place.command(["clean"]);
    let ended = command
        .env("CELLBLOCK_KEEP_WORKSPACES", "soon")
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(2));
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(
        said.starts_with("error: CELLBLOCK_KEEP_WORKSPACES=soon: "),
        "{said}"
    );
}
