//! What code left in a directory of the user's, waiting for the next session that is opened there.

use super::common::{builder, is_root, new_directory, open, refusal, run, short, token, wait};
use cellblock_host::Error;
use cellblock_protocol::{Isolation, Rung, Status};
use cellblock_session::Session;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The rungs on which code can write to a directory of the user's that is not empty: sessions of root's run as another user on `landlock`.
fn rungs() -> Vec<Rung> {
    let landlock = (!is_root()).then_some(Rung::Landlock);
    [Some(Rung::Full), landlock].into_iter().flatten().collect()
}

/// Runs code in a session of its own in this directory.
fn visit(directory: &Path, rung: Rung, code: &str) {
    let session = open(
        builder()
            .workspace(directory)
            .isolation(Isolation::on(rung)),
    );
    let result = run(&session, code);
    assert_eq!(result.status, Status::Success, "{}", short(&result));
    wait(session.close());
}

/// Opens a session there. A host that hangs fails the test and does not hang it.
fn opened(directory: &Path, rung: Rung) -> Result<Session, Error> {
    let (sender, receiver) = mpsc::channel();
    let builder = builder()
        .workspace(directory)
        .isolation(Isolation::on(rung));
    thread::spawn(move || sender.send(wait(builder.start())));
    receiver
        .recv_timeout(Duration::from_secs(30))
        .expect("the host hangs")
}

/// Leaves something under every name that a host of this process could choose by its number, and under some beside.
fn under_names_of_the_host(make: &str) -> String {
    under_names_of(make, "[*range(1, 300), *range(host - 50, host + 50)]")
}

/// The same for these numbers of processes.
fn under_names_of(make: &str, numbers: &str) -> String {
    let host = std::process::id();
    format!(
        "
import os
def make(name):
    {make}
names = ['.cellblock-{{}}', '.cellblock-copy-{{}}-0', '.cellblock-removed-{{}}-0', '.cellblock-moved-{{}}-0']
host = {host}
for number in {numbers}:
    for name in names:
        try:
            make(name.format(number))
        except FileExistsError:
            pass
"
    )
}

#[test]
fn links_under_names_of_the_host_are_not_written_through() {
    for rung in rungs() {
        let outside = new_directory();
        let profile = outside.path().join("profile");
        let text = token();
        fs::write(&profile, &text).unwrap();
        let given = new_directory();
        let make = format!("os.symlink('{}', name)", profile.display());
        visit(given.path(), rung, &under_names_of_the_host(&make));
        let session = opened(given.path(), rung).unwrap();
        assert_eq!(fs::read_to_string(&profile).unwrap(), text, "{rung:?}");
        wait(session.close());
    }
}

#[test]
fn pipes_under_names_of_the_host_do_not_hang_it() {
    for rung in rungs() {
        let given = new_directory();
        // An ordinary user's session makes at most 64 named pipes.
        let make = under_names_of("os.mkfifo(name)", "range(host - 7, host + 8)");
        visit(given.path(), rung, &make);
        wait(opened(given.path(), rung).unwrap().close());
    }
}

#[test]
fn a_session_that_opens_leaves_nothing_in_the_directory() {
    let given = new_directory();
    wait(opened(given.path(), Rung::Full).unwrap().close());
    assert_eq!(fs::read_dir(given.path()).unwrap().count(), 0);
}

/// A file that runs with the rights of its owner, in a directory of the user's.
fn with_set_id_file(mode: u32) -> tempfile::TempDir {
    let given = new_directory();
    fs::create_dir(given.path().join("bin")).unwrap();
    let program = given.path().join("bin/program");
    fs::write(&program, "#!/bin/sh\n".repeat(1000)).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
    assert_eq!(fs::metadata(&program).unwrap().mode() & 0o7777, mode);
    given
}

#[test]
fn a_directory_with_a_program_that_code_could_rewrite_and_others_run_as_its_owner_is_refused() {
    for rung in [Rung::Full, Rung::Landlock] {
        for mode in [0o4755, 0o2755, 0o6755, 0o4555, 0o4644] {
            let given = with_set_id_file(mode);
            let isolation = Isolation::on(rung);
            let error = refusal(builder().workspace(given.path()).isolation(isolation));
            assert_eq!(error.code(), "workspace", "{error}");
            assert!(error.to_string().contains("bin/program"), "{error}");
            // It is the user's, and stays as it was.
            let now = fs::metadata(given.path().join("bin/program")).unwrap();
            assert_eq!(now.mode() & 0o7777, mode);
        }
    }
}

#[test]
fn a_program_of_another_user_that_code_cannot_write_is_no_reason_to_refuse() {
    if !is_root() {
        // Only root makes files of others.
        return;
    }
    let given = with_set_id_file(0o755);
    let program = given.path().join("bin/program");
    std::os::unix::fs::chown(given.path(), Some(4711), Some(4711)).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let session = opened(given.path(), Rung::Full).unwrap();
    let result = run(
        &session,
        "import os\ntry:\n    os.open('bin/program', os.O_RDWR)\nexcept PermissionError: print('closed')",
    );
    assert_eq!(result.stdout, "closed\n", "{}", short(&result));
    wait(session.close());
}

#[test]
fn the_workspace_of_a_session_and_of_its_fork_is_mounted_without_set_id_programs() {
    let given = new_directory();
    fs::write(given.path().join("file"), "").unwrap();
    let look = "
for line in open('/proc/self/mountinfo'):
    words = line.split()
    if words[4].startswith('/workspace'): print(words[4], 'nosuid' in words[5].split(','))
";
    for builder in [builder(), builder().workspace(given.path())] {
        let session = open(builder);
        let fork = wait(session.fork()).unwrap();
        let again = wait(fork.fork()).unwrap();
        for one in [&session, &fork, &again] {
            let result = run(one, look);
            assert_eq!(result.stdout, "/workspace True\n", "{}", short(&result));
        }
        for one in [again, fork, session] {
            wait(one.close());
        }
    }
}

#[test]
fn a_set_id_program_that_appears_while_a_session_runs_cannot_be_rewritten() {
    // The user installs something into the directory that a session works in.
    for rung in rungs() {
        let given = new_directory();
        let program = given.path().join("program");
        let session = opened(given.path(), rung).unwrap();
        run(&session, "import mmap, os, time");
        fs::write(&program, "#!/bin/sh\n".repeat(1000)).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
        run(
            &session,
            "
with open('program', 'r+b') as file:
    area = mmap.mmap(file.fileno(), 0)
area[2:10] = b'/bin/own'
area.flush()
",
        );
        let now = fs::metadata(&program).unwrap().mode();
        let text = fs::read_to_string(&program).unwrap();
        let is_rewritten = text.contains("/bin/own");
        assert!(
            !(is_rewritten && now & 0o6000 != 0),
            "{rung:?}: rewritten, and mode {now:o}"
        );
        wait(session.close());
    }
}
