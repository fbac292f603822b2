//! What all share: memory, disk, inodes, output, and the kernel's small change.

use super::common::{is_long, memory_in_process_namespace, python, short, test_directory, wait};
use super::scene::{Scene, harmless};
use cellblock_protocol::Limits;
use cellblock_protocol::Status::{Crashed, Failure, Success, Timeout};
use std::fs;
use std::path::Path;
use std::process::Command;

fn small() -> Limits {
    Limits {
        memory: 128 << 20,
        disk: 8 << 20,
        processes: 16,
        ..Limits::default()
    }
}

/// Runs code that takes more than it may. It fails by itself or is ended; success would mean that there is no limit.
pub(crate) fn is_refused(limits: Limits, code: &str) {
    let scene = Scene::with(limits);
    let result = scene.run_for(20.0, code);
    assert!(
        [Failure, Crashed].contains(&result.status),
        "{code}\n{}",
        short(&result)
    );
    scene.goes_on_or_has_ended();
    scene.ends_clean();
}

#[test]
fn memory_at_once() {
    is_refused(small(), "x = bytearray(200 << 30)");
}

#[test]
fn memory_bit_by_bit() {
    is_refused(small(), "x = []\nwhile True: x.append('x' * 100_000)");
}

#[test]
fn memory_of_several_processes() {
    let code = r"
import os, time
for _ in range(8):
    if os.fork() == 0:
        x = bytearray(b'x') * (60 << 20)
        time.sleep(3)
        os._exit(0)
x = bytearray(b'x') * (60 << 20)
codes = [os.wait()[1] for _ in range(8)]
raise SystemExit(codes)
";
    is_refused(small(), code);
}

#[test]
fn memory_that_is_shared_and_kept_by_nobody() {
    // System V segments and files without a name stay when nobody has them mapped.
    let code = r"
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
libc.shmdt.argtypes = [ctypes.c_void_p]
for _ in range(10):
    address = libc.shmat(libc.shmget(0, 40 << 20, 0o1600), None, 0)
    ctypes.memset(address, 1, 40 << 20)
    libc.shmdt(address)
    time.sleep(0.25)
";
    is_refused(small(), code);
    let code = r"
import os, time
for _ in range(10):
    file = os.memfd_create('x')
    for _ in range(40):
        os.write(file, b'x' * (1 << 20))
    time.sleep(0.25)
";
    is_refused(
        Limits {
            disk: 1 << 30,
            ..small()
        },
        code,
    );
}

#[test]
fn memory_in_temporary_files() {
    for directory in ["/tmp", "/dev/shm"] {
        let code = format!(
            "with open('{directory}/x', 'wb') as file:\n    for _ in range(400): file.write(b'x' * (1 << 20))"
        );
        is_refused(
            Limits {
                disk: 1 << 30,
                ..small()
            },
            &code,
        );
    }
}

#[test]
fn memory_of_the_history_is_bounded_and_costs_no_cell() {
    // Each cell makes its data anew, so each checkpoint holds another copy: ten of them are three times the limit.
    let limits = Limits {
        memory: 200 << 20,
        ..Limits::default()
    };
    let most = limits.memory + limits.checkpoint_budget();
    let scene = Scene::with(limits);
    for number in 0..12 {
        let result = scene.run(&format!("x = bytearray(b'{}') * (60 << 20)", number % 10));
        assert_eq!(result.status, Success, "cell {number}: {}", short(&result));
    }
    let used = memory_in_process_namespace(&scene.namespace);
    assert!(
        (20 << 20..most + most / 10).contains(&used),
        "{} MiB",
        used >> 20
    );
    scene.goes_on();
    scene.ends_clean();
}

#[test]
fn memory_while_init_is_kept_busy() {
    // Every signal is a question to init; who asks without end must not keep it from looking at the memory.
    let code = r"
import os, threading, time
def ask():
    while True:
        os.kill(me, 0)
me = os.getpid()
for _ in range(4):
    threading.Thread(target=ask, daemon=True).start()
import mmap
kept = []
for _ in range(40):
    kept.append(mmap.mmap(-1, 16 << 20))
    kept[-1][:] = b'x' * (16 << 20)
    time.sleep(0.05)
time.sleep(2)
";
    is_refused(small(), code);
}

#[test]
fn the_disk_filled() {
    is_refused(
        small(),
        "with open('x', 'wb') as file:\n    while True: file.write(b'x' * (1 << 20))",
    );
    let code = r"
import time
for number in range(1000):
    with open(f'x{number}', 'wb') as file:
        file.write(b'x' * (1 << 20))
    time.sleep(0.02)
";
    is_refused(small(), code);
}

#[test]
fn the_disk_filled_with_earlier_versions() {
    // Each cell writes the file anew: never more than its limit in the workspace, but each checkpoint keeps a copy.
    let scene = Scene::with(Limits {
        disk: 8 << 20,
        ..Limits::default()
    });
    for number in 0..12 {
        let result = scene.run(&format!(
            "open('x', 'wb').write(b'{}' * (6 << 20))",
            number % 10
        ));
        assert_eq!(result.status, Success, "cell {number}: {}", short(&result));
    }
    scene.goes_on();
    let kept = bytes_below(
        &test_directory().join("state/sessions"),
        &format!("{}-", scene.session.id()),
    );
    assert!(
        kept <= 2 * (8 << 20),
        "{} MiB are kept of files of 6 MiB",
        kept >> 20
    );
    scene.ends_clean();
}

/// The size of all files below the directories whose names begin so.
fn bytes_below(directory: &Path, prefix: &str) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let wanted = entries.filter(|entry| {
        entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(prefix))
    });
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_below(&entry.path(), ""),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    wanted.map(size).sum()
}

