//! What the host keeps is for its own user alone, whatever the umask of the program is that it runs in.

use super::common::{is_root, new_directory, new_host, python, run, short, wait, within};
use cellblock_env::Dirs;
use cellblock_host::{Host, PythonChoice};
use cellblock_protocol::{Cell, Isolation, Limits, Rung, StateOutcome, Status};
use cellblock_session::{Preload, Session};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const DIRECTORY: &str = "CELLBLOCK_BUSY_RUN";
const SECRET: &str = "for the user's own eyes";

/// Everything below a directory, links not followed.
fn all_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found
}

/// What others may do with anything that is kept below a directory. What code made in its workspace and in its `/tmp` is the code's.
fn open_to_others(state: &Path, directories: u32) -> Vec<String> {
    let is_code_s = |path: &PathBuf| {
        let below: Vec<_> = path.strip_prefix(state).unwrap().iter().collect();
        let [first, _, third, ..] = below[..] else {
            return false;
        };
        first == "workspaces" || third == "tmp" && below.len() > 3
    };
    let mut paths = all_below(state);
    paths.push(state.to_owned());
    let of_host = paths.into_iter().filter(|path| !is_code_s(path));
    of_host
        .filter_map(|path| {
            let found = fs::symlink_metadata(&path).ok()?;
            let allowed = if found.is_dir() { directories } else { 0o600 };
            let mode = found.mode() & 0o777;
            (mode & !allowed != 0).then(|| format!("{} {mode:o}", path.display()))
        })
        .collect()
}

/// Sessions that do everything of which something is kept.
fn busy(host: &Host, given: &Path, rung: Rung) -> Vec<Session> {
    let limits = Limits {
        output_kept: 1000,
        ..Limits::default()
    };
    let builder = || {
        host.session()
            .limits(limits.clone())
            .isolation(Isolation::on(rung))
    };
    let good = |session: &Session, code: &str| {
        let result = run(session, code);
        assert_eq!(result.status, Status::Success, "{}", short(&result));
    };
    let fresh = wait(builder().start()).unwrap();
    good(&fresh, "open('file', 'w').write('1'); print('x' * 100_000)");
    good(
        &fresh,
        "open('file', 'w').write('2'); import os; os.mkdir('d')",
    );
    wait(fresh.undo(1)).unwrap();
    let crashed = run(
        &fresh,
        "open('file', 'w').write('3'); import os; os.kill(os.getpid(), 9)",
    );
    assert_eq!(crashed.state.outcome, StateOutcome::Restored);
    good(&fresh, "print('y' * 100_000)");
    let mut sessions = vec![fresh];
    if rung == Rung::Full {
        sessions.push(wait(sessions[0].fork()).unwrap());
        good(&sessions[1], "open('file', 'a').write('4')");
    }
    if rung != Rung::Landlock || !is_root() {
        let own = wait(builder().workspace(given).start()).unwrap();
        good(&own, "x = 1");
        good(
            &own,
            "open('diary', 'a').write('more'); open('new', 'w').write('n')",
        );
        good(
            &own,
            "open('diary', 'a').write('and more'); open('new', 'a').write('n')",
        );
        sessions.push(own);
    }
    sessions
}

/// Not a test of its own: what runs with another umask.
#[test]
fn busy_run() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let directory = Path::new(&directory);
    let state = directory.join("state");
    let dirs = Dirs {
        cache: directory.join("cache"),
        state: state.clone(),
    };
    let host = Host::builder()
        .interpreter(python())
        .python(PythonChoice::StandardLibrary)
        .preload(Preload::None)
        .journal(true)
        .dirs(dirs)
        .build()
        .unwrap();
    let mut copies = 0;
    for rung in [Rung::Full, Rung::Landlock, Rung::None] {
        let given = directory.join(format!("{rung:?}"));
        fs::create_dir(&given).unwrap();
        fs::set_permissions(&given, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(given.join("diary"), SECRET).unwrap();
        fs::set_permissions(given.join("diary"), fs::Permissions::from_mode(0o600)).unwrap();
        let sessions = busy(&host, &given, rung);
        // A journal is written by a thread of its own.
        let journals = || fs::read_dir(state.join("journals")).is_ok_and(|all| all.count() > 0);
        assert!(within(Duration::from_secs(10), journals));
        assert_eq!(open_to_others(&state, 0o700), Vec::<String>::new());
        if rung == Rung::Landlock && is_root() {
            // Other hosts of root's are there too.
            let own = format!("-{}-", std::process::id());
            let mut open = open_to_others(Path::new("/run/cellblock/state"), 0o711);
            open.retain(|line| line.contains(&own));
            assert_eq!(open, Vec::<String>::new());
            let mode = fs::metadata(sessions[0].workspace()).unwrap().mode();
            assert_eq!(mode & 0o777, 0o700);
        }
        let is_copy =
            |path: &PathBuf| fs::read(path).is_ok_and(|text| text.starts_with(SECRET.as_bytes()));
        copies += all_below(&state)
            .iter()
            .filter(|path| is_copy(path))
            .count();
        for session in sessions {
            wait(session.close());
        }
    }
    // The test would see nothing if nothing was kept.
    assert!(copies > 0);
    let writable = all_below(&directory.join("cache"))
        .into_iter()
        .filter(|path| {
            let found = fs::symlink_metadata(path).unwrap();
            !found.is_symlink() && found.mode() & 0o022 != 0
        });
    assert_eq!(writable.collect::<Vec<_>>(), Vec::<PathBuf>::new());
    assert_eq!(open_to_others(&state, 0o700), Vec::<String>::new());
}

