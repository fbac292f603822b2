//! R: the laws of a session, and the worked examples that must give exactly this.

use crate::support::{builder, eventually, open, processes_with, session, wait};
use cellblock::{Cell, Event, Limits, Status, bytes_seed};
use serde_json::json;
use std::time::Duration;

/// The type of the exception, and what else a failure is judged by.
fn failure(result: cellblock::CellResult) -> (Status, String) {
    (result.status, result.error.unwrap().type_)
}

mod seeds {
    use super::*;

    #[test]
    fn r1_variables_given_at_the_start_are_there_in_the_first_cell() {
        let session = open(
            builder()
                .variable("readings", json!([12, 19.5, "x", null, true]))
                .variable("options", json!({"depth": {"inner": [1]}}))
                .variable("name", "Ada"),
        );
        assert_eq!(
            session.value("readings, options, name"),
            "([12, 19.5, 'x', None, True], {'depth': {'inner': [1]}}, 'Ada')"
        );
    }

    #[test]
    fn r1_bytes_are_seeded_as_bytes() {
        let every_byte: Vec<u8> = (0..=255).collect();
        let session = open(builder().variable("blob", bytes_seed(&every_byte)));
        assert_eq!(session.value("blob == bytes(range(256))"), "True");
    }

    #[test]
    fn r1_setup_code_runs_as_cell_0() {
        let session = open(builder().setup("base = 20\ndef fail():\n    raise OSError(base)"));
        let result = session.run("fail()");
        assert_eq!(
            (result.cell, result.error.unwrap().traceback.as_str()),
            (
                1,
                "Traceback (most recent call last):\n  File \"<cell 1>\", line 1, in <module>\n    fail()\n  \
                 File \"<cell 0>\", line 3, in fail\n    raise OSError(base)\nOSError: 20\n"
            )
        );
    }

    #[test]
    fn r1_setup_code_sees_the_seeds_and_the_imports() {
        let session = open(
            builder()
                .variable("side", 3)
                .import("math")
                .setup("area = math.pi * side"),
        );
        assert_eq!(session.value("area"), "9.42477796076938");
    }

    #[test]
    fn r1_what_was_there_before_the_first_cell_is_not_its_doing() {
        let session = open(builder().variable("a", 1).import("math").setup("b = 2"));
        assert!(session.good("a + b").variables.is_empty());
    }

    #[test]
    fn variables_can_be_seeded_between_cells_too() {
        let session = session();
        session.good("x = 1");
        let seed = json!({"y": [2], "blob": bytes_seed(b"\0")});
        wait(session.seed(seed.as_object().unwrap().clone())).unwrap();
        assert_eq!(session.value("x, y, blob"), r"(1, [2], b'\x00')");
    }

    #[test]
    fn r3_a_seeded_name_that_is_bound_anew_stays_so() {
        let session = open(builder().variable("limit", 1));
        session.good("limit = limit + 1");
        assert_eq!(session.value("limit"), "2");
    }

    #[test]
    fn r33_imports_are_bound_beforehand() {
        let session = open(
            builder()
                .import("math")
                .import("json as j")
                .import("from collections import Counter, OrderedDict as Ordered"),
        );
        assert_eq!(
            session.value("math.floor(2.5), j.dumps([1]), Counter('aab')['a'], Ordered.__name__"),
            "(2, '[1]', 2, 'OrderedDict')"
        );
    }
}

mod state {
    use super::*;

    #[test]
    fn r2_everything_that_a_cell_bound_is_there_in_the_next() {
        let session = session();
        session.good(
            "
import math
from collections import OrderedDict as Ordered
def double(n):
    return 2 * n
class Point:
    def __init__(self, x):
        self.x = x
point = Point(7)
numbers = (n * n for n in range(10))
next(numbers), next(numbers)
file = open('notes.txt', 'w+')
file.write('one\\n')
x = []
y = x
",
        );
        assert_eq!(
            session.value("math.sqrt(16), Ordered(a=1)['a'], double(21), point.x, isinstance(point, Point)"),
            "(4.0, 1, 42, 7, True)"
        );
        assert_eq!(session.value("next(numbers), y is x"), "(4, True)");
        session.good("file.write('two\\n'); file.seek(0)");
        assert_eq!(session.value("file.read()"), r"'one\ntwo\n'");
    }

