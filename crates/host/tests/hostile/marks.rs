//! Where only Landlock guards files, init changes permissions, times and attributes in the place of code: of the session's own files.

use super::common::{behind, run, short, wait};
use cellblock_protocol::{Isolation, Limits, Rung};
use cellblock_session::Session;
use serde_json::Map;

fn on_landlock() -> Session {
    behind(
        Isolation::on(Rung::Landlock),
        Limits::default(),
        &Map::new(),
    )
}

fn value(session: &Session, code: &str) -> String {
    let result = run(session, code);
    let value = result.value.as_ref().map(|value| value.repr.clone());
    value.unwrap_or_else(|| panic!("{code}\n{}", short(&result)))
}

/// A file with marks, and what tells them.
const MAKE: &str = r"
import ctypes, os, shutil, stat, subprocess, sys, tarfile, tempfile
libc = ctypes.CDLL(None, use_errno=True)
HAS_ATTRIBUTES = True
def marks(path):
    found = os.stat(path)
    attributes = {name: os.getxattr(path, name) for name in os.listxattr(path) if name.startswith('user.')}
    return stat.S_IMODE(found.st_mode), found.st_mtime, attributes
with open('a', 'w') as file: file.write('text')
os.chmod('a', 0o640)
try: os.setxattr('a', 'user.x', b'value')
except OSError: HAS_ATTRIBUTES = False
os.utime('a', (7, 7))
expected = (0o640, 7, {'user.x': b'value'} if HAS_ATTRIBUTES else {})
assert marks('a') == expected, marks('a')
";

#[test]
fn files_are_copied_and_unpacked_with_their_marks() {
    let session = on_landlock();
    run(&session, MAKE);
    let copies = r"
os.mkdir('d')
shutil.copy2('a', 'd/b')
shutil.copy2(os.path.abspath('a'), os.path.join(tempfile.mkdtemp(), 'c'))
shutil.copytree('d', 'e')
subprocess.run(['cp', '-a', 'd', 'f'], check=True)
with tarfile.open('t.tar', 'w') as tar: tar.add('d')
with tarfile.open('t.tar') as tar: tar.extractall('g')
subprocess.run(['tar', '-xf', 't.tar', '--one-top-level=h'], check=True)
subprocess.run([sys.executable, '-m', 'venv', '--without-pip', 'v'], check=True)
[marks(path)[:2] == expected[:2] for path in ('d/b', 'e/b', 'f/b', 'g/d/b', 'h/d/b')], marks('d/b') == expected";
    assert_eq!(
        value(&session, copies),
        "([True, True, True, True, True], True)"
    );
    wait(session.close());
}

#[test]
fn marks_are_changed_by_every_call_and_by_every_name() {
    let session = on_landlock();
    run(&session, MAKE);
    let changes = r"
os.makedirs('d/e', exist_ok=True)
os.symlink('a', 'link'); os.symlink(os.path.abspath('a'), 'd/link'); os.symlink('../link', 'd/chain')
here, inner = os.getcwd(), os.open('d', os.O_RDONLY)
def changed(path, **where):
    os.chmod(path, 0o600, **where); os.utime(path, (8, 8), **where)
    found = os.stat(path, **where)
    outcome = stat.S_IMODE(found.st_mode), found.st_mtime
    os.chmod(path, 0o640, **where); os.utime(path, (7, 7), **where)
    return outcome == (0o600, 8)
paths = ['a', './a', 'd/../a', here + '/a', here + '//d/./../a', 'link', 'd/link', 'd/chain', '../' + os.path.basename(here) + '/a']
good = [changed(path) for path in paths]
good += [changed('../a', dir_fd=inner), changed('link', dir_fd=inner)]
os.chdir('d/e'); good.append(changed('../../a')); os.chdir(here)
file = os.open('a', os.O_RDWR)
os.fchmod(file, 0o604); os.utime(file, (9, 9)); os.chown(file, -1, os.getgid())
good.append(marks(file)[:2] == (0o604, 9))
if HAS_ATTRIBUTES:
    os.setxattr(file, 'user.y', b'z' * 500); good.append(os.getxattr('link', 'user.y') == b'z' * 500)
    os.removexattr('a', 'user.y'); good.append(os.listxattr('a') == os.listxattr(file) and 'user.y' not in os.listxattr('a'))
    room = ctypes.create_string_buffer(2)
    good += [libc.getxattr(b'a', b'user.x', None, 0) == 5, libc.getxattr(b'a', b'user.x', room, 2) == -1, ctypes.get_errno() == 34]
good += [os.listxattr('link', follow_symlinks=False) == [], changed('d')]
os.utime('link', (3, 3), follow_symlinks=False); good.append(os.lstat('link').st_mtime == 3)
os.truncate('a', 2); good.append(open('a').read() == 'te')
with tempfile.TemporaryFile() as nameless: os.fchmod(nameless.fileno(), 0o600); good.append(stat.S_IMODE(os.fstat(nameless.fileno()).st_mode) == 0o600)
with tempfile.NamedTemporaryFile() as named: good.append(changed(named.name))
good += [subprocess.run(['sh', '-c', 'chmod 700 a && touch -d @5 a && stat -c \'%a %Y\' a'], capture_output=True, text=True).stdout == '700 5\n']
good";
    let good = value(&session, changes);
    assert!(good.contains("True") && !good.contains("False"), "{good}");
    wait(session.close());
}

#[test]
fn a_call_about_nothing_fails_as_ever() {
    let session = on_landlock();
    run(&session, MAKE);
    let code = r"
def error(call, *arguments):
    return os.strerror(ctypes.get_errno()) if call(*arguments) < 0 else 'DONE'
[error(libc.chmod, b'none', 0o600), error(libc.chmod, b'a/b', 0o600), error(libc.chmod, b'', 0o600), error(libc.chmod, None, 0o600),
 error(libc.fchmod, 999, 0o600), error(libc.getxattr, b'a', b'user.none', None, 0)]";
    assert_eq!(
        value(&session, code),
        "['No such file or directory', 'Not a directory', 'No such file or directory', 'Bad address', 'Bad file descriptor', 'No data available']"
    );
    wait(session.close());
}

#[test]
fn results_say_that_the_rung_protects_contents_and_not_names() {
    let session = on_landlock();
    let note = run(&session, "1").isolation_note;
    assert!(note.is_some_and(|note| note.contains("contents, not names")));
    wait(session.close());
    let sealed = behind(Isolation::default(), Limits::default(), &Map::new());
    if sealed.rung() == Rung::Full {
        assert_eq!(run(&sealed, "1").isolation_note, None);
    }
    wait(sealed.close());
}