#[test]
fn a_file_of_a_terabyte_that_holds_nothing() {
    is_refused(
        small(),
        "import os; os.truncate(os.open('x', os.O_CREAT | os.O_RDWR), 1 << 40)",
    );
}

#[test]
fn inodes_of_temporary_files() {
    let code = r"
import os
for number in range(200_000):
    os.close(os.open(f'/tmp/{number}', os.O_CREAT | os.O_WRONLY))
";
    is_refused(Limits::default(), code);
}

#[test]
fn inodes_of_the_workspace() {
    if !is_long() {
        return;
    }
    let code = r"
import os
for number in range(200_000):
    os.close(os.open(f'{number}', os.O_CREAT | os.O_WRONLY))
";
    let scene = Scene::new();
    let result = scene.run_for(40.0, code);
    assert_eq!(result.status, Crashed, "{}", short(&result));
    scene.ends_clean();
}

/// How much more memory this process had at its peak.
fn peak_growth(work: impl FnOnce()) -> u64 {
    let peak = || {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmHWM:"))
            .unwrap();
        line.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
            << 10
    };
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = peak();
    work();
    peak().saturating_sub(before)
}

#[test]
fn more_output_than_anyone_can_hold() {
    let megabytes = if is_long() { 10_000 } else { 100 };
    let grown = peak_growth(|| {
        let scene = Scene::new();
        let result = scene.run_for(
            30.0,
            &format!("text = 'x' * 1_000_000\nfor _ in range({megabytes}): print(text)"),
        );
        assert!(
            [Success, Timeout].contains(&result.status),
            "{}",
            short(&result)
        );
        assert_eq!(
            (result.stdout.len(), result.output.len()),
            (1_000_000, 1_000_000)
        );
        assert!(result.usage.stdout_bytes > 50_000_000);
        scene.goes_on_or_has_ended();
        scene.ends_clean();
    });
    assert!(
        grown < 100 << 20,
        "the host needed {} MiB more",
        grown >> 20
    );
}

#[test]
fn a_file_that_is_larger_than_the_host_s_memory_should_be() {
    let scene = Scene::new();
    assert_eq!(
        scene
            .run("import os; os.truncate(os.open('x', os.O_CREAT | os.O_RDWR), 1 << 30)")
            .status,
        Success
    );
    let grown = peak_growth(|| {
        let error = wait(scene.session.get_file("x")).unwrap_err();
        assert_eq!(error.code(), "file");
        assert_eq!(
            error.to_string(),
            "the file `x` in the workspace: it has 1073741824 bytes, and at most 67108864 are read at once; read it in parts"
        );
        let part = wait(scene.session.get_file_part("x", (1 << 30) - 10, 1 << 30)).unwrap();
        assert_eq!(part, [0; 10]);
        let part = wait(scene.session.get_file_part("x", 0, 1 << 20)).unwrap();
        assert_eq!(part.len(), 1 << 20);
    });
    assert!(
        grown < 100 << 20,
        "the host needed {} MiB more",
        grown >> 20
    );
    scene.ends_clean();
}

#[test]
fn output_that_never_ends_after_its_cell() {
    let code = r"
import os, threading
def flood():
    while True:
        os.write(1, b'x' * 65536)
threading.Thread(target=flood, daemon=True).start()
";
    let scene = Scene::new();
    assert_eq!(scene.run(code).status, Success);
    let result = scene.run_for(5.0, "40 + 2");
    assert_eq!(
        result.value.as_ref().map(|value| value.repr.as_str()),
        Some("42"),
        "{}",
        short(&result)
    );
    scene.ends_clean();
}

#[test]
fn threads_without_end() {
    harmless(
        "import threading, time\nfor _ in range(10_000): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
        &[Failure],
    );
}

#[test]
fn the_kernel_s_objects_are_left_for_the_host() {
    // Inotify instances are counted for the user who started the session, too, and he has only 128.
    let code = r"
import ctypes
libc = ctypes.CDLL(None)
taken = 0
while libc.inotify_init() >= 0:
    taken += 1
print(taken)
";
    let scenes: Vec<Scene> = (0..3).map(|_| Scene::new()).collect();
    let taken: u32 = scenes
        .iter()
        .map(|scene| scene.run(code).stdout.trim().parse::<u32>().unwrap())
        .sum();
    assert!((1..=64).contains(&taken), "{taken} instances");
    let script = "import ctypes, sys; sys.exit(ctypes.CDLL(None).inotify_init() < 0)";
    let left = Command::new(python())
        .args(["-I", "-c", script])
        .status()
        .unwrap();
    assert!(left.success(), "there is none left for the host");
    scenes.into_iter().for_each(Scene::ends_clean);
}

#[test]
fn its_own_limits_raised() {
    let code = r"
import resource
for name in ('NPROC', 'NOFILE', 'FSIZE', 'CORE'):
    kind = getattr(resource, f'RLIMIT_{name}')
    soft, hard = resource.getrlimit(kind)
    try:
        resource.setrlimit(kind, (hard * 2 + 2, hard * 2 + 2))
        print(name, 'was raised')
    except (ValueError, OSError):
        pass
";
    assert_eq!(harmless(code, &[Success]).stdout, "");
}

#[test]
fn memory_after_its_limit_of_data_was_raised() {
    let code = r"
import resource, time
soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
kept = []
while True:
    kept.append(bytearray(b'x') * (4 << 20))
    if len(kept) > 400:
        break
time.sleep(5)
";
    is_refused(small(), code);
}
