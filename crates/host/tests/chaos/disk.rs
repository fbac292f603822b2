//! A disk that fills up, under the workspace and under our own store.

use super::common::{Child, is_root, new_directory, new_host, run, short, wait};
use cellblock_host::Host;
use cellblock_protocol::{CellResult, CheckpointStatus, StateOutcome, Status};
use cellblock_session::Session;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const DISK: &str = "CELLBLOCK_SMALL_DISK";
/// 24 MiB are enough for a session, and soon full.
const SCRIPT: &str = "mount -t tmpfs -o size=24m,mode=755 small \"$1\" && shift && exec \"$@\"";

/// A small disk, when this process has one. Otherwise runs `test` in a process that has, with mounts of its own, so that nothing
/// is left of it; and returns none.
fn small_disk(test: &str) -> Option<PathBuf> {
    if let Some(path) = env::var_os(DISK) {
        return Some(path.into());
    }
    let place = new_directory();
    let mut command = Command::new("unshare");
    command.arg("--mount");
    let mut strip: Vec<&str> = Vec::new();
    if !is_root() {
        // An ordinary user may mount where he is alone. What he may do there is taken away again before the test.
        command.args(["--user", "--map-current-user", "--keep-caps"]);
        strip = vec!["setpriv", "--ambient-caps=-all", "--inh-caps=-all"];
    }
    command
        .args(["sh", "-c", SCRIPT, "sh"])
        .arg(place.path())
        .args(strip)
        .arg(env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(DISK, place.path());
    let mut child = Child::start(&mut command);
    assert!(
        child.0.wait().unwrap().success(),
        "{test} failed on its small disk"
    );
    None
}

const FILL: &str = "
with open('junk', 'wb') as file:
    while True:
        file.write(bytes(1 << 18))
";

fn is_full(result: &CellResult) {
    let error = result.error.as_ref().map(|error| error.repr.as_str());
    assert_eq!(
        (result.status, error),
        (
            Status::Failure,
            Some("OSError(28, 'No space left on device')")
        ),
        "{}",
        short(result)
    );
}

fn is_restored(result: &CellResult) {
    assert_eq!(
        (result.status, result.state.outcome),
        (Status::Crashed, StateOutcome::Restored),
        "{}",
        short(result)
    );
}

fn open_in(host: &Host, workspace: &Path) -> Session {
    fs::create_dir_all(workspace).unwrap();
    wait(host.session().workspace(workspace).start()).unwrap()
}

fn value(session: &Session, code: &str) -> String {
    let result = run(session, code);
    assert_eq!(result.status, Status::Success, "{}", short(&result));
    result.value.unwrap().repr
}

#[test]
fn a_workspace_that_is_full_fails_the_cell_and_goes_back_whole() {
    let Some(disk) =
        small_disk("disk::a_workspace_that_is_full_fails_the_cell_and_goes_back_whole")
    else {
        return;
    };
    let test_directory = new_directory();
    let host = new_host(test_directory.path());
    let session = open_in(&host, &disk.join("workspace"));
    run(
        &session,
        "import os; x = 1; open('kept', 'w').write('k' * (4 << 20))",
    );
    is_full(&run(&session, format!("x = 2{FILL}")));
    let before =
        "x, os.path.getsize('kept'), os.path.getsize('junk') > 1 << 20, open('kept').read(3)";
    assert_eq!(value(&session, before), "(2, 4194304, True, 'kkk')");
    // All space is given to something else when the process dies.
    let result = run(
        &session,
        "x = 3\nos.remove('kept'); os.remove('junk')
with open('other', 'wb') as file:
    try:
        while True: file.write(bytes(1 << 18))
    except OSError: pass
os._exit(1)",
    );
    is_restored(&result);
    assert_eq!(result.state.not_restored, Vec::<String>::new());
    assert_eq!(value(&session, before), "(2, 4194304, True, 'kkk')");
    assert_eq!(value(&session, "sorted(os.listdir())"), "['junk', 'kept']");
    wait(session.close());
}

#[test]
fn a_file_for_which_there_is_no_room_any_more_is_named() {
    let Some(disk) = small_disk("disk::a_file_for_which_there_is_no_room_any_more_is_named") else {
        return;
    };
    let test_directory = new_directory();
    let host = new_host(test_directory.path());
    let session = open_in(&host, &disk.join("workspace"));
    run(
        &session,
        "import os; x = 1; open('kept', 'w').write('k' * (8 << 20))",
    );
    let running = session
        .start("os.remove('kept'); x = 2\nwhile not os.path.exists('go'): pass\nos._exit(1)")
        .unwrap();
    let taken = disk.join("taken");
    super::common::eventually("the file is removed", || {
        !disk.join("workspace/kept").exists()
    });
    // Until there is no room, not even that of the file that was removed, which someone may still be reading.
    fs::write(&taken, vec![1; 12 << 20]).unwrap();
    let more: Vec<_> = (0..5).map(|n| disk.join(format!("more-{n}"))).collect();
    for file in &more {
        let _ = fs::write(file, vec![1; 12 << 20]);
        std::thread::sleep(std::time::Duration::from_millis(40));
    }
    let _ = fs::File::create(disk.join("workspace/go"));
    let result = wait(running.result()).unwrap();
    is_restored(&result);
    let named = |name: &str| {
        result
            .state
            .not_restored
            .iter()
            .any(|line| line.starts_with(name))
    };
    assert!(named("kept: "), "{:?}", result.state.not_restored);
    assert_eq!(value(&session, "x"), "1");
    // With room again, all is as ever.
    fs::remove_file(taken).unwrap();
    more.iter().for_each(|file| fs::remove_file(file).unwrap());
    run(&session, "open('kept', 'w').write('again')");
    is_restored(&run(
        &session,
        "open('kept', 'w').write('lost?'); os._exit(1)",
    ));
    assert_eq!(value(&session, "open('kept').read()"), "'again'");
    wait(session.close());
}

#[test]
fn a_checkpoint_is_not_armed_while_there_is_no_room_for_its_files() {
    let Some(disk) =
        small_disk("disk::a_checkpoint_is_not_armed_while_there_is_no_room_for_its_files")
    else {
        return;
    };
    // The copies are on the small disk, the workspace is not.
    let host = new_host(&disk);
    let place = new_directory();
    let session = open_in(&host, &place.path().join("workspace"));
    let checkpoint = |result: &CellResult| {
        let checkpoint = &result.state.checkpoint;
        (
            checkpoint.status,
            checkpoint.behind,
            checkpoint.reason.clone().unwrap_or_default(),
        )
    };
    let armed = (CheckpointStatus::Armed, 0, String::new());
    run(&session, "import os; x = 1; open('small', 'w').write('s')");
    let result = run(&session, "open('large', 'wb').write(b'1' * (40 << 20))");
    assert_eq!(checkpoint(&result), armed);
    let result = run(&session, "x = 2");
    let (status, behind, reason) = checkpoint(&result);
    assert_eq!((status, behind), (CheckpointStatus::Behind, 0), "{reason}");
    assert!(
        reason.contains("large") && reason.contains("No space left on device"),
        "{reason}"
    );
    // What it says is so: the variables and the other file come back, this one does not.
    let result = run(
        &session,
        "x = 3; open('small', 'w').write('?'); open('large', 'w').write('?'); os._exit(1)",
    );
    is_restored(&result);
    assert_ne!(checkpoint(&result).0, CheckpointStatus::Armed);
    assert_eq!(
        result.state.not_restored.len(),
        1,
        "{:?}",
        result.state.not_restored
    );
    assert!(result.state.not_restored[0].starts_with("large: "));
    assert_eq!(value(&session, "x, open('small').read()"), "(2, 's')");
    // Now it is small, and there is room for it.
    run(&session, "x = 4");
    assert_eq!(checkpoint(&run(&session, "x = 5")), armed);
    // As soon as there is room again the copy is made, although the file did not change.
    fs::write(disk.join("taken"), vec![1; 20 << 20]).unwrap();
    run(
        &session,
        "open('other', 'wb').write(b'3' * (8 << 20)); x = 7",
    );
    assert_ne!(
        checkpoint(&run(&session, "x = 8")).0,
        CheckpointStatus::Armed
    );
    fs::remove_file(disk.join("taken")).unwrap();
    assert_eq!(checkpoint(&run(&session, "x = 10")), armed);
    is_restored(&run(&session, "open('other', 'w').write('?'); os._exit(1)"));
    assert_eq!(
        value(&session, "x, os.path.getsize('other')"),
        "(10, 8388608)"
    );
    wait(session.close());
}

#[test]
fn where_our_own_disk_is_full_sessions_go_on_and_say_what_is_missing() {
    let Some(disk) =
        small_disk("disk::where_our_own_disk_is_full_sessions_go_on_and_say_what_is_missing")
    else {
        return;
    };
    let host = new_host(&disk);
    let session = wait(host.session().start()).unwrap();
    run(&session, "import os; x = 1; open('kept', 'w').write('k')");
    is_full(&run(&session, format!("x = 2{FILL}")));
    // More than a result keeps: the rest goes to a file, for which there is no room.
    let result = run(&session, "print('x' * 3_000_000)");
    assert_eq!(
        (result.status, result.stdout.len() > 100_000),
        (Status::Success, true),
        "{}",
        short(&result)
    );
    // There was no room for a copy of what fills the disk.
    let result = run(
        &session,
        "x = 3; open('kept', 'w').write('!'); open('junk', 'w').write('?'); os._exit(1)",
    );
    is_restored(&result);
    let files = "x, open('kept').read(), os.path.getsize('junk') > 1 << 20";
    let named = |name: &str| {
        result
            .state
            .not_restored
            .iter()
            .any(|line| line.starts_with(name))
    };
    let expected = if named("junk: ") {
        "(2, 'k', False)"
    } else {
        "(2, 'k', True)"
    };
    assert_eq!(
        value(&session, files),
        expected,
        "{:?}",
        result.state.not_restored
    );
    // A second session starts, or says why not.
    match wait(host.session().start()) {
        Ok(second) => assert_eq!(value(&second, "1 + 1"), "2"),
        Err(error) => assert!(error.to_string().contains("No space left"), "{error}"),
    }
    run(&session, "os.remove('junk')");
    is_restored(&run(
        &session,
        "x = 4; open('kept', 'w').write('!'); os._exit(1)",
    ));
    assert_eq!(
        value(&session, "x, os.listdir(), open('kept').read()"),
        "(2, ['kept'], 'k')"
    );
    wait(session.close());
}
