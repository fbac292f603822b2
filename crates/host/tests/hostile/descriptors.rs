//! Our descriptors: 0, 1 and 2, and 3, the channel.

use super::common::{builder, open, run};
use super::scene::{Scene, harmless};
use cellblock_protocol::CheckpointStatus;
use cellblock_protocol::Status::{Crashed, Failure, Success};

#[test]
fn the_channel_closed() {
    let result = harmless(
        "import os; print('before', flush=True); os.close(3)",
        &[Crashed],
    );
    assert_eq!(result.stdout, "before\n");
}

#[test]
fn every_descriptor_above_the_three_closed() {
    harmless("import os; os.closerange(3, 65536)", &[Crashed]);
}

#[test]
fn every_descriptor_closed() {
    harmless("import os; os.closerange(0, 65536)", &[Crashed]);
}

#[test]
fn the_channel_replaced_by_nothing() {
    harmless(
        "import os; os.dup2(os.open('/dev/null', os.O_RDWR), 3)",
        &[Crashed],
    );
}

#[test]
fn the_channel_replaced_by_one_of_its_own() {
    let code = r"
import os, socket
near, far = socket.socketpair()
os.dup2(near.fileno(), 3)
";
    harmless(code, &[Crashed]);
}

#[test]
fn the_channel_shut_down() {
    let code = r"
import socket
channel = socket.socket(fileno=3)
channel.shutdown(socket.SHUT_RDWR)
";
    harmless(code, &[Crashed]);
}

#[test]
fn the_outputs_closed() {
    let scene = Scene::new();
    let result = scene.run("import os; print('before', flush=True); os.close(1); os.close(2)");
    assert_eq!(result.stdout, "before\n");
    scene.goes_on_or_has_ended();
    scene.ends_clean();
}

#[test]
fn the_outputs_replaced_by_a_file() {
    let code = r"
import os
file = os.open('mine', os.O_CREAT | os.O_RDWR)
os.dup2(file, 1)
os.dup2(file, 2)
print('to the file', flush=True)
";
    harmless(code, &[Success]);
}

#[test]
fn the_outputs_replaced_by_each_other_and_the_channel() {
    harmless(
        "import os; os.dup2(3, 1); os.dup2(3, 2); print('noise', flush=True)",
        &[Crashed, Success, Failure],
    );
}

#[test]
fn the_streams_replaced() {
    for code in [
        "import sys; sys.stdout = sys.stderr = sys.stdin = None",
        "import sys; del sys.stdout, sys.stderr, sys.stdin, sys.__stdout__, sys.__stderr__",
        "import sys; sys.stdout.close(); sys.stderr.close()",
        "import sys; sys.stdout.detach()",
        "import io, sys; sys.stdout = io.StringIO(); print('lost')",
        "import sys\nclass Evil:\n    def write(self, text): raise SystemExit(9)\n    flush = write\nsys.stdout = sys.stderr = Evil()",
    ] {
        let scene = Scene::new();
        scene.run(code);
        scene.goes_on();
        scene.ends_clean();
    }
}

#[test]
fn a_hundred_thousand_files_opened() {
    let code = r"
files = []
try:
    for _ in range(100_000):
        files.append(open('/dev/null'))
except OSError as error:
    print(error.errno)
    raise
";
    let result = harmless(code, &[Failure]);
    assert_eq!(result.stdout, "24\n");
}

#[test]
fn the_channel_in_other_hands() {
    // A child keeps the channel open and lives on after the head has gone.
    let code = r"
import os, time
if os.fork() == 0:
    os.setsid()
    os.dup2(os.open('/dev/null', os.O_RDWR), 1)
    time.sleep(600)
os._exit(7)
";
    let result = harmless(code, &[Crashed]);
    assert_eq!(result.exit_code, Some(7));
}

/// The kernel counts descriptors that were sent and not yet received for each user, and sessions may share one.
#[test]
fn descriptors_on_their_way_are_nobody_elses_burden() {
    let scene = Scene::new();
    let code = r"
import socket
pairs = []
try:
    while True:
        near, far = socket.socketpair()
        pairs.append((near, far))
        for _ in range(4):
            socket.send_fds(near, [b'x'], [0] * 250)
except OSError:
    pass
";
    scene.run(code);
    let beside = open(builder());
    run(&beside, "x = 1");
    let result = run(&beside, "x = 2");
    assert_eq!(
        result.state.checkpoint.status,
        CheckpointStatus::Armed,
        "{:?}",
        result.state.checkpoint.reason
    );
    scene.goes_on_or_has_ended();
}
