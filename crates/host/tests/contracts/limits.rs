//! L: what a session may use, and how it is told when it wanted more.

use crate::support::{Python, builder, is_root, open, session, wait};
use cellblock_protocol::{
    Cell, CellResult, Cut, Isolation, Limits, Rung, Status, Stream, Truncated,
};
use std::time::Duration;

fn limited(limits: Limits) -> Python {
    open(builder().limits(limits))
}

/// How a cell ended that went over a limit: its status, the exception and the hint.
fn told(result: CellResult) -> (Status, String, Option<String>) {
    let error = result.error.unwrap();
    (result.status, error.type_, error.hint)
}

mod cpus {
    use super::*;
    use cellblock_session::Cgroups;

    /// Computes for two seconds, and says how much processor time that took.
    const BUSY: &str = "\
import time
begun = time.process_time()
end = time.perf_counter() + 2
while time.perf_counter() < end: pass
time.process_time() - begun";

    #[test]
    fn l_a_session_gets_no_more_processor_time_than_it_may_have() {
        let limits = Limits {
            cpus: Some(0.2),
            ..Limits::default()
        };
        if !Cgroups::detect().is_some_and(|cgroups| cgroups.can_limit_cpus()) {
            let refused = wait(builder().limits(limits).start()).unwrap_err();
            assert!(refused.to_string().contains("`limits.cpus`, --cpus"));
            return;
        }
        let used: f64 = limited(limits).value(BUSY).parse().unwrap();
        assert!(used < 1.2, "{used} s of processor time in 2 s");
    }
}

mod memory {
    use super::*;

    const HINT: &str = "The session's memory limit was reached: work on smaller parts, delete what is no longer needed, or raise the limit `memory`.";

    fn small() -> Python {
        limited(Limits {
            memory: 256 << 20,
            ..Limits::default()
        })
    }

    #[test]
    fn l_an_absurd_allocation_is_a_memory_error_and_the_session_lives() {
        let session = session();
        session.good("x = 1");
        let result = session.run("bytearray(200 << 30)");
        assert_eq!(
            told(result),
            (Status::Failure, "MemoryError".into(), Some(HINT.into()))
        );
        assert_eq!(session.value("x"), "1");
    }

    /// A map says so with another exception than an allocation does.
    #[test]
    fn l_a_shared_map_that_does_not_fit_has_the_same_hint() {
        let result = small().run("import mmap\nmmap.mmap(-1, 1 << 47)");
        let (status, error, hint) = told(result);
        assert_eq!((status, error.as_str()), (Status::Failure, "OSError"));
        let text = "The session's memory limit was reached, of which shared memory may take half: work on smaller parts, delete what is no longer needed, or raise the limit `memory`.";
        assert_eq!(hint.as_deref(), Some(text));
    }

    /// A small session has a `MemoryError` where its limit is, and goes on.
    fn assert_fills_up_at_the_limit(session: &Python) {
        let result = session.run("hoard = []\nwhile True: hoard.append(b'x' * (4 << 20))");
        assert_eq!(
            told(result),
            (Status::Failure, "MemoryError".into(), Some(HINT.into()))
        );
        assert_eq!(
            session.value("mib = 4 * len(hoard)\nhoard.clear()\n100 < mib < 260"),
            "True"
        );
    }

    #[test]
    fn l_memory_that_grows_over_the_limit_is_a_memory_error_and_the_session_lives() {
        let session = small();
        assert_fills_up_at_the_limit(&session);
    }

    /// Reserves memory without touching it: as allocators and databases do, and in large blocks that stay empty.
    const RESERVE: &str = "
import mmap
anonymous = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
NO_RESERVE = 0x4000
arena = mmap.mmap(-1, 4 << 30, flags=anonymous | NO_RESERVE)
blocks = [mmap.mmap(-1, 100 << 20, flags=anonymous) for _ in range(10)]
closed = mmap.mmap(-1, 4 << 30, flags=anonymous, prot=0)";