    #[test]
    fn r4_a_cell_holds_many_statements() {
        let code: String = (0..1000).map(|n| format!("v{n} = {n}\n")).collect();
        assert_eq!(session().value(&format!("{code}v0 + v999")), "999");
    }

    #[test]
    fn r6_a_syntax_error_is_a_failure_and_changes_nothing() {
        let session = session();
        session.good("x = 1");
        let result = session.run("x = 2\ny = 3\nthis is no python");
        assert!(result.variables.is_empty());
        assert_eq!(failure(result), (Status::Failure, "SyntaxError".into()));
        assert_eq!(session.value("x, 'y' in globals()"), "(1, False)");
    }

    #[test]
    fn r7_after_an_exception_the_next_cell_runs() {
        let session = session();
        assert_eq!(session.exception("raise ValueError('no')"), "ValueError('no')");
        assert_eq!(session.value("'still here'"), "'still here'");
    }

    #[test]
    fn r25_a_value_that_cannot_be_pickled_changes_no_status() {
        let session = session();
        session.good("import threading\nlock = threading.Lock()\nf = lambda: 1\ng = (i for i in 'ab')\nlock");
        assert_eq!(session.value("lock.locked(), f(), next(g)"), "(False, 1, 'a')");
    }

    #[test]
    fn r26_cells_run_as_main_and_their_classes_pickle() {
        let session = session();
        session.good("class Point:\n    def __init__(self, x): self.x = x");
        assert_eq!(
            session.value("import pickle\n__name__, pickle.loads(pickle.dumps(Point(3))).x, Point.__module__"),
            "('__main__', 3, '__main__')"
        );
    }

    #[test]
    fn r35_a_new_session_has_fresh_entropy() {
        let code = "import os, random, tempfile, uuid\n\
                    random.random(), uuid.uuid4(), os.urandom(8), next(tempfile._get_candidate_names())";
        assert_ne!(session().value(code), session().value(code));
    }

    #[test]
    fn r36_cell_numbers_are_never_used_twice() {
        let session = session();
        let mut numbers = vec![
            session.run("1").cell,
            session.run("1/0").cell,
            session.run("no python").cell,
        ];
        wait(session.reset()).unwrap();
        numbers.push(session.run("1").cell);
        assert_eq!(numbers, [1, 2, 3, 4]);
    }

    #[test]
    fn r36_reset_clears_variables_and_keeps_files_and_imports_of_the_session() {
        let session = open(builder().import("math"));
        session.good("x = 1\nopen('kept.txt', 'w').write('text')");
        wait(session.reset()).unwrap();
        let result = session.good("math.floor(1.5), 'x' in globals(), open('kept.txt').read()");
        assert_eq!(result.value.unwrap().repr, "(1, False, 'text')");
        assert!(result.variables.is_empty(), "the cell bound nothing");
    }

    #[test]
    fn what_python_code_does_to_its_surroundings_lasts() {
        let session = session();
        session.good("import os, sys\nos.mkdir('sub')\nos.chdir('sub')\nos.environ['A'] = 'b'\nsys.setrecursionlimit(2000)");
        assert_eq!(
            session.value("os.path.basename(os.getcwd()), os.environ['A'], sys.getrecursionlimit()"),
            "('sub', 'b', 2000)"
        );
    }
}

mod output {
    use super::*;

    #[test]
    fn r5_print_goes_to_its_own_cell_and_stderr_is_apart() {
        let session = session();
        let first = session.good("import sys\nprint('out')\nprint('err', file=sys.stderr)\nprint('again')");
        let second = session.good("print('second')");
        assert_eq!(
            [first.stdout, first.stderr, first.output, second.output],
            ["out\nagain\n", "err\n", "out\nerr\nagain\n", "second\n"]
        );
    }

    #[test]
    fn r5_both_streams_come_in_the_order_in_which_they_were_written() {
        let result = session().good("import sys\nfor n in range(200):\n    print(n, file=[sys.stdout, sys.stderr][n % 2])");
        let expected: String = (0..200).map(|n| format!("{n}\n")).collect();
        assert_eq!(result.output, expected);
    }

