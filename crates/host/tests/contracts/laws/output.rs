//! R5, R20 to R22, R27: what cells print.

use crate::support::{next_logged_line, session, wait};

#[test]
fn r5_print_goes_to_its_own_cell_and_stderr_is_apart() {
    let session = session();
    let first =
        session.good("import sys\nprint('out')\nprint('err', file=sys.stderr)\nprint('again')");
    let second = session.good("print('second')");
    assert_eq!(
        [first.stdout, first.stderr, first.output, second.output],
        ["out\nagain\n", "err\n", "out\nerr\nagain\n", "second\n"]
    );
}

#[test]
fn r5_both_streams_come_in_the_order_in_which_they_were_written() {
    let result = session().good(
        "import sys
for n in range(200):
    print(n, file=[sys.stdout, sys.stderr][n % 2])",
    );
    let expected: String = (0..200).map(|n| format!("{n}\n")).collect();
    assert_eq!(result.output, expected);
}

#[test]
fn r20_what_child_processes_write_is_captured() {
    let result = session().good(
        "import subprocess
subprocess.run('echo out; echo err >&2', shell=True).returncode",
    );
    assert_eq!(
        (result.stdout.as_str(), result.stderr.as_str()),
        ("out\n", "err\n")
    );
}

#[test]
fn r20_what_is_written_to_the_descriptors_is_captured() {
    let result =
        session().good("import os\nprint('one')\nos.write(1, b'two\\n')\nos.write(2, b'three\\n')");
    assert_eq!(
        (result.stdout.as_str(), result.stderr.as_str()),
        ("one\ntwo\n", "three\n")
    );
}

#[test]
fn r20_what_a_c_library_prints_is_in_the_cell_that_called_it() {
    let session = session();
    let first = session.stdout("import ctypes\nc = ctypes.CDLL(None)\nc.puts(b'from C') > 0");
    assert_eq!(
        (first.as_str(), session.stdout("1").as_str()),
        ("from C\n", "")
    );
}

#[test]
fn r21_standard_output_is_a_full_text_stream() {
    let session = session();
    assert_eq!(
        session.value("import sys, io
sys.stdout.isatty(), sys.stdout.fileno(), sys.stdout.encoding, sys.stdout.writable(), isinstance(sys.stdout, io.TextIOBase)"),
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
    let code = "import contextlib, io, sys
with contextlib.redirect_stdout(io.StringIO()) as held:
    print('held')
print('shown', repr(held.getvalue()))
sys.stdout.close()";
    assert_eq!(session.stdout(code), "shown 'held\\n'\n");
    assert_eq!(session.stdout("print('and again')"), "and again\n");
}

#[test]
fn r22_all_text_is_utf_8() {
    let session = session();
    let code = "print('héllo 世界 🐍')
open('世界.txt', 'w').write('naïve')
open('世界.txt', 'rb').read()";
    let result = session.good(code);
    assert_eq!(result.stdout, "héllo 世界 🐍\n");
    assert_eq!(result.value.unwrap().repr, r"b'na\xc3\xafve'");
    assert_eq!(result.files.created[0].path, "世界.txt");
    let code = "import subprocess, sys
subprocess.run([sys.executable, '-c', 'print(\"世界\")'], capture_output=True, text=True).stdout";
    assert_eq!(session.value(code), r"'世界\n'");
}

#[test]
fn r22_bytes_that_are_no_utf_8_become_replacement_characters() {
    let session = session();
    assert_eq!(
        session.stdout(r"import os; os.write(1, b'\xff\xfe caf\xe9\n')"),
        "\u{fffd}\u{fffd} caf\u{fffd}\n"
    );
    assert_eq!(session.stdout(r"print('\udc80')"), "\\udc80\n");
}

#[test]
fn r27_what_a_thread_prints_between_cells_is_a_log_event() {
    let session = session();
    let mut logs = session.logs();
    session.good(
        "import os, threading, time
def late():
    while not os.path.exists('go'): time.sleep(0.01)
    print('late')
threading.Thread(target=late).start()",
    );
    wait(session.put_file("go", Vec::new())).unwrap();
    assert_eq!(next_logged_line(&mut logs), "late\n");
}

#[test]
fn r27_what_a_thread_of_an_earlier_cell_prints_is_in_no_other_cell() {
    let session = session();
    let mut logs = session.logs();
    session.good(
        "import threading
go = threading.Event()
def late():
    go.wait()
    print('late')
thread = threading.Thread(target=late)
thread.start()",
    );
    assert_eq!(
        session.stdout("print('before')\ngo.set()\nthread.join()\nprint('after')"),
        "before\nafter\n"
    );
    assert_eq!(next_logged_line(&mut logs), "late\n");
}

#[test]
fn r27_what_a_thread_prints_while_its_cell_runs_belongs_to_the_cell() {
    let code = "import threading
thread = threading.Thread(target=print, args=['in time'])
thread.start()
thread.join()";
    assert_eq!(session().stdout(code), "in time\n");
}
