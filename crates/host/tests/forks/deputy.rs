//! Init opens and changes files in the place of code: only those of the session's own mounts.

use crate::support::session;

const ASK: &str = include_str!("deputy.py");

#[test]
fn init_acts_on_no_file_of_proc_however_it_is_named() {
    let parent = session();
    parent.good(ASK);
    let fork = parent.fork();
    fork.good("import subprocess; child = subprocess.Popen(['/bin/sleep', '600'])");
    for session in [&parent, &fork] {
        // Init itself, everyone of this session, and every process of the fork.
        assert_eq!(session.value("reached(range(1, 24))[:20]"), "[]");
    }
}

#[test]
fn a_descriptor_of_a_file_of_proc_changes_nothing_either() {
    let parent = session();
    let fork = parent.fork();
    let attempt = r"
import ctypes, os
libc = ctypes.CDLL(None)
def reached():
    for name in ('comm', 'oom_score_adj', 'status', 'maps', 'task', ''):
        file = os.open(f'/proc/self/{name}', os.O_RDONLY)
        path = f'/proc/self/fd/{file}'.encode()
        for flags in (os.O_WRONLY, os.O_RDWR, os.O_TRUNC):
            if libc.open(path, flags) >= 0: yield name, 'open'
        if libc.fchmod(file, 0o600) >= 0: yield name, 'fchmod'
        if libc.fchown(file, os.getuid(), os.getgid()) >= 0: yield name, 'fchown'
        if libc.futimens(file, None) >= 0: yield name, 'futimens'
        if libc.fsetxattr(file, b'user.x', b'1', 1, 0) >= 0: yield name, 'fsetxattr'
list(reached())";
    for session in [&parent, &fork] {
        assert_eq!(session.value(attempt), "[]");
    }
}

#[test]
fn a_path_from_any_directory_leads_to_the_session_s_own_files() {
    let parent = session();
    let fork = parent.fork();
    let write = r"
import os
def written(start, path):
    os.chdir(start)
    try:
        with open(path, 'w') as file: file.write(path)
        os.chmod(path, 0o644)
        os.utime(path)
    finally: os.chdir('/workspace')
for start, path in (('/', 'tmp/a'), ('/', 'workspace/b'), ('/', 'dev/shm/c'), ('/dev', 'shm/d'), ('/dev', '../tmp/e'), ('/usr', '../workspace/f'),
                    ('/proc/self', '../../tmp/g'), ('/tmp', '../workspace/h'), ('/tmp', '../../../dev/shm/i')):
    written(start, path)
with open('/dev/null', 'w') as nothing: nothing.write('x')
os.chdir('/dev')
with open('null', 'w') as nothing: nothing.write('x')
os.chdir('/workspace')
[open(path).read() for path in ('/tmp/a', '/workspace/b', '/dev/shm/c', '/dev/shm/d', '/tmp/e', '/workspace/f', '/tmp/g', '/workspace/h', '/dev/shm/i')]";
    for session in [&parent, &fork] {
        assert_eq!(
            session.value(write),
            "['tmp/a', 'workspace/b', 'dev/shm/c', 'shm/d', '../tmp/e', '../workspace/f', '../../tmp/g', '../workspace/h', '../../../dev/shm/i']"
        );
    }
}