    #[test]
    fn r20_what_child_processes_write_is_captured() {
        let result = session().good("import subprocess\nsubprocess.run('echo out; echo err >&2', shell=True).returncode");
        assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("out\n", "err\n"));
    }

    #[test]
    fn r20_what_is_written_to_the_descriptors_is_captured() {
        let result = session().good("import os\nprint('one')\nos.write(1, b'two\\n')\nos.write(2, b'three\\n')");
        assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("one\ntwo\n", "three\n"));
    }

    #[test]
    fn r20_what_a_c_library_prints_is_in_the_cell_that_called_it() {
        let session = session();
        let first = session.stdout("import ctypes\nc = ctypes.CDLL(None)\nc.puts(b'from C') > 0");
        assert_eq!((first.as_str(), session.stdout("1").as_str()), ("from C\n", ""));
    }

    #[test]
    fn r21_standard_output_is_a_full_text_stream() {
        let session = session();
        assert_eq!(
            session.value("import sys, io\nsys.stdout.isatty(), sys.stdout.fileno(), sys.stdout.encoding, sys.stdout.writable(), isinstance(sys.stdout, io.TextIOBase)"),
            "(False, 1, 'utf-8', True, True)"
        );
        assert_eq!(
            session.stdout("sys.stdout.buffer.write(b'raw ')\nsys.stdout.buffer.flush()\nsys.stdout.writelines(['a', 'b\\n'])\nsys.stdout.flush()"),
            "raw ab\n"
        );
    }

    #[test]
    fn r21_standard_output_can_be_replaced_and_comes_back() {
        let session = session();
        let code = "import contextlib, io, sys\n\
                    with contextlib.redirect_stdout(io.StringIO()) as held:\n    print('held')\n\
                    print('shown', repr(held.getvalue()))\n\
                    sys.stdout.close()";
        assert_eq!(session.stdout(code), "shown 'held\\n'\n");
        assert_eq!(session.stdout("print('and again')"), "and again\n");
    }

    #[test]
    fn r22_all_text_is_utf_8() {
        let session = session();
        let code = "print('héllo 世界 🐍')\nopen('世界.txt', 'w').write('naïve')\nopen('世界.txt', 'rb').read()";
        let result = session.good(code);
        assert_eq!(result.stdout, "héllo 世界 🐍\n");
        assert_eq!(result.value.unwrap().repr, r"b'na\xc3\xafve'");
        assert_eq!(result.files.created[0].path, "世界.txt");
        let code = "import subprocess, sys\n\
                    subprocess.run([sys.executable, '-c', 'print(\"世界\")'], capture_output=True, text=True).stdout";
        assert_eq!(session.value(code), r"'世界\n'");
    }

    #[test]
    fn r22_bytes_that_are_no_utf_8_become_replacement_characters() {
        let session = session();
        assert_eq!(session.stdout(r"import os; os.write(1, b'\xff\xfe caf\xe9\n')"), "\u{fffd}\u{fffd} caf\u{fffd}\n");
        assert_eq!(session.stdout(r"print('\udc80')"), "\\udc80\n");
    }

    #[test]
    fn r27_what_a_thread_prints_between_cells_is_a_log_event() {
        let session = session();
        let mut logs = session.logs();
        session.good(
            "import threading\ngo = threading.Event()\ndef late():\n    go.wait()\n    print('late')\n\
             threading.Timer(0.2, go.set).start()\nthreading.Thread(target=late).start()",
        );
        let event = wait(async { tokio::time::timeout(Duration::from_secs(20), logs.recv()).await });
        assert_eq!(event.unwrap().unwrap(), Event::Log { text: "late\n".into() });
    }

    #[test]
    fn r27_what_a_thread_of_an_earlier_cell_prints_is_in_no_other_cell() {
        let session = session();
        let mut logs = session.logs();
        session.good(
            "import threading\ngo = threading.Event()\ndef late():\n    go.wait()\n    print('late')\n\
             thread = threading.Thread(target=late)\nthread.start()",
        );
        assert_eq!(session.stdout("print('before')\ngo.set()\nthread.join()\nprint('after')"), "before\nafter\n");
        let event = wait(async { tokio::time::timeout(Duration::from_secs(20), logs.recv()).await });
        assert_eq!(event.unwrap().unwrap(), Event::Log { text: "late\n".into() });
    }

    #[test]
    fn r27_what_a_thread_prints_while_its_cell_runs_belongs_to_the_cell() {
        let code = "import threading\nthread = threading.Thread(target=print, args=['in time'])\nthread.start()\nthread.join()";
        assert_eq!(session().stdout(code), "in time\n");
    }
}

