//! The system call filter: a deny list of what no snippet needs and what kernels are attacked through.

use crate::sys::{Errno, Fd, Result, clone_flags, nr, syscall};

/// One instruction of the filter machine.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    value: u32,
}

const LOAD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER_EQUAL: u16 = 0x35;
const JUMP_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCHITECTURE: u32 = 4;
const X86_64: u32 = 0xC000_003E;
const X32: u32 = 0x4000_0000;

const ALLOW: u32 = 0x7FFF_0000;
const ASK_INIT: u32 = 0x7FC0_0000;
const KILL: u32 = 0x8000_0000;

const fn fail_with(errno: u32) -> u32 {
    0x0005_0000 | errno
}
const PERM: u32 = fail_with(1);
const ACCES: u32 = fail_with(13);
const NOSYS: u32 = fail_with(38);
const NO_FAMILY: u32 = fail_with(97);

const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

/// Refused with "operation not permitted".
const DENIED: &[usize] = &[
    // Mounts and roots.
    nr::MOUNT, nr::UMOUNT2, nr::PIVOT_ROOT, nr::CHROOT, nr::MOVE_MOUNT, nr::OPEN_TREE, nr::OPEN_TREE_ATTR, nr::FSOPEN,
    nr::FSCONFIG, nr::FSMOUNT, nr::FSPICK, nr::MOUNT_SETATTR, nr::QUOTACTL, nr::QUOTACTL_FD, nr::SWAPON, nr::SWAPOFF,
    // Namespaces.
    nr::UNSHARE, nr::SETNS,
    // Other processes' memory and descriptors.
    nr::PTRACE, nr::PROCESS_VM_READV, nr::PROCESS_VM_WRITEV, nr::PROCESS_MADVISE, nr::PROCESS_MRELEASE, nr::PIDFD_GETFD,
    nr::KCMP, nr::MOVE_PAGES, nr::MIGRATE_PAGES, nr::MBIND, nr::SET_MEMPOLICY,
    // Kernel interfaces with a long history of holes.
    nr::BPF, nr::PERF_EVENT_OPEN, nr::USERFAULTFD, nr::IO_URING_SETUP, nr::IO_URING_ENTER, nr::IO_URING_REGISTER,
    nr::KEYCTL, nr::ADD_KEY, nr::REQUEST_KEY, nr::FANOTIFY_INIT, nr::MEMFD_SECRET, nr::MODIFY_LDT, nr::VHANGUP,
    nr::PERSONALITY, nr::LOOKUP_DCOOKIE, nr::USELIB, nr::USTAT, nr::SYSFS, nr::NFSSERVCTL,
    // The machine itself.
    nr::KEXEC_LOAD, nr::KEXEC_FILE_LOAD, nr::INIT_MODULE, nr::FINIT_MODULE, nr::DELETE_MODULE, nr::REBOOT, nr::ACCT,
    nr::SYSLOG, nr::SETTIMEOFDAY, nr::CLOCK_SETTIME, nr::CLOCK_ADJTIME, nr::ADJTIMEX, nr::IOPL, nr::IOPERM,
    // Opening by handle goes around every directory.
    nr::OPEN_BY_HANDLE_AT, nr::NAME_TO_HANDLE_AT,
];

/// Sent to init, which refuses what would hit itself or a standby (`notify.rs`).
const ASKED: &[usize] = &[
    nr::KILL, nr::TKILL, nr::TGKILL, nr::RT_SIGQUEUEINFO, nr::RT_TGSIGQUEUEINFO, nr::PIDFD_OPEN, nr::SETPRIORITY,
    nr::IOPRIO_SET,
];

/// Sent to init only when they name another process: the first argument is not 0.
const ASKED_FOR_OTHERS: &[usize] =
    &[nr::PRLIMIT64, nr::SCHED_SETAFFINITY, nr::SCHED_SETATTR, nr::SCHED_SETPARAM, nr::SCHED_SETSCHEDULER];

const UNIX: u32 = 1;
const INET: u32 = 2;
const INET6: u32 = 10;
const NETLINK: u32 = 16;

/// Which sockets a session may make.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sockets {
    /// Internet sockets too: a network namespace around them leads nowhere.
    InEmptyNamespace,
    /// Only Unix sockets: there is no namespace that would stop the others.
    UnixOnly,
}

/// Who is asked about signals.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Signals {
    /// Init, through the listener that [`install`] returns.
    AskInit,
    /// Nobody.
    Free,
}

const MOST: usize = 320;

struct Program {
    instructions: [Instruction; MOST],
    length: usize,
}