    #[test]
    fn l_memory_that_is_reserved_and_not_touched_does_not_count() {
        let session = small();
        session.good(RESERVE);
        // What is used still counts, and the limit is where it was.
        assert_fills_up_at_the_limit(&session);
        let result = session.run("b'x' * (300 << 20)");
        assert_eq!(
            told(result),
            (Status::Failure, "MemoryError".into(), Some(HINT.into()))
        );
        assert_eq!(session.value("len(blocks), len(arena) >> 30"), "(10, 4)");
    }

    #[test]
    fn l_a_limit_that_code_sets_for_itself_stays() {
        let code = "
import resource
limits = (300 << 20, resource.getrlimit(resource.RLIMIT_DATA)[1])
resource.setrlimit(resource.RLIMIT_DATA, limits)
def is_refused():
    try:
        bytearray(400 << 20)
    except MemoryError:
        return True
is_refused(), resource.getrlimit(resource.RLIMIT_DATA) == limits";
        assert_eq!(session().value(code), "(True, True)");
    }

    /// Without a cgroup, init must not take the copy of a large process for as much memory again.
    #[test]
    fn l_memory_filled_to_the_limit_is_kept_and_the_next_cells_run() {
        let session = limited(Limits {
            memory: 1 << 30,
            ..Limits::default()
        });
        let result =
            session.run("hoard = []\nwhile True: hoard.append(bytearray(b'x') * 50_000_000)");
        assert_eq!(told(result).1, "MemoryError");
        for round in 0..5 {
            let result = session.run("n = len(hoard)\nprint(n > 10)");
            assert_eq!(
                (result.status, result.stdout.as_str()),
                (Status::Success, "True\n"),
                "{round}: {:?}",
                result.error
            );
        }
    }

    /// A child that has not yet begun its program uses the memory of its parent, as `subprocess` starts all of its children.
    #[test]
    fn l_memory_that_a_child_uses_together_with_its_parent_counts_once() {
        let session = limited(Limits {
            memory: 1 << 30,
            ..Limits::default()
        });
        let code = "
import os, subprocess
os.mkfifo('gate')
large = bytearray(b'x') * (800 << 20)
opener = subprocess.Popen(['sh', '-c', 'sleep 2; : > gate'])
# The child waits in this step until the gate is opened, and its parent waits for the child.
wait_at_gate = [(os.POSIX_SPAWN_OPEN, 9, 'gate', os.O_RDONLY, 0)]
child = os.posix_spawn('/bin/true', ['true'], {}, file_actions=wait_at_gate)
os.waitpid(child, 0)[1], opener.wait()";
        assert_eq!(session.value(code), "(0, 0)");
    }

    #[test]
    fn l_memory_that_python_does_not_count_ends_the_cell_and_is_explained() {
        let code = "import mmap
print('begun')
NO_RESERVE = 0x4000
held = mmap.mmap(-1, 2 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)
for n in range(0, 2 << 30, 4096): held[n] = 1";
        let result = small().run(code);
        assert_eq!(
            (result.status, result.signal, result.stdout.as_str()),
            (Status::Crashed, Some(9), "begun\n")
        );
        let error = result.error.unwrap();
        assert_eq!(
            error.traceback,
            "MemoryLimit: the session needed more than its 256 MiB of memory and was ended; work on less at a time, or raise the limit `memory`
"
        );
    }