mod values {
    use super::*;

    #[test]
    fn r12_the_value_of_the_last_expression_is_returned() {
        let session = session();
        assert_eq!(session.value("x = 20\nx + 1"), "21");
        assert_eq!(session.value("  'text'  # with a comment"), "'text'");
        assert_eq!(session.value("if True:\n    pass\n(\n  1,\n  2,\n)"), "(1, 2)");
    }

    #[test]
    fn r12_where_there_is_no_value_it_is_null() {
        let session = session();
        let none = ["x = 1", "None", "print('x')", "for x in 'ab':\n    x", "", "# nothing", "1\nx = 2"];
        let values: Vec<_> = none.iter().map(|code| session.good(code).value).collect();
        assert_eq!(values, vec![None; none.len()]);
    }

    #[test]
    fn r24_await_works_at_the_top() {
        let session = session();
        assert_eq!(
            session.value("import asyncio\nasync def f(n):\n    await asyncio.sleep(0)\n    return n\nawait f(41) + 1"),
            "42"
        );
        assert_eq!(session.value("await asyncio.gather(f(1), f(2))"), "[1, 2]");
        assert_eq!(session.stdout("async with asyncio.Lock():\n    print('held')"), "held\n");
    }

    #[test]
    fn r24_tasks_and_locks_of_one_cell_go_on_in_the_next() {
        let session = session();
        session.good("import asyncio\nqueue = asyncio.Queue()\ntask = asyncio.ensure_future(queue.get())\nawait asyncio.sleep(0)");
        assert_eq!(session.value("await queue.put('sent')\nawait task"), "'sent'");
    }
}

mod endings {
    use super::*;

    #[test]
    fn r8_the_users_interrupt_ends_the_cell_and_nothing_else() {
        let session = session();
        session.good("x = 1");
        let mut running = session.start("x = 2\nprint('begun')\nwhile True: pass");
        running.until("begun\n");
        session.interrupt();
        let result = running.result();
        assert_eq!((result.status, result.exit_code, result.signal), (Status::Interrupted, None, None));
        assert_eq!(session.value("x"), "2");
    }

    #[test]
    fn r8_an_interrupt_wakes_a_cell_that_sleeps() {
        let session = session();
        let mut running = session.start("import time\nprint('begun')\ntime.sleep(1000)");
        running.until("begun\n");
        session.interrupt();
        assert_eq!(running.result().status, Status::Interrupted);
    }

    #[test]
    fn r8_a_keyboard_interrupt_of_the_code_itself_is_a_failure() {
        assert_eq!(failure(session().run("raise KeyboardInterrupt")), (Status::Failure, "KeyboardInterrupt".into()));
    }

    #[test]
    fn r8_a_cell_that_does_not_listen_to_the_interrupt_is_ended_all_the_same() {
        let session = session();
        let code = "import time\nprint('begun')\nwhile True:\n    try:\n        time.sleep(1000)\n    except KeyboardInterrupt:\n        print('no')";
        let mut running = session.start(code);
        running.until("begun\n");
        session.interrupt();
        let result = running.result();
        assert_eq!(
            (result.status, result.exit_code, result.signal, result.stdout.as_str()),
            (Status::Interrupted, None, Some(9), "begun\nno\n")
        );
    }

    #[test]
    fn r8_an_interrupt_that_comes_too_late_does_not_hit_the_next_cell() {
        let session = session();
        session.good("1");
        session.interrupt();
        assert_eq!(session.value("sum(range(100000))"), "4999950000");
    }

    #[test]
    fn r16_exit_is_a_failure_and_the_session_lives_on() {
        let session = session();
        let result = session.run("x = 5\nimport sys\nsys.exit(3)");
        assert_eq!((result.exit_code, result.signal), (None, None));
        assert_eq!(result.error.as_ref().unwrap().repr, "SystemExit(3)");
        assert_eq!(failure(result), (Status::Failure, "SystemExit".into()));
        assert_eq!(failure(session.run("exit()")), (Status::Failure, "SystemExit".into()));
        assert_eq!(session.value("x"), "5");
    }

