//! The processes of this machine, seen from outside of every wall.

use cellblock_sandbox::{ProcEntry, ProcStat};
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;
use std::{fs, io};

/// Whether the test runs as root.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// One process of this machine, seen from outside of every wall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// The id of its parent.
    pub parent: u32,
    /// Its state, as `/proc` says it.
    pub state: char,
    /// The name of its program, cut by the kernel.
    pub name: String,
}

/// Every process of this machine that is not yet reaped.
pub fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| process(entry.file_name().to_str()?.parse().ok()?))
        .collect()
}

/// One process, if it is there.
pub fn process(pid: u32) -> Option<Process> {
    let ProcStat {
        name,
        state,
        parent,
        ..
    } = ProcEntry::of(pid).stat()?;
    Some(Process {
        pid,
        parent,
        state,
        name,
    })
}

/// Everything that a process started, and what that started, and so on; those that ended and were not reaped included.
pub fn descendants(pid: u32) -> Vec<Process> {
    let all = processes();
    let mut found: Vec<Process> = Vec::new();
    let mut open = vec![pid];
    while let Some(parent) = open.pop() {
        for process in all.iter().filter(|process| process.parent == parent) {
            open.push(process.pid);
            found.push(process.clone());
        }
    }
    found
}

/// The processes whose process namespace is this one. A session's processes are found by it wherever they went.
pub fn in_process_namespace(namespace: &str) -> Vec<Process> {
    let inside =
        |process: &Process| process_namespace(process.pid).is_ok_and(|found| found == namespace);
    processes().into_iter().filter(inside).collect()
}

/// The memory of them all.
pub fn memory_in_process_namespace(namespace: &str) -> u64 {
    memory_of(&in_process_namespace(namespace))
}

/// The memory of these processes together: a page that n processes share counts one n-th in each.
pub fn memory_of(processes: &[Process]) -> u64 {
    let share = |process: &Process| {
        let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", process.pid)).ok()?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("Pss_Anon:"))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    processes.iter().filter_map(share).sum::<u64>() << 10
}

/// How many of them have this name.
pub fn in_process_namespace_named(namespace: &str, name: &str) -> usize {
    in_process_namespace(namespace)
        .iter()
        .filter(|process| process.name == name)
        .count()
}

/// The command lines of all processes, their words ended by zero bytes.
pub fn command_lines() -> impl Iterator<Item = String> {
    let read = |process: Process| fs::read(format!("/proc/{}/cmdline", process.pid)).ok();
    processes()
        .into_iter()
        .filter_map(read)
        .map(|line| String::from_utf8_lossy(&line).into_owned())
}

/// The process namespace of a process.
pub fn process_namespace(pid: u32) -> io::Result<String> {
    Ok(fs::read_link(format!("/proc/{pid}/ns/pid"))?
        .to_string_lossy()
        .into_owned())
}

/// A process that must live or die; ended when it is dropped.
pub struct Child(pub std::process::Child);

impl Child {
    /// Starts a command.
    pub fn start(command: &mut Command) -> Child {
        Child(command.spawn().unwrap())
    }

    /// A process of the host's that does nothing, in a group of its own.
    pub fn sleeping() -> Child {
        use std::os::unix::process::CommandExt as _;
        Child::start(Command::new("/bin/sleep").arg("600").process_group(0))
    }

    /// The id of the process.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Whether the process has not ended.
    pub fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