    /// Value and checkpoint together are too much, and the interpreter alone is not: the error says what else counts.
    #[test]
    fn l_a_checkpoint_that_keeps_a_replaced_value_is_named_as_a_cause() {
        let session = small();
        session.good("x = bytearray(b'x') * (200 << 20)");
        // By mere writing, so that no request for memory is refused, and for so long that init looks at it.
        let code = "import time\nfor n in range(0, len(x), 4096): x[n] = 1\ntime.sleep(20)";
        let result = session.run(code);
        assert_eq!((result.status, result.signal), (Status::Crashed, Some(9)));
        let message = result.error.unwrap().value;
        let (before, after) = (
            "the session needed more than its 256 MiB of memory and was ended, although its interpreter took only ",
            ": processes that it started count too, and so does the last checkpoint, which keeps the values that a cell replaces; work on less at a time, or raise the limit `memory`",
        );
        assert!(message.starts_with(before), "{message}");
        assert!(message.ends_with(after), "{message}");
        assert_eq!(session.value("x[0]"), "120");
    }

    #[test]
    fn l_what_fits_into_the_limit_is_allowed() {
        assert_eq!(
            session().value("x = bytearray(1 << 30)\nx[-1] = 7\nlen(x) >> 20, x[-1]"),
            "(1024, 7)"
        );
    }
}

mod time {
    use super::*;

    #[test]
    fn l_the_sessions_time_holds_for_every_cell_and_a_cell_can_have_its_own() {
        let limits = Limits {
            wall: Duration::from_millis(500),
            ..Limits::default()
        };
        let session = limited(limits.clone());
        let longer =
            session.run(Cell::new("import time\ntime.sleep(0.8)").timeout(Duration::from_secs(20)));
        assert_eq!(longer.status, Status::Success);
        let result = session.run("import time\nprint('begun')\ntime.sleep(20)");
        assert_eq!(
            (
                result.status,
                result.exit_code,
                result.signal,
                result.error,
                result.stdout.as_str()
            ),
            (Status::Timeout, None, Some(9), None, "begun\n")
        );
    }
}

mod processes {
    use super::*;

    const HINT: &str = "The session's limit of processes and threads was reached: end or join some, use fewer workers, or raise the limit `processes`.";

    #[test]
    fn l_too_many_threads_are_an_exception_and_the_session_lives() {
        let session = limited(Limits {
            processes: 8,
            ..Limits::default()
        });
        session.good("import threading\ndone = threading.Event()\nthreads = []");
        let result = session.run(
            "while True:
    threads.append(threading.Thread(target=done.wait))
    threads[-1].start()",
        );
        assert_eq!(
            told(result),
            (Status::Failure, "RuntimeError".into(), Some(HINT.into()))
        );
        let started: usize = session
            .value(
                "done.set()
started = [t for t in threads if t.ident]
for t in started: t.join()
len(started)",
            )
            .parse()
            .unwrap();
        assert!((8..40).contains(&started), "{started} threads were started");
    }

    #[test]
    fn l_too_many_processes_are_an_exception_and_the_session_lives() {
        let session = limited(Limits {
            processes: 8,
            ..Limits::default()
        });
        let result = session.run(
            "import subprocess
children = []
while True: children.append(subprocess.Popen(['sleep', '1000']))",
        );
        assert_eq!(
            told(result),
            (Status::Failure, "BlockingIOError".into(), Some(HINT.into()))
        );
        let started: usize = session
            .value("for c in children: c.kill(); c.wait()\nlen(children)")
            .parse()
            .unwrap();
        assert!(
            (8..40).contains(&started),
            "{started} processes were started"
        );
        assert_eq!(session.value("subprocess.run(['true']).returncode"), "0");
    }