/// Installs the filter for this process and all it starts. The listener, if asked for, belongs into init's hands.
pub fn install(sockets: Sockets, signals: Signals) -> Result<Option<Fd>> {
    const SET_MODE_FILTER: usize = 1;
    const NEW_LISTENER: usize = 8;
    let mut program = Program::new();
    program.build(sockets, signals);
    if program.length > MOST {
        return Err(Errno::OVERFLOW);
    }
    #[repr(C)]
    struct Filter {
        length: u16,
        instructions: *const Instruction,
    }
    let filter = Filter { length: program.length as u16, instructions: program.instructions.as_ptr() };
    let flags = if signals == Signals::AskInit { NEW_LISTENER } else { 0 };
    // SAFETY: the program lives through the call and its length is told.
    let outcome = unsafe { syscall(nr::SECCOMP, [SET_MODE_FILTER, flags, &raw const filter as usize]) }?;
    Ok((signals == Signals::AskInit).then_some(outcome as Fd))
}

impl Program {
    fn new() -> Program {
        Program { instructions: [Instruction { code: 0, if_true: 0, if_false: 0, value: 0 }; MOST], length: 0 }
    }

    fn build(&mut self, sockets: Sockets, signals: Signals) {
        self.add(LOAD, OFFSET_ARCHITECTURE, 0, 0);
        self.add(JUMP_EQUAL, X86_64, 1, 0);
        self.answer(KILL);
        self.add(LOAD, OFFSET_NUMBER, 0, 0);
        self.add(JUMP_GREATER_EQUAL, X32, 0, 1);
        self.answer(NOSYS);

        for &number in DENIED {
            self.when(number, PERM);
        }
        // C libraries fall back to `clone`, whose flags can be read; those of `clone3` lie in memory and cannot.
        self.when(nr::CLONE3, NOSYS);
        self.when(nr::OPENAT2, NOSYS);
        self.when_argument(nr::CLONE, 0, JUMP_ANY_BIT, clone_flags::ALL_NAMESPACES as u32 & !0x80, PERM);
        self.terminal_input();
        self.sockets(sockets);
        if signals == Signals::AskInit {
            for &number in ASKED {
                self.when(number, ASK_INIT);
            }
            for &number in ASKED_FOR_OTHERS {
                self.unless_zero(number, ASK_INIT);
            }
        }
        self.answer(ALLOW);
    }

    /// Typing into a terminal that is shared with a person.
    fn terminal_input(&mut self) {
        const TIOCSTI: u32 = 0x5412;
        const TIOCLINUX: u32 = 0x541C;
        self.add(JUMP_EQUAL, nr::IOCTL as u32, 0, 5);
        self.add(LOAD, argument(1), 0, 0);
        self.add(JUMP_EQUAL, TIOCSTI, 1, 0);
        self.add(JUMP_EQUAL, TIOCLINUX, 0, 1);
        self.answer(PERM);
        self.answer(ALLOW);
    }

    /// An allow list of families: the others (`AF_VSOCK` to the machine's owner, `AF_ALG`, raw packets, …) are not namespaced
    /// or not needed.
    fn sockets(&mut self, sockets: Sockets) {
        let internet = if sockets == Sockets::InEmptyNamespace { ALLOW } else { ACCES };
        for number in [nr::SOCKET, nr::SOCKETPAIR] {
            self.add(JUMP_EQUAL, number as u32, 0, 8);
            self.add(LOAD, argument(0), 0, 0);
            self.add(JUMP_EQUAL, UNIX, 0, 1);
            self.answer(ALLOW);
            self.add(JUMP_EQUAL, INET, 2, 0);
            self.add(JUMP_EQUAL, INET6, 1, 0);
            self.add(JUMP_EQUAL, NETLINK, 0, 1);
            self.answer(internet);
            self.answer(NO_FAMILY);
        }
    }

    fn when(&mut self, number: usize, answer: u32) {
        self.add(JUMP_EQUAL, number as u32, 0, 1);
        self.answer(answer);
    }

    fn when_argument(&mut self, number: usize, index: u32, test: u16, value: u32, answer: u32) {
        self.add(JUMP_EQUAL, number as u32, 0, 4);
        self.add(LOAD, argument(index), 0, 0);
        self.add(test, value, 0, 1);
        self.answer(answer);
        self.answer(ALLOW);
    }

    fn unless_zero(&mut self, number: usize, answer: u32) {
        self.add(JUMP_EQUAL, number as u32, 0, 4);
        self.add(LOAD, argument(0), 0, 0);
        self.add(JUMP_EQUAL, 0, 0, 1);
        self.answer(ALLOW);
        self.answer(answer);
    }

    fn answer(&mut self, answer: u32) {
        self.add(RETURN, answer, 0, 0);
    }

    fn add(&mut self, code: u16, value: u32, if_true: u8, if_false: u8) {
        if let Some(slot) = self.instructions.get_mut(self.length) {
            *slot = Instruction { code, if_true, if_false, value };
        }
        self.length += 1;
    }
}
