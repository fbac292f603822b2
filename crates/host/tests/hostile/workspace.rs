//! What the code leaves in its workspace for the host to fall into.

use super::common::{builder, new_directory, open, run, short, token, under_load, wait};
use super::scene::Scene;
use cellblock_protocol::Status::Success;
use cellblock_protocol::{Cell, Limits, StateOutcome};
use std::fs;
use std::time::{Duration, Instant};

/// What the host gets when it asks for a file.
fn get(scene: &Scene, path: &str) -> Result<Vec<u8>, String> {
    let begin = Instant::now();
    let got = wait(scene.session.get_file(path)).map_err(|error| error.code().to_owned());
    assert!(
        begin.elapsed() < under_load(Duration::from_secs(5)),
        "{path} took {:?}",
        begin.elapsed()
    );
    got
}

fn put(scene: &Scene, path: &str) -> Result<(), String> {
    wait(scene.session.put_file(path, b"changed".to_vec())).map_err(|error| error.code().to_owned())
}

fn listed(scene: &Scene) -> Vec<String> {
    wait(scene.session.list_files())
        .unwrap()
        .into_iter()
        .map(|entry| entry.path)
        .collect()
}

#[test]
fn links_that_lead_out_are_not_followed() {
    let outside = new_directory();
    let secret = outside.path().join("secret.txt");
    let text = token();
    fs::write(&secret, &text).unwrap();
    let scene = Scene::new();
    let code = format!(
        r"
import os
os.symlink('/etc', 'etc')
os.symlink('{outside}', 'door')
os.symlink('{outside}/secret.txt', 'file')
os.symlink('../' * 40 + '{outside}/secret.txt', 'climb')
os.symlink('/proc/self/root{outside}/secret.txt', 'magic')
os.symlink('loop', 'loop')
open('honest.txt', 'w').write('honest')
",
        outside = outside.path().display()
    );
    assert_eq!(scene.run(&code).status, Success);
    for path in [
        "etc/passwd",
        "door/secret.txt",
        "file",
        "climb",
        "magic",
        "loop",
    ] {
        assert_eq!(get(&scene, path), Err("file".to_owned()), "{path}");
        assert_eq!(put(&scene, path), Err("file".to_owned()), "{path}");
    }
    assert_eq!(fs::read_to_string(&secret).unwrap(), text);
    assert_eq!(get(&scene, "honest.txt").unwrap(), b"honest");
    assert_eq!(listed(&scene), ["honest.txt"]);
    scene.goes_on();
    scene.ends_clean();
}

#[test]
fn paths_that_lead_out_are_refused() {
    let scene = Scene::new();
    for path in ["../secret.txt", "/etc/passwd", "a/../../b", "", ".", "a\0b"] {
        get(&scene, path).unwrap_err();
        put(&scene, path).unwrap_err();
    }
    scene.ends_clean();
}

#[test]
fn a_directory_that_becomes_a_link_while_we_look() {
    let outside = new_directory();
    fs::write(outside.path().join("file"), token()).unwrap();
    let scene = Scene::new();
    let code = format!(
        r"
import os, threading
def swap():
    while True:
        try:
            os.makedirs('real', exist_ok=True)
            open('real/file', 'w').write('inside')
            os.rename('real', 'door')
            os.rename('door', 'old')
            os.symlink('{outside}', 'door')
            os.unlink('door')
            os.rename('old', 'real')
        except OSError:
            pass
threading.Thread(target=swap, daemon=True).start()
",
        outside = outside.path().display()
    );
    assert_eq!(scene.run(&code).status, Success);
    for _ in 0..300 {
        if let Ok(found) = get(&scene, "door/file") {
            assert!(found == b"inside" || found.is_empty(), "{found:?}");
        }
        assert!(!listed(&scene).iter().any(|path| path.contains("..")));
    }
    scene.ends_clean();
}