    /// There the kernel counts all processes of the user together. (Started by root, sessions of this rung cannot read the Python of the tests.)
    #[test]
    fn l_the_limit_of_processes_holds_on_the_rung_landlock_too() {
        if is_root() {
            return;
        }
        let session = open(builder().isolation(Isolation::on(Rung::Landlock)));
        session.good("import subprocess");
        // Init and the standbys count too, and as many are added to the limit for them.
        let allowed = 64..=64 + 4 + 10;
        let by_one_process = "children = []
try:
    while True: children.append(subprocess.Popen(['sleep', '1000']))
except BlockingIOError: pass
for c in children: c.kill(); c.wait()
len(children)";
        let started: u64 = session.value(by_one_process).parse().unwrap();
        assert!(allowed.contains(&started), "{started} processes");
        // Those that ended make room.
        let started: u64 = session.value(by_one_process).parse().unwrap();
        assert!(allowed.contains(&started), "{started} processes after that");
        let by_all_at_once = "import os, time
def start_all():
    reports, report = os.pipe()
    end, end_now = os.pipe()
    leaders = []
    for _ in range(20):
        # The first ones may have taken all before the last ones are started.
        try: pid = os.fork()
        except BlockingIOError: break
        if pid == 0:
            os.close(end_now)
            own = []
            try:
                while True:
                    pid = os.fork()
                    if pid == 0: time.sleep(1000)
                    own.append(pid)
            except BlockingIOError: pass
            os.write(report, bytes([1 + len(own)]))
            os.read(end, 1)
            for pid in own: os.kill(pid, 9); os.waitpid(pid, 0)
            os._exit(0)
        leaders.append(pid)
    count = sum(os.read(reports, 1)[0] for _ in leaders)
    os.close(end_now)
    for pid in leaders: os.waitpid(pid, 0)
    return count
start_all()";
        let started: u64 = session.value(by_all_at_once).parse().unwrap();
        assert!(
            (1..=64 + 4 + 10).contains(&started),
            "{started} processes, by twenty at once"
        );
    }

    #[test]
    fn l_64_processes_and_threads_are_allowed_by_default() {
        let code = "import threading
done = threading.Event()
threads = [threading.Thread(target=done.wait) for _ in range(64)]
for t in threads: t.start()
done.set()
for t in threads: t.join()
'all'";
        assert_eq!(session().value(code), "'all'");
    }
}

#[test]
fn l_too_many_open_files_are_an_exception_and_the_session_lives() {
    let session = session();
    let result = session.run("files = []\nwhile True: files.append(open('/dev/null'))");
    let hint = "The session's limit of open files (1024) was reached: close files, best with `with open(...)`, or raise the limit `open_files`.";
    assert_eq!(
        told(result),
        (Status::Failure, "OSError".into(), Some(hint.into()))
    );
    let opened: usize = session
        .value("opened = len(files)\nfiles.clear()\nopened")
        .parse()
        .unwrap();
    assert!(
        (1000..=1024).contains(&opened),
        "{opened} files were opened"
    );
}

mod disk {
    use super::*;

    const HINT: &str = "The session's disk limit was reached: delete files, write less, or raise the limit `disk`.";

    fn small() -> Python {
        limited(Limits {
            disk: 8 << 20,
            ..Limits::default()
        })
    }

    #[test]
    fn l_a_file_over_the_limit_is_an_exception_and_the_session_lives() {
        let session = small();
        let result = session
            .run("with open('big.bin', 'wb') as file:\n    while True: file.write(bytes(1 << 20))");
        assert_eq!(
            told(result),
            (Status::Failure, "OSError".into(), Some(HINT.into()))
        );
        assert_eq!(
            session.value("import os\nos.path.getsize('big.bin') <= 8 << 20"),
            "True"
        );
    }

    #[test]
    fn l_many_files_over_the_limit_end_the_cell_and_it_is_explained() {
        let code = "import time
for n in range(10**6):
    open(f'{n}.bin', 'wb').write(bytes(1 << 20))
    time.sleep(0.01)";
        let result = small().run(code);
        let error = result.error.as_ref().unwrap();
        assert_eq!(result.status, Status::Crashed);
        assert_eq!(
            error.traceback,
            "DiskLimit: the session wrote more than its 8 MiB to the workspace and was ended; delete what is not needed, or raise the limit `disk`
"
        );
        assert!(
            result.files.created.len() < 200,
            "{} files were made",
            result.files.created.len()
        );
    }

