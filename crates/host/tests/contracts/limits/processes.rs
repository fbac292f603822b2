//! Limits of processes and threads: what a cell is told that starts too many.

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