    #[test]
    fn r17_infinite_recursion_is_a_failure() {
        let session = session();
        let endless = [
            "def f(): f()\nf()",
            "class A:\n    def __repr__(self): return repr(self)\nrepr(A())",
            "class B:\n    def __getattr__(self, name): return getattr(self, name)\nB().x",
            "x = []\nfor _ in range(100000): x = [x]\nimport json\njson.dumps(x)",
        ];
        for code in endless {
            assert_eq!(failure(session.run(code)), (Status::Failure, "RecursionError".into()), "{code}");
        }
        assert_eq!(session.value("'alive'"), "'alive'");
    }

    #[test]
    fn r18_a_process_that_ends_itself_is_crashed_with_its_exit_code() {
        let result = session().run("import os\nprint('before')\nos._exit(139)");
        assert_eq!(
            (result.status, result.exit_code, result.signal, result.stdout.as_str()),
            (Status::Crashed, Some(139), None, "before\n")
        );
    }

    #[test]
    fn r18_what_was_printed_without_a_newline_is_kept_too() {
        let result = session().run("import os\nprint('half a line', end='')\nos._exit(1)");
        assert_eq!((result.status, result.stdout.as_str()), (Status::Crashed, "half a line"));
    }

    #[test]
    fn r18_a_segmentation_fault_is_crashed_with_signal_11() {
        let result = session().run("import ctypes\nprint('before')\nctypes.string_at(0)");
        assert_eq!(
            (result.status, result.exit_code, result.signal, result.stdout.as_str()),
            (Status::Crashed, None, Some(11), "before\n")
        );
    }

    #[test]
    fn r18_even_exit_code_0_is_a_crash() {
        let result = session().run("import os\nos._exit(0)");
        assert_eq!((result.status, result.exit_code, result.signal), (Status::Crashed, Some(0), None));
    }

    #[test]
    fn r19_a_cell_that_ignores_signals_still_ends_at_its_time_out() {
        let code = "import signal, time\nfor n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):\n    signal.signal(n, signal.SIG_IGN)\n\
                    print('deaf')\nwhile True: time.sleep(1)";
        let result = session().run(Cell::new(code).timeout(0.7));
        assert_eq!(
            (result.status, result.exit_code, result.signal, result.stdout.as_str()),
            (Status::Timeout, None, Some(9), "deaf\n")
        );
    }

    #[test]
    fn r19_everything_that_a_cell_spawned_dies_with_it() {
        let mark = "86400.0719";
        let code = format!(
            "import os, subprocess, time
subprocess.Popen(['sleep', '{mark}'])
subprocess.Popen(['sleep', '{mark}'], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp('sleep', ['sleep', '{mark}'])
    os._exit(0)
print('spawned')
time.sleep(1000)"
        );
        let session = session();
        let mut running = session.start(Cell::new(code).timeout(3.0));
        running.until("spawned\n");
        eventually("three processes", || processes_with(mark) == 3);
        assert_eq!(running.result().status, Status::Timeout);
        assert_eq!(processes_with(mark), 0);
    }

    #[test]
    fn r28_the_default_time_out_is_30_seconds() {
        assert_eq!(Limits::default().wall, Duration::from_secs(30));
    }

    #[test]
    fn r28_a_time_out_that_is_no_positive_number_is_refused_before_anything_runs() {
        let session = session();
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e12] {
            let error = session.attempt(Cell::new("ran = True").timeout(bad)).unwrap_err();
            assert_eq!(
                (error.code(), error.to_string()),
                (
                    "invalid",
                    format!("`timeout`: expected a positive number of seconds, at most 604800 (7 days), got {bad}")
                )
            );
        }
        let result = session.run("'ran' in globals()");
        assert_eq!((result.cell, result.value.unwrap().repr.as_str()), (1, "False"));
    }
}

mod tracebacks {
    use super::*;

    fn traceback(session: &crate::support::Python, code: &str) -> String {
        session.run(code).error.unwrap().traceback
    }

    #[test]
    fn r9_only_the_users_frames_are_shown_and_always_the_final_line() {
        assert_eq!(
            traceback(&session(), "import json\njson.loads('{')"),
            "Traceback (most recent call last):\n  File \"<cell 1>\", line 2, in <module>\n    json.loads('{')\n\
             json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)\n"
        );
    }