    #[test]
    fn l_a_cell_is_not_over_the_limit_because_it_was_quick() {
        let result = small().run("for n in range(5): open(f'{n}.bin', 'wb').write(bytes(4 << 20))");
        assert_ne!(
            result.status,
            Status::Success,
            "it wrote 20 MiB where 8 MiB are allowed"
        );
    }

    #[test]
    fn l_files_with_odd_names_count_too() {
        let result = small().run(
            "import time
for n in range(60):
    open(b'\\xff%d' % n, 'wb').write(bytes(1 << 20))
    time.sleep(0.02)",
        );
        assert_eq!(
            result.status,
            Status::Crashed,
            "it wrote 60 MiB where 8 MiB are allowed"
        );
    }

    #[test]
    fn l_the_temporary_directory_has_an_end_too() {
        let session = small();
        let result =
            session.run("for n in range(100): open(f'/tmp/{n}.bin', 'wb').write(bytes(1 << 20))");
        assert_eq!(
            told(result),
            (Status::Failure, "OSError".into(), Some(HINT.into()))
        );
        assert_eq!(session.value("1"), "1");
    }

    #[test]
    fn l_what_was_in_the_workspace_before_does_not_count() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("old.bin"), vec![1; 20 << 20]).unwrap();
        let session = open(builder().workspace(directory.path()).limits(Limits {
            disk: 8 << 20,
            ..Limits::default()
        }));
        session.good("import time\nopen('new.bin', 'wb').write(bytes(4 << 20))\ntime.sleep(0.5)");
    }

    #[test]
    fn l_what_was_deleted_does_not_count() {
        let session = small();
        session.good(
            "import os, time
for n in range(10):
    open('x.bin', 'wb').write(bytes(4 << 20))
    os.remove('x.bin')
time.sleep(0.5)",
        );
    }
}

mod output {
    use super::*;

    fn small() -> Python {
        limited(Limits {
            output_kept: 1000,
            output_spilled: 5000,
            ..Limits::default()
        })
    }

    fn cut(kept: u64, left_out: u64) -> Option<Cut> {
        Some(Cut { kept, left_out })
    }

    /// Everything that can be read of a stream, page by page.
    fn pages(session: &Python, cell: u64, stream: Stream, from: u64) -> String {
        let mut text = String::new();
        loop {
            let page =
                wait(session.read_output(cell, stream, from + text.len() as u64, 333)).unwrap();
            if page.is_empty() {
                return text;
            }
            assert!(page.len() <= 333);
            text.push_str(&page);
        }
    }

    #[test]
    fn l_a_megabyte_of_each_stream_is_kept_by_default() {
        let result = session().good("print('x' * 1_499_999)");
        assert_eq!(
            (result.stdout.len(), result.output.len(), result.truncated),
            (
                1_000_000,
                1_000_000,
                Truncated::any(cut(1_000_000, 500_000), None, cut(1_000_000, 500_000))
            )
        );
        assert_eq!(result.usage.stdout_bytes, 1_500_000);
    }

    #[test]
    fn l_the_rest_is_read_by_pages_from_where_the_result_ends() {
        let session = small();
        let result = session.good("for n in range(500): print(n)");
        let whole: String = (0..500).map(|n| format!("{n}\n")).collect();
        assert_eq!(result.stdout, whole[..1000]);
        let Truncated {
            stdout: Some(Cut { kept, left_out }),
            ..
        } = result.truncated.unwrap()
        else {
            panic!("not cut")
        };
        assert_eq!((kept, left_out), (1000, whole.len() as u64 - 1000));
        assert_eq!(pages(&session, 1, Stream::Stdout, kept), whole[1000..]);
        assert_eq!(pages(&session, 1, Stream::Stdout, 0), whole);
    }

