//! Processes that use the memory of another process: a child of `vfork` until it begins its program, and the helper that copies the head.

use crate::init::watchdog::process_memory::ProcessMemory;
use crate::sys::{Errno, Fd, Pid, nr, syscall};

/// What is known of a process and the memory of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryUser {
    /// Both use the same memory, which must be counted once.
    Same,
    /// Each has memory of its own. That stays so: only a process that is just made can use the memory of another one.
    Apart,
    /// The kernel does not tell.
    Unknown,
}

impl MemoryUser {
    /// Asks the kernel about two threads that live, one of each process. To be asked before the memory of the second one is looked at, and not
    /// after: a process leaves the memory that it used in common when it begins a program.
    ///
    /// Threads that have ended use no memory, and to the kernel any two of them use the same. So the answer counts only if the second one still lives after it.
    pub fn of(proc_directory: Fd, first: Pid, second: Pid) -> MemoryUser {
        const MEMORY: usize = 1;
        let words = [first as usize, second as usize, MEMORY, 0, 0];
        // SAFETY: no pointers.
        match unsafe { syscall(nr::KCMP, words) } {
            Ok(0) if ProcessMemory::of_thread(proc_directory, second).is_there() => {
                MemoryUser::Same
            }
            // One of them has ended.
            Ok(_) | Err(Errno::SRCH) => MemoryUser::Apart,
            Err(_) => MemoryUser::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_whose_memory_a_process_uses() {
        let processes = crate::walls::mounts::open_proc().unwrap();
        let own = std::process::id() as Pid;
        let mut child = std::process::Command::new("sleep");
        let mut child = child.arg("60").spawn().unwrap();
        // The kernel wakes the parent a moment before the child leaves the parent's memory, and names the child after that.
        let name = std::format!("/proc/{}/comm", child.id());
        while std::fs::read_to_string(&name).unwrap() != "sleep\n" {
            std::thread::yield_now();
        }
        let found = [own, child.id() as Pid].map(|other| MemoryUser::of(processes, own, other));
        child.kill().unwrap();
        child.wait().unwrap();
        crate::sys::close(processes);
        assert_eq!(found, [MemoryUser::Same, MemoryUser::Apart]);
    }

    #[test]
    fn two_processes_that_have_ended_do_not_use_the_same_memory() {
        let processes = crate::walls::mounts::open_proc().unwrap();
        let mut children = [(); 2].map(|()| std::process::Command::new("true").spawn().unwrap());
        let [first, second] = [0, 1].map(|index: usize| children[index].id() as Pid);
        for pid in [first, second] {
            while crate::init::stopped::is_living(processes, pid) {
                std::thread::yield_now();
            }
        }
        let found = MemoryUser::of(processes, first, second);
        for child in &mut children {
            child.wait().unwrap();
        }
        crate::sys::close(processes);
        assert_ne!(found, MemoryUser::Same);
    }
}
