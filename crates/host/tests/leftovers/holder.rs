//! A host in a process of its own, with sessions whose cells never end.

use super::common::{
    Child, descendants, is_root, new_directory, new_host, process, processes, wait,
};
use cellblock_host::Host;
use cellblock_protocol::{Cell, Event, Isolation, Rung};
use cellblock_sandbox::ProcEntry;
use cellblock_session::{Running, Session};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;
use std::{env, fs, io};
use tempfile::TempDir;

const DIRECTORY: &str = "CELLBLOCK_HOLDER";
const READY: &str = "every cell runs";

/// Cells as they are when a host dies: one computes, one waits, one has daemons that left its group and its session.
const CELLS: [&str; 3] = [
    "print('on', flush=True)\nwhile True: pass",
    "import time; print('on', flush=True); time.sleep(600)",
    r"
import os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 100)
            os.execv('/bin/sleep', ['sleep', '86398'])
        os._exit(0)
print('on', flush=True)
time.sleep(600)
",
];

/// Not a test of its own: what the other process runs.
#[test]
fn holder_of_sessions() {
    let Some(directory) = env::var_os(DIRECTORY) else {
        return;
    };
    let host = new_host(Path::new(&directory));
    let mut held = Vec::new();
    for rung in [Rung::Full, Rung::Landlock, Rung::None] {
        for code in CELLS {
            let builder = host.session().isolation(Isolation::on(rung));
            let session = wait(builder.start()).unwrap();
            let fork = (rung == Rung::Full).then(|| wait(session.fork()).unwrap());
            for session in [Some(session), fork].into_iter().flatten() {
                let mut running = session
                    .start(Cell::new(code).timeout(Duration::from_secs(600)))
                    .unwrap();
                // A line and its end can be two events.
                let first = wait(running.next());
                let is_on =
                    matches!(&first, Some(Event::Stdout { text }) if text.starts_with("on"));
                assert!(is_on, "{first:?}");
                held.push((session, running));
            }
        }
    }
    if is_root() {
        held.push(borrow(&host, &borrowed_below(Path::new(&directory))));
    }
    println!("{READY}");
    io::stdout().flush().unwrap();
    io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// A directory of the user's, in which a session works that has no namespaces.
fn borrow(host: &Host, given: &Path) -> (Session, Running) {
    let builder = host.session().workspace(given);
    let session = wait(builder.isolation(Isolation::on(Rung::Landlock)).start()).unwrap();
    let code = "open('made', 'w').close(); print('on', flush=True); input()";
    let mut running = session
        .start(Cell::new(code).timeout(Duration::from_secs(600)))
        .unwrap();
    wait(running.next());
    (session, running)
}

fn borrowed_below(directory: &Path) -> PathBuf {
    directory.join("given")
}

/// The other process.
pub(crate) struct Holder {
    pub(crate) process: Child,
    directory: TempDir,
    /// It has more to say, and would fail if nobody took it.
    _output: BufReader<ChildStdout>,
}

impl Holder {
    /// Starts it and waits until all its cells run.
    pub(crate) fn start() -> Holder {
        let directory = new_directory();
        fs::create_dir(borrowed_below(directory.path())).unwrap();
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["holder::holder_of_sessions", "--exact", "--nocapture"])
            .env(DIRECTORY, directory.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Child::start(&mut command);
        let mut output = BufReader::new(process.0.stdout.take().unwrap());
        let ready = output
            .by_ref()
            .lines()
            .map_while(Result::ok)
            .any(|line| line.contains(READY));
        assert!(ready, "the other host did not come up");
        Holder {
            process,
            directory,
            _output: output,
        }
    }

    /// Everything that it started, with when it started: numbers are used again.
    pub(crate) fn descendants(&self) -> BTreeSet<Descendant> {
        descendants(self.process.pid())
            .into_iter()
            .filter_map(|process| Descendant::of(process.pid))
            .collect()
    }

    /// The daemons that its cells started.
    pub(crate) fn daemons(&self) -> usize {
        descendants(self.process.pid())
            .iter()
            .filter(|process| process.name == "sleep")
            .count()
    }

    /// The directories of its cgroups.
    pub(crate) fn cgroups(&self) -> Vec<PathBuf> {
        let prefix = format!("cellblock-{}-", self.process.pid());
        let mut found = Vec::new();
        find(
            Path::new("/sys/fs/cgroup"),
            6,
            &|name| name.starts_with(&prefix),
            &mut found,
        );
        found
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The user's directory that one of its sessions works in.
    pub(crate) fn borrowed(&self) -> PathBuf {
        borrowed_below(self.directory.path())
    }
}

fn find(directory: &Path, depth: usize, wanted: &impl Fn(&str) -> bool, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
    {
        if entry.file_name().to_str().is_some_and(wanted) {
            found.push(entry.path());
        } else if depth > 0 {
            find(&entry.path(), depth - 1, wanted, found);
        }
    }
}

/// A process that cannot be mistaken for a later one of the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Descendant {
    pub(crate) pid: u32,
    started: u64,
}

impl Descendant {
    fn of(pid: u32) -> Option<Descendant> {
        let started = ProcEntry::of(pid).stat()?.started;
        Some(Descendant { pid, started })
    }

    /// Whether it still runs; one that is dead and waits for its parent does not.
    pub(crate) fn is_there(&self) -> bool {
        Descendant::of(self.pid) == Some(*self)
            && process(self.pid).is_some_and(|found| found.state != 'Z')
    }
}

/// Processes of the machine that hold `word` in their command line or work in a directory below it.
pub(crate) fn bound_to(word: &Path) -> Vec<u32> {
    let is_bound = |pid: u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let place = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word.to_str().unwrap()) || place.starts_with(word)
    };
    processes()
        .into_iter()
        .map(|process| process.pid)
        .filter(|pid| is_bound(*pid))
        .collect()
}
