//! The walls around the kernel: the system call filter, privileges, and who may be signalled.

use super::attack::Attack;
use super::common::{Child, behind, permissions_of, run, wait};
use cellblock_protocol::{Cell, Isolation, Limits, Rung, StateOutcome, Status, Wall};
use serde_json::Map;
use std::time::Duration;

#[test]
fn the_filter_refuses_a_namespace_of_one_s_own() {
    let code = r"
import ctypes
if ctypes.CDLL(None).unshare(0x10000000) == 0:
    print('REACHED')
";
    Attack::on(Wall::Seccomp, code).is_stopped();
}

#[test]
fn the_filter_refuses_to_trace() {
    let code = r"
import ctypes, os, time
child = os.fork()
if child == 0:
    time.sleep(60)
if ctypes.CDLL(None).ptrace(16, child, None, None) == 0:
    print('REACHED')
os.kill(child, 9)
";
    Attack::on(Wall::Seccomp, code).is_stopped();
}

#[test]
fn the_filter_leaves_no_file_behind_that_runs_as_its_owner() {
    // On the host the owner of such a file may be root.
    let code = r"
import os, stat
os.close(os.open('tool', os.O_CREAT | os.O_WRONLY, 0o755))
for change in (
    lambda: os.chmod('tool', 0o4755),
    lambda: os.chmod('tool', 0o2755, follow_symlinks=True),
    lambda: os.fchmod(os.open('tool', os.O_RDONLY), 0o6755),
    lambda: os.close(os.open('made', os.O_CREAT | os.O_WRONLY, 0o4755)),
    lambda: os.mknod('node', 0o4755 | stat.S_IFREG),
):
    try:
        change()
        print('REACHED')
    except PermissionError:
        pass
";
    Attack::on(Wall::Seccomp, code).is_stopped();
}

#[test]
fn nothing_in_a_workspace_runs_as_its_owner_on_the_host() {
    let session = behind(Isolation::default(), Limits::default(), &Map::new());
    run(
        &session,
        "import os; open('tool', 'w').close(); os.chmod('tool', 0o755); os.chmod('tool', 0o4755)",
    );
    assert_eq!(permissions_of(&session.workspace().join("tool")), 0o755);
    wait(session.close());
}

#[test]
fn privileges_are_given_up() {
    // In its own namespace, where the name is nobody's but the session's.
    let code = r"
import ctypes, socket
if ctypes.CDLL(None).sethostname(b'mine', 4) == 0 and socket.gethostname() == 'mine':
    print('REACHED')
";
    Attack::on(Wall::Privileges, code).is_stopped();
}

#[test]
fn privileges_do_not_come_back_with_a_program() {
    let code = r"
status = dict(line.split(':\t') for line in open('/proc/self/status').read().splitlines())
if status['NoNewPrivs'] == '0' and int(status['CapBnd'], 16):
    print('REACHED')
";
    Attack::on(Wall::Privileges, code).is_stopped();
}

/// Kills everyone it can name, then itself.
const KILLS_ITS_NET: &str = r"
import os, signal
for pid in range(1, 200):
    if pid != os.getpid():
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
os.abort()
";

#[test]
fn a_cell_cannot_kill_its_own_checkpoint() {
    let not_restored = |isolation: Isolation| {
        let session = behind(isolation, Limits::default(), &Map::new());
        run(&session, "x = 'kept'");
        let result = run(
            &session,
            Cell::new(KILLS_ITS_NET).timeout(Duration::from_secs(20)),
        );
        assert_eq!((result.status, result.signal), (Status::Crashed, Some(6)));
        assert_eq!(result.state.outcome, StateOutcome::Restored);
        wait(session.close());
        result.state.not_restored
    };
    // Without the wall all that is left is a new session.
    assert_eq!(
        not_restored(Isolation::on(Rung::Full).without(Wall::Signals)),
        ["the effects of cell 1: no later checkpoint was there to be woken"]
    );
    assert_eq!(not_restored(Isolation::default()), [""; 0]);
}

#[test]
fn strangers_are_not_to_be_signalled_where_there_is_no_namespace() {
    // Landlock would refuse as well, but only on newer kernels; and a session of root's has another user's id.
    let code = r"
import os
os.kill(stranger, 0)
print('REACHED')
";
    let stranger = Child::sleeping();
    let attack = Attack::on(Wall::Signals, code)
        .without_namespaces()
        .helped_by([Wall::Landlock, Wall::Privileges]);
    attack.variable("stranger", stranger.pid()).is_stopped();
}

#[test]
fn everyone_at_once_is_not_to_be_signalled() {
    // Only inside of the session's own process namespace: the wall `processes` stands.
    let code = r"
import os, time
child = os.fork()
if child == 0:
    time.sleep(60)
try:
    os.kill(-1, 9)
except PermissionError:
    pass
for _ in range(100):
    if os.waitpid(child, os.WNOHANG) != (0, 0):
        print('REACHED')
        break
    time.sleep(0.01)
else:
    os.kill(child, 9)
";
    Attack::on(Wall::Signals, code).is_stopped();
}
