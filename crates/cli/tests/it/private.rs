//! What commands keep, and where they write: nothing for other users, and nothing through names that code left.

use crate::fake_model::FakeModel;
use crate::support::{CELLBLOCK, Place};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

fn all_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = vec![directory.to_owned()];
    for entry in fs::read_dir(directory).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(all_below(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

/// A command line with this umask, in a place.
fn with_umask(place: &Place, umask: &str, line: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("umask {umask}; {CELLBLOCK} {line}")]);
    command.current_dir(place.path()).envs(place.variables());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn directories_of_the_state_that_were_open_to_others_are_closed() {
    let place = Place::new();
    let journals = place.path().join("state/cellblock/journals");
    fs::create_dir_all(&journals).unwrap();
    fs::set_permissions(&journals, Permissions::from_mode(0o777)).unwrap();
    with_umask(&place, "000", "exec --stdlib -c 1");
    let mode = fs::symlink_metadata(&journals).unwrap().mode();
    assert_eq!(mode & 0o777, 0o700, "{mode:o}");
}

#[test]
fn runs_journals_traces_and_recordings_are_for_their_user_alone() {
    let place = Place::new();
    let model = FakeModel::saying(["```python\nprint(1)\n```", "1"]);
    let flags = format!("--stdlib --model fake --base-url {}", model.url);
    with_umask(
        &place,
        "000",
        &format!("ask 'One?' {flags} --format markdown --record tape.jsonl"),
    );
    with_umask(
        &place,
        "000",
        "exec --stdlib --journal -c 'open(\"x\", \"w\").close()'",
    );
    with_umask(&place, "000", "repl --stdlib < /dev/null");
    let state = place.path().join("state");
    for name in ["runs", "journals", "trace.jsonl", "workspaces", "sessions"] {
        assert!(state.join("cellblock").join(name).exists(), "{name}");
    }
    let mut kept = all_below(&state);
    kept.push(place.path().join("tape.jsonl"));
    let is_code_s = |path: &PathBuf| path.ends_with("x");
    for path in kept.iter().filter(|path| !is_code_s(path)) {
        let mode = fs::symlink_metadata(path).unwrap().mode();
        assert_eq!(mode & 0o077, 0, "{} {mode:o}", path.display());
    }
}

#[test]
fn what_is_copied_out_of_a_workspace_goes_through_no_link_that_code_left() {
    let place = Place::new();
    let home = place.path().join("home");
    fs::create_dir_all(place.path().join("work")).unwrap();
    fs::create_dir(&home).unwrap();
    fs::write(home.join("profile"), "precious").unwrap();
    // One that was left before, and one that is made while the command runs.
    symlink(&home, place.path().join("work/before")).unwrap();
    let code = format!(
        "import os\nopen('profile', 'w').write('owned')\nif os.path.isdir('after'): os.rename('after', 'moved')\nos.symlink({:?}, 'after')",
        home.display().to_string()
    );
    for (out, status) in [("work/before", 2), ("work/after", 0)] {
        let model = FakeModel::saying([format!("```python\n{code}\n```"), "done".to_owned()]);
        let ended = place.shell(&format!(
            "ask 'Do it' --stdlib --model fake --base-url {} --format markdown --quiet --workspace work --out {out}",
            model.url
        ));
        assert_eq!(ended.status, status, "{out}: {ended:?}");
        assert_eq!(
            fs::read_to_string(home.join("profile")).unwrap(),
            "precious",
            "{out}: {ended:?}"
        );
        let _ = fs::remove_file(place.path().join("work/profile"));
        let _ = fs::remove_file(place.path().join("work/after"));
    }
}

#[test]
fn a_link_that_code_left_hands_no_file_of_the_user_s_to_the_next_code() {
    let place = Place::new();
    fs::create_dir(place.path().join("work")).unwrap();
    fs::write(place.path().join("key"), "secret").unwrap();
    symlink("../key", place.path().join("work/data.csv")).unwrap();
    let model = FakeModel::saying(["done"]);
    let mut arguments = vec!["ask", "Look", "--stdlib", "--model", "fake", "--quiet"];
    arguments.extend(["--base-url", &model.url]);
    arguments.extend(["--workspace", "work", "--file", "work/data.csv"]);
    insta::assert_snapshot!(place.transcript(arguments));
}

#[test]
fn an_export_is_not_written_through_a_link() {
    let place = Place::new();
    with_umask(&place, "022", "exec --stdlib --journal -c '1'");
    fs::write(place.path().join("profile"), "precious").unwrap();
    symlink("profile", place.path().join("analysis.py")).unwrap();
    let export = ["sessions", "export", "last", "-o", "analysis.py"];
    insta::assert_snapshot!(place.transcript(export));
    assert_eq!(
        fs::read_to_string(place.path().join("profile")).unwrap(),
        "precious"
    );
    let text = place.shell("sessions export last -o /dev/stdout");
    assert!(text.stdout.contains("python"), "{text:?}");
}