#[test]
fn nothing_that_is_kept_is_open_to_other_users_even_with_umask_0() {
    for umask in ["000", "022", "077"] {
        let directory = new_directory();
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\"")])
            .arg(std::env::current_exe().unwrap())
            .args(["kept_private::busy_run", "--exact", "--nocapture"])
            .env(DIRECTORY, directory.path());
        let ended = command.output().unwrap();
        assert!(
            ended.status.success(),
            "umask {umask}: {}{}",
            String::from_utf8_lossy(&ended.stdout),
            String::from_utf8_lossy(&ended.stderr)
        );
    }
}

#[test]
fn directories_that_were_open_are_closed_when_a_host_begins() {
    let directory = new_directory();
    for name in ["state", "state/sessions", "state/workspaces"] {
        let path = directory.path().join(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let host = new_host(directory.path());
    let session = wait(host.session().start()).unwrap();
    run(&session, Cell::new("1"));
    let state = directory.path().join("state");
    assert_eq!(open_to_others(&state, 0o700), Vec::<String>::new());
    wait(session.close());
}

#[test]
fn a_state_directory_that_others_could_change_is_refused() {
    let refused = |directory: &Path| {
        let host = new_host(directory);
        let error = wait(host.session().start()).unwrap_err();
        assert!(error.to_string().contains("state"), "{error}");
        error.to_string()
    };
    // A link, which leads to what is someone else's.
    let directory = new_directory();
    let real = new_directory();
    symlink(real.path(), directory.path().join("state")).unwrap();
    refused(directory.path());
    assert_eq!(fs::read_dir(real.path()).unwrap().count(), 0);
    // A directory above it in which everybody may put another in its place.
    let directory = new_directory();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let error = refused(directory.path());
    assert!(error.contains("other users can write"), "{error}");
    if is_root() {
        let directory = new_directory();
        let state = directory.path().join("state");
        fs::create_dir(&state).unwrap();
        chown(&state, Some(4711), Some(4711)).unwrap();
        let error = refused(directory.path());
        assert!(error.contains("4711"), "{error}");
    }
}

#[test]
fn a_note_about_borrowed_files_that_others_could_have_written_gives_nothing_away() {
    if !is_root() {
        // Only root's sessions borrow.
        return;
    }
    // The next host would give these files to who is named there.
    let victim = new_directory();
    fs::write(victim.path().join("file"), "precious").unwrap();
    let nobody = 0x7FFF_FFFF_u32;
    let session = Path::new("/run/cellblock/state/sessions").join(format!("x-{nobody}-1"));
    fs::create_dir_all(&session).unwrap();
    let note = serde_json::json!({
        "path": victim.path().canonicalize().unwrap(),
        "borrower": 0, "owner": 4711, "group": 4711,
    });
    fs::write(session.join("borrowed"), note.to_string()).unwrap();
    let directory = new_directory();
    let host = new_host(directory.path());
    let builder = host.session();
    let session = wait(builder.isolation(Isolation::on(Rung::Landlock)).start()).unwrap();
    wait(session.close());
    let owner = |path: &Path| fs::metadata(path).unwrap().uid();
    assert_eq!(owner(&victim.path().join("file")), 0);
    assert_eq!(owner(victim.path()), 0);
}