    #[test]
    fn r9_the_frames_of_the_error_are_the_users_too() {
        let session = session();
        session.good("def parse(text, n=1):\n    return int(text)");
        let error = session.run("parse('seven')").error.unwrap();
        assert_eq!(
            serde_json::to_value(error.frames).unwrap(),
            json!([
                {"file": "<cell 2>", "line": 1, "function": "<module>", "source": "parse('seven')", "locals": {}},
                {"file": "<cell 1>", "line": 2, "function": "parse", "source": "return int(text)", "locals": {"text": "'seven'", "n": "1"}},
            ])
        );
    }

    #[test]
    fn r10_a_traceback_that_crosses_cells_shows_the_line_of_each() {
        let session = session();
        session.good("def inner(k):\n    return 1 / k");
        session.good("def outer():\n    return inner(0)");
        assert_eq!(
            traceback(&session, "outer()"),
            "Traceback (most recent call last):\n  File \"<cell 3>\", line 1, in <module>\n    outer()\n  \
             File \"<cell 2>\", line 2, in outer\n    return inner(0)\n  \
             File \"<cell 1>\", line 2, in inner\n    return 1 / k\nZeroDivisionError: division by zero\n"
        );
    }

    #[test]
    fn r9_a_chain_of_exceptions_is_shown_from_its_first_cause_on() {
        assert_eq!(
            traceback(&session(), "try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise ValueError('bad') from e"),
            "Traceback (most recent call last):\n  File \"<cell 1>\", line 2, in <module>\n    1/0\nZeroDivisionError: division by zero\n\n\
             The above exception was the direct cause of the following exception:\n\n\
             Traceback (most recent call last):\n  File \"<cell 1>\", line 4, in <module>\n    raise ValueError('bad') from e\nValueError: bad\n"
        );
    }

    #[test]
    fn r9_a_syntax_error_shows_its_place() {
        assert_eq!(
            traceback(&session(), "x = 1\ny = (2 +* 3)"),
            "  File \"<cell 1>\", line 2\n    y = (2 +* 3)\n            ^\nSyntaxError: invalid syntax\n"
        );
    }

    #[test]
    fn r9_an_exception_that_cannot_be_shown_is_still_a_failure() {
        let session = session();
        let code = "class Nasty(Exception):\n    def __str__(self): raise RuntimeError('no text')\n    __repr__ = __str__\nraise Nasty";
        assert_eq!(failure(session.run(code)), (Status::Failure, "Nasty".into()));
        assert_eq!(session.value("1"), "1");
    }

    #[test]
    fn r9_the_tools_of_python_show_the_source_of_cells_too() {
        let session = session();
        session.good("def f():\n    return 1/0");
        let code = "import traceback, inspect\ntry: f()\nexcept Exception: text = traceback.format_exc()\n'return 1/0' in text, inspect.getsource(f)";
        assert_eq!(session.value(code), r"(True, 'def f():\n    return 1/0\n')");
    }
}

mod waiting {
    use super::*;
    use crate::support::tool;

    #[test]
    fn r11_while_a_cell_waits_in_a_tool_call_other_sessions_run_and_its_own_is_busy() {
        let (one, other) = (session(), session());
        one.offer([tool("ask", "Asks.", &["what"])]);
        let mut running = one.start("x = ask('why?')\nx");
        let Some(Event::ToolCall { call, .. }) = running.next() else { panic!("no call came") };

        assert_eq!(other.value("6 * 7"), "42");
        let busy = "is busy: a cell is running in it; wait for its result or interrupt it";
        for error in [
            one.attempt("1").unwrap_err(),
            wait(one.vars()).unwrap_err(),
            wait(one.compute("1", "one")).unwrap_err(),
            wait(one.reset()).unwrap_err(),
        ] {
            assert_eq!((error.code(), error.to_string()), ("busy", format!("session `{}` {busy}", one.id())));
        }

        one.tool_result(&call, Ok(json!("because")));
        let result = running.result();
        assert_eq!((result.cell, result.value.unwrap().repr.as_str()), (1, "'because'"));
        assert_eq!(one.run("x").cell, 2, "what was refused took no number");
    }