#[test]
fn pipes_sockets_and_devices_do_not_hang_the_host() {
    let code = r"
import os, socket, stat
os.mkfifo('pipe')
service = socket.socket(socket.AF_UNIX)
service.bind('socket')
os.mkdir('directory')
try:
    os.mknod('device', 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    print('a device was made')
except PermissionError:
    pass
";
    let scene = Scene::new();
    let result = scene.run(code);
    assert_eq!((result.status, result.stdout.as_str()), (Success, ""));
    for path in ["pipe", "socket", "directory"] {
        assert_eq!(get(&scene, path), Err("file".to_owned()), "{path}");
        assert_eq!(put(&scene, path), Err("file".to_owned()), "{path}");
    }
    assert_eq!(listed(&scene), Vec::<String>::new());
    scene.goes_on();
    scene.ends_clean();
}

#[test]
fn a_pipe_with_a_reader_is_still_no_file() {
    let code = r"
import os, threading
os.mkfifo('pipe')
threading.Thread(target=lambda: open('pipe').read(), daemon=True).start()
threading.Thread(target=lambda: open('pipe', 'w').write('x'), daemon=True).start()
";
    let scene = Scene::new();
    scene.run(code);
    assert_eq!(get(&scene, "pipe"), Err("file".to_owned()));
    assert_eq!(put(&scene, "pipe"), Err("file".to_owned()));
    scene.ends_clean();
}

#[test]
fn a_lease_on_a_file_is_refused() {
    let code = r"
import fcntl
with open('held', 'w') as file: file.write('one')
held = open('held', 'r+')
fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
";
    let scene = Scene::new();
    let result = scene.run(code);
    let error = result.error.as_ref().map(|error| error.repr.as_str());
    assert_eq!(error, Some("OSError(22, 'Invalid argument')"));
    assert_eq!(get(&scene, "held"), Ok(b"one".to_vec()));
    assert_eq!(put(&scene, "held"), Ok(()));
    scene.goes_on();
    scene.ends_clean();
}

#[test]
fn names_that_are_no_text() {
    let code = r"
import os
for name in (b'new\nline', b'\xff\xfe', b'tab\t', b'x' * 255, b'-rf', b'\x1b[31m', ' space '.encode(), 'ünïcode☃'.encode()):
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
";
    let scene = Scene::new();
    let result = scene.run(code);
    assert_eq!((result.status, result.files.created.len()), (Success, 8));
    assert_eq!(listed(&scene).len(), 8);
    scene.goes_on();
    scene.ends_clean();
}

/// Digs a hole: deeper than a path can be long.
const DIGS: &str = r"
import os
home = os.open('.', os.O_RDONLY)
for _ in range(2500):
    os.mkdir('d')
    os.chdir('d')
open('bottom', 'w').close()
os.fchdir(home)
";

#[test]
fn a_directory_deeper_than_any_path() {
    let scene = Scene::new();
    let result = scene.run_for(20.0, DIGS);
    // What nobody can look at nobody can count: it is over the limit, and it is gone.
    assert_eq!(
        result.error.as_ref().map(|error| error.type_.as_str()),
        Some("DiskLimit"),
        "{}",
        short(&result)
    );
    assert_eq!(result.state.outcome, StateOutcome::Restored);
    assert_eq!(result.state.not_restored, Vec::<String>::new());
    assert_eq!(fs::read_dir(scene.session.workspace()).unwrap().count(), 0);
    scene.goes_on();
    scene.ends_clean();
}

#[test]
fn a_directory_as_deep_as_a_path_can_be() {
    let scene = Scene::new();
    let code = DIGS.replace("2500", "2000");
    let result = scene.run_for(20.0, &code);
    assert_eq!(result.status, Success, "{}", short(&result));
    let bottom = "d/".repeat(2000) + "bottom";
    assert_eq!(listed(&scene), [bottom]);
    scene.goes_on();
    scene.run_for(
        20.0,
        "import subprocess; subprocess.run(['rm', '-rf', 'd'])",
    );
    assert_eq!(listed(&scene), Vec::<String>::new());
    scene.ends_clean();
}

#[test]
fn a_directory_that_is_closed_is_counted_all_the_same() {
    let scene = Scene::with(Limits {
        disk: 4 << 20,
        ..Limits::default()
    });
    let code = r"
import os, time
os.mkdir('closed')
files = [open(f'closed/part{number}', 'wb') for number in range(4)]
os.chmod('closed', 0)
for file in files:
    file.write(b'x' * (2 << 20))
    file.flush()
time.sleep(30)
";
    let result = scene.run_for(40.0, code);
    assert_eq!(
        result.error.as_ref().map(|error| error.type_.as_str()),
        Some("DiskLimit"),
        "{}",
        short(&result)
    );
    scene.goes_on();
    scene.ends_clean();
}

#[test]
fn directories_that_take_long_to_look_at_keep_nobody_else_waiting() {
    const DIGS_ON: &str = r"
import os, time
home = os.open('.', os.O_RDONLY)
end = time.monotonic() + 2
while time.monotonic() < end:
    os.fchdir(home)
    shaft = f'shaft{time.monotonic_ns()}'
    os.mkdir(shaft)
    os.chdir(shaft)
    for _ in range(1900):
        os.mkdir('d')
        os.chdir('d')
os.fchdir(home)
";
    let diggers = [Scene::new(), Scene::new()];
    let beside = open(builder());
    let end = Instant::now() + Duration::from_secs(5);
    let mut slowest = Duration::ZERO;
    std::thread::scope(|scope| {
        for digger in &diggers {
            scope.spawn(move || {
                while Instant::now() < end {
                    run(
                        &digger.session,
                        Cell::new(DIGS_ON).timeout(Duration::from_secs(6)),
                    );
                }
            });
        }
        while Instant::now() < end {
            let begin = Instant::now();
            let result = run(&beside, "40 + 2");
            assert_eq!(result.status, Success, "{}", short(&result));
            slowest = slowest.max(begin.elapsed());
        }
    });
    assert!(
        slowest < Duration::from_secs(3),
        "the slowest took {slowest:?}"
    );
    wait(beside.close());
    diggers.into_iter().for_each(Scene::ends_clean);
}

#[test]
fn the_workspace_itself_taken_away() {
    let code = r"
import os, shutil
for entry in os.scandir('.'):
    pass
for attempt in (lambda: os.rmdir('/workspace'), lambda: os.rename('/workspace', '/tmp/gone'), lambda: os.chmod('.', 0)):
    try:
        attempt()
    except OSError:
        pass
";
    let scene = Scene::new();
    assert_eq!(scene.run(code).status, Success);
    let _ = get(&scene, "x");
    let _ = wait(scene.session.list_files());
    scene.run("import os; os.chmod('/workspace', 0o755)");
    scene.goes_on();
    scene.ends_clean();
}