    #[test]
    fn l_each_stream_can_be_read_and_both_in_true_order() {
        let session = small();
        let result = session.good(
            "import sys
for n in range(200):
    print('out', n)
    print('err', n, file=sys.stderr)",
        );
        let out: String = (0..200).map(|n| format!("out {n}\n")).collect();
        let err: String = (0..200).map(|n| format!("err {n}\n")).collect();
        let both: String = (0..200).map(|n| format!("out {n}\nerr {n}\n")).collect();
        let expected = Truncated::any(
            cut(1000, out.len() as u64 - 1000),
            cut(1000, err.len() as u64 - 1000),
            cut(1000, both.len() as u64 - 1000),
        );
        assert_eq!(result.truncated, expected);
        assert_eq!(pages(&session, 1, Stream::Stdout, 0), out);
        assert_eq!(pages(&session, 1, Stream::Stderr, 0), err);
        assert_eq!(pages(&session, 1, Stream::Output, 0), both);
    }

    #[test]
    fn l_a_page_never_splits_a_character() {
        let session = small();
        let result = session.good("print('世' * 1000, end='', flush=True)");
        assert_eq!(
            (result.stdout.as_str(), result.truncated),
            (
                "世".repeat(333).as_str(),
                Truncated::any(cut(999, 2001), None, cut(999, 2001))
            )
        );
        assert_eq!(pages(&session, 1, Stream::Stdout, 999), "世".repeat(667));
        assert_eq!(
            wait(session.read_output(1, Stream::Stdout, 0, 4)).unwrap(),
            "世"
        );
    }

    #[test]
    fn l_what_is_over_the_spill_limit_is_counted_and_gone() {
        let session = small();
        let result = session.good("print('x' * 99_999)");
        assert_eq!(
            result.truncated,
            Truncated::any(cut(1000, 99_000), None, cut(1000, 99_000))
        );
        assert_eq!(pages(&session, 1, Stream::Stdout, 0).len(), 5000);
    }

    #[test]
    fn l_the_outputs_of_earlier_cells_stay_readable() {
        let session = small();
        for n in 1..=5 {
            session.good(&format!("print('{n}' * 1999)"));
        }
        for n in 1..=5 {
            assert_eq!(
                pages(&session, n, Stream::Output, 0),
                n.to_string().repeat(1999) + "\n"
            );
        }
        let error = wait(session.read_output(6, Stream::Output, 0, 10)).unwrap_err();
        assert_eq!(error.code(), "not_found");
    }

    #[test]
    fn l_an_earlier_output_can_be_read_while_a_cell_runs() {
        let session = small();
        session.good("print('first')");
        let mut running = session.start("input()");
        running.next();
        assert_eq!(pages(&session, 1, Stream::Output, 0), "first\n");
        session.interrupt();
    }

    #[test]
    fn l_the_next_cell_can_read_what_was_left_out() {
        let session = small();
        session.good("for n in range(500): print(n)");
        let whole: String = (0..500).map(|n| format!("{n}\n")).collect();
        let read = |code: &str| session.value(&format!("read_output({code})"));
        assert_eq!(
            read("1, offset=1000, length=9"),
            format!("{:?}", &whole[1000..1009]).replace('"', "'")
        );
        assert_eq!(
            session.value("len(read_output(cell=1, stream='stdout', offset=0, length=10**6))"),
            whole.len().to_string()
        );
        assert_eq!(read("1, stream='stderr'"), "''");
        assert_eq!(session.run("read_output(99)").status, Status::Failure);
    }

    #[test]
    fn l_a_flood_of_output_is_bounded_and_the_cell_goes_on() {
        let session = session();
        let result =
            session.good("line = 'x' * 1023\nfor _ in range(200 << 10): print(line)\n'done'");
        assert_eq!(result.value.unwrap().repr, "'done'");
        assert_eq!(
            (result.stdout.len(), result.usage.stdout_bytes),
            (1_000_000, 200 << 20)
        );
        let end = wait(session.read_output(1, Stream::Stdout, 64_000_000 - 10, 100)).unwrap();
        assert_eq!(end.len(), 10);
    }
}