    #[test]
    fn r23_input_asks_the_host() {
        let session = session();
        let mut running = session.start("name = input('Your name? ')\nprint('Hello', name)\nname");
        let Some(Event::InputRequest { call, prompt }) = running.next() else { panic!("no question came") };
        assert_eq!(prompt, "Your name? ");
        session.input(&call, Ok("Ada Łovelace".into()));
        let result = running.result();
        assert_eq!((result.stdout.as_str(), result.value.unwrap().repr.as_str()), ("Hello Ada Łovelace\n", "'Ada Łovelace'"));
    }

    #[test]
    fn r23_standard_input_is_answered_line_by_line() {
        let session = session();
        let mut running = session.start("import sys\nsys.stdin.readline(), input()");
        for line in ["one", "two"] {
            let Some(Event::InputRequest { call, .. }) = running.next() else { panic!("no question came") };
            session.input(&call, Ok(line.into()));
        }
        assert_eq!(running.result().value.unwrap().repr, r"('one\n', 'two')");
    }

    #[test]
    fn r23_where_no_one_can_answer_input_fails_at_once_and_says_so() {
        let error = session().run("input('Your name? ')").error.unwrap();
        assert_eq!(
            (error.type_.as_str(), error.value.as_str()),
            ("EOFError", "input() cannot be answered: nobody is there to type; pass the value in as a variable")
        );
    }

    #[test]
    fn r23_a_question_can_be_refused() {
        let session = session();
        let mut running = session.start("input()");
        let Some(Event::InputRequest { call, .. }) = running.next() else { panic!("no question came") };
        session.input(&call, Err("the user went home".into()));
        assert_eq!(running.result().error.unwrap().repr, "EOFError('the user went home')");
    }
}

mod worked_examples {
    use super::*;

    #[test]
    fn three_cells_build_on_each_other() {
        let session = session();
        session.good("x = 10");
        session.good("y = x * 2");
        session.good("import math; z = math.sqrt(y)");
        assert_eq!(session.value("z, math.__name__"), "(4.47213595499958, 'math')");
    }

    #[test]
    fn a_division_by_zero_keeps_what_was_bound_before_it() {
        let session = session();
        let result = session.run("a = 123\nb = 0\nc = a/b");
        assert_eq!((result.status, result.error.unwrap().repr.as_str()), (Status::Failure, "ZeroDivisionError('division by zero')"));
        assert_eq!(session.value("a, b, 'c' in globals()"), "(123, 0, False)");
    }

    #[test]
    fn a_sleep_that_is_too_long_times_out_with_what_was_printed() {
        let result = session().run(Cell::new(r#"print("Start sleeping...", flush=True); import time; time.sleep(10)"#).timeout(3.0));
        assert_eq!(
            (result.status, result.exit_code, result.signal, result.stdout.as_str()),
            (Status::Timeout, None, Some(9), "Start sleeping...\n")
        );
    }

    #[test]
    fn endless_python_endless_c_and_a_joined_thread_all_time_out() {
        let endless = [
            "while True: pass",
            "import re\nre.match(r'(a+)+$', 'a'*40 + 'b')",
            "import threading, time\nthread = threading.Thread(target=time.sleep, args=[1000])\nthread.start()\nthread.join()",
        ];
        for code in endless {
            assert_eq!(session().run(Cell::new(code).timeout(0.5)).status, Status::Timeout, "{code}");
        }
    }

    #[test]
    fn infinite_recursion_that_prints_its_cause_and_goes_on_is_a_failure() {
        let session = session();
        let result = session.run("def f(n):\n    return f(n + 1)\ntry:\n    f(0)\nexcept RecursionError as error:\n    print(error)\n    raise");
        assert!(result.stdout.starts_with("maximum recursion depth exceeded"), "{}", result.stdout);
        assert_eq!(failure(result), (Status::Failure, "RecursionError".into()));
    }

    #[test]
    fn a_file_in_the_wrong_encoding_is_a_failure_and_the_rest_is_kept() {
        let session = session();
        wait(session.put_file("data.json", b"{\"k\": \"\x94\"}".to_vec())).unwrap();
        session.good("before = 1");
        let result = session.run("import json\nhandle = open('data.json', encoding='gbk')\ndata = json.load(handle)");
        assert_eq!(failure(result), (Status::Failure, "UnicodeDecodeError".into()));
        assert_eq!(session.value("before, handle.closed, 'data' in globals()"), "(1, False, False)");
    }
}
