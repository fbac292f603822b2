//! The filter, run on calls by a small machine that knows the few instructions we use.

use super::*;
use crate::arch::AUDIT_ARCHITECTURE;

/// What the kernel would do with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    Refused(u32),
    Asked,
    Killed,
}
use Verdict::*;

pub(super) const SEALED: Rules = Rules {
    sockets: Sockets::InEmptyNamespace,
    signals: Signals::NotifyInit,
    memory: KernelMemory::CountedByInit,
    objects: UserObjects::NotifyInit,
    ipc: Ipc::OfItsNamespace,
    starts: Starts::Free,
    forks: Forks::NotifyInit,
    changes: Changes::Free,
    blocks: Blocks::ByWriting,
    metadata: Metadata::Free,
    ids: Ids::OnlyOwn,
};
pub(super) const BARE: Rules = Rules {
    sockets: Sockets::PairsOnly,
    signals: Signals::Free,
    memory: KernelMemory::CountedByCgroup,
    objects: UserObjects::Free,
    ipc: Ipc::Forbidden,
    starts: Starts::NotifyInit,
    forks: Forks::Forbidden,
    changes: Changes::Free,
    blocks: Blocks::ByReserving,
    metadata: Metadata::ByInit,
    ids: Ids::Free,
};

pub(super) fn decide(rules: Rules, number: usize, arguments: [u64; 6]) -> Verdict {
    /// The instructions that look at the architecture, and for unknown numbers.
    const CHECKS: usize = 6;
    let begin = if is_there(number) { 0 } else { CHECKS };
    run_from(begin, rules, AUDIT_ARCHITECTURE, number as u32, arguments)
}

/// Whether this kind of processor has a call. The rules about one that it does not have are tried without the check that refuses it.
pub(super) fn is_there(number: usize) -> bool {
    number < 0x4000_0000
}

/// Arguments of a call that names no user and no group but the session's own.
fn with_own_ids(number: usize) -> [u64; 6] {
    let own = u64::from(users::SESSION_ID);
    match number {
        nr::CHOWN | nr::LCHOWN | nr::FCHOWN => [0, own, own, 0, 0, 0],
        nr::FCHOWNAT => [0, 0, own, own, 0, 0],
        _ => [0; 6],
    }
}

pub(super) fn run(rules: Rules, architecture: u32, number: u32, arguments: [u64; 6]) -> Verdict {
    run_from(0, rules, architecture, number, arguments)
}

fn run_from(
    begin: usize,
    rules: Rules,
    architecture: u32,
    number: u32,
    arguments: [u64; 6],
) -> Verdict {
    let mut program = Program::new();
    program.build(rules);
    let program = program.in_groups().expect("a filter in groups");
    interpret(&program, begin, architecture, number, arguments).0
}

/// The verdict of a filter, and how many instructions led to it.
pub(super) fn interpret(
    program: &Program,
    begin: usize,
    architecture: u32,
    number: u32,
    arguments: [u64; 6],
) -> (Verdict, usize) {
    assert!(
        program.length <= MAX_INSTRUCTIONS,
        "{} instructions",
        program.length
    );
    let load = |offset: u32| match offset {
        OFFSET_NUMBER => number,
        OFFSET_ARCHITECTURE => architecture,
        // The low half of an argument lies before the high one.
        argument if argument % 8 == 0 => arguments[(argument as usize - 16) / 8] as u32,
        argument => (arguments[(argument as usize - 16) / 8] >> 32) as u32,
    };
    let (mut at, mut accumulator) = (begin, number);
    for steps in 1.. {
        let Instruction {
            code,
            if_true,
            if_false,
            value,
        } = program.instructions[at];
        at += 1;
        let test = match code {
            LOAD => {
                accumulator = load(value);
                continue;
            }
            AND => {
                accumulator &= value;
                continue;
            }
            RETURN => return (verdict(value), steps),
            JUMP_EQUAL => accumulator == value,
            JUMP_GREATER_EQUAL => accumulator >= value,
            JUMP_ANY_BIT => accumulator & value != 0,
            other => panic!("instruction {other:#x}"),
        };
        at += usize::from(if test { if_true } else { if_false });
    }
    unreachable!("jumps lead forward only")
}

fn verdict(value: u32) -> Verdict {
    match value {
        ALLOW => Allowed,
        NOTIFY_INIT => Asked,
        KILL => Killed,
        refusal => Refused(refusal & 0xFFFF),
    }
}

#[test]
fn every_path_through_the_filter_ends() {
    for rules in [SEALED, BARE] {
        for number in 0..600 {
            decide(rules, number, [u64::MAX; 6]);
            decide(rules, number, [0; 6]);
        }
    }
}

#[test]
fn what_is_on_the_list_is_refused_whatever_its_arguments() {
    for &number in DENIED {
        assert_eq!(
            [
                decide(SEALED, number, [0; 6]),
                decide(BARE, number, [u64::MAX; 6])
            ],
            [Refused(1); 2],
            "call {number}"
        );
    }
}

#[test]
fn what_python_lives_on_is_allowed() {
    let plain = [
        nr::READ,
        nr::WRITE,
        nr::MMAP,
        nr::CLONE,
        nr::EXECVE,
        nr::EXIT_GROUP,
        nr::PPOLL,
        nr::FCNTL,
        nr::IOCTL,
    ];
    for number in plain {
        assert_eq!(decide(SEALED, number, [0; 6]), Allowed, "call {number}");
    }
}

#[test]
fn init_hears_of_each_start_where_the_kernel_counts_others_too() {
    for &number in STARTS {
        assert_eq!(
            [SEALED, BARE].map(|rules| decide(rules, number, [17, 0, 0, 0, 0, 0])),
            [Allowed, Asked],
            "call {number}"
        );
    }
    let user_namespace = 0x1000_0000 | 17;
    assert_eq!(
        decide(BARE, nr::CLONE, [user_namespace, 0, 0, 0, 0, 0]),
        Refused(1)
    );
}

#[test]
fn no_namespace_is_made_by_clone_and_c_libraries_fall_back_from_clone3() {
    let user_namespace = 0x1000_0000 | 17;
    assert_eq!(
        decide(SEALED, nr::CLONE, [user_namespace, 0, 0, 0, 0, 0]),
        Refused(1)
    );
    assert_eq!(decide(SEALED, nr::CLONE3, [0; 6]), Refused(38));
}

#[test]
fn unshare_tells_of_threads_and_makes_no_namespace() {
    let unshare = |flags: usize| decide(BARE, nr::UNSHARE, [flags as u64, 0, 0, 0, 0, 0]);
    assert_eq!(unshare(clone_flags::THREAD), Allowed);
    let in_session = |flags: usize| decide(SEALED, nr::UNSHARE, [flags as u64, 0, 0, 0, 0, 0]);
    assert_eq!(in_session(clone_flags::FILES), Asked);
    assert_eq!(
        in_session(clone_flags::FILES | clone_flags::NEWUSER),
        Refused(1)
    );
    for flags in [
        0,
        clone_flags::FILES,
        clone_flags::NEWUSER,
        clone_flags::NEWUSER | clone_flags::THREAD,
        0x80,
    ] {
        assert_eq!(unshare(flags), Refused(1));
    }
}

#[test]
fn no_file_gets_the_privileges_of_its_owner() {
    const CREATE: u64 = 0o101;
    const TEMPORARY: u64 = 0o20_200_001;
    let made = |flags, mode| decide(SEALED, nr::OPENAT, [0, 0, flags, mode, 0, 0]);
    assert_eq!(
        [
            made(CREATE, 0o4755),
            made(TEMPORARY, 0o2755),
            made(CREATE, 0o755),
            made(0, 0o4755)
        ],
        [Refused(1), Refused(1), Allowed, Allowed]
    );
    assert_eq!(
        decide(SEALED, nr::OPEN, [0, CREATE, 0o4755, 0, 0, 0]),
        Refused(1)
    );
    assert_eq!(
        decide(SEALED, nr::CHMOD, [0, 0o4755, 0, 0, 0, 0]),
        Refused(1)
    );
    assert_eq!(
        decide(SEALED, nr::FCHMODAT, [0, 0, 0o2755, 0, 0, 0]),
        Refused(1)
    );
    assert_eq!(decide(SEALED, nr::FCHMOD, [0, 0o1777, 0, 0, 0, 0]), Allowed);
    assert_eq!(
        decide(SEALED, nr::MKNODAT, [0, 0, 0o104755, 0, 0, 0]),
        Refused(1)
    );
}

#[test]
fn signals_are_init_s_to_judge() {
    let to_others = [nr::KILL, nr::TGKILL, nr::PIDFD_OPEN]
        .map(|number| decide(SEALED, number, [7, 9, 0, 0, 0, 0]));
    assert_eq!(to_others, [Asked; 3]);
    let own_limits = decide(SEALED, nr::PRLIMIT64, [0; 6]);
    let other_limits = decide(SEALED, nr::PRLIMIT64, [7, 0, 0, 0, 0, 0]);
    assert_eq!([own_limits, other_limits], [Allowed, Asked]);
    assert_eq!(decide(BARE, nr::KILL, [7, 9, 0, 0, 0, 0]), Allowed);
}

#[test]
fn a_descriptor_raises_no_signal_that_nobody_judged() {
    let control = |command| decide(SEALED, nr::FCNTL, [0, command, 7, 0, 0, 0]);
    let [set_owner, set_owner_in_memory, set_flags] = [8, 15, 4];
    assert_eq!(
        [
            control(set_owner),
            control(set_owner_in_memory),
            control(set_flags)
        ],
        [Asked, Refused(1), Allowed]
    );
    let device = |request| decide(SEALED, nr::IOCTL, [0, request, 0, 0, 0, 0]);
    let [type_into_terminal, set_owner, read_size] = [0x5412, 0x8901, 0x541B];
    assert_eq!(
        [
            device(type_into_terminal),
            device(set_owner),
            device(read_size)
        ],
        [Refused(1), Refused(1), Allowed]
    );
}

#[test]
fn objects_of_the_host_s_are_out_of_reach_where_there_is_no_namespace() {
    for &number in IPC {
        assert_eq!(
            [decide(SEALED, number, [0; 6]), decide(BARE, number, [0; 6])],
            [Allowed, Refused(1)],
            "call {number}"
        );
    }
}

#[test]
fn namespaces_are_entered_with_init_s_leave_or_not_at_all() {
    let enter = |rules| decide(rules, nr::SETNS, [3, 0x1000_0000, 0, 0, 0, 0]);
    assert_eq!([enter(SEALED), enter(BARE)], [Asked, Refused(1)]);
}

#[test]
fn tracing_is_refused_and_being_traced_is_asked_about() {
    let [trace_me, attach, seize] = [0, 16, 0x4206];
    let traced = |rules, request| decide(rules, nr::PTRACE, [request, 7, 0, 0, 0, 0]);
    assert_eq!(
        [trace_me, attach, seize].map(|request| traced(SEALED, request)),
        [Asked, Refused(1), Refused(1)]
    );
    assert_eq!(
        [trace_me, attach, seize].map(|request| traced(BARE, request)),
        [Refused(1); 3]
    );
}

#[test]
fn init_sets_the_limit_of_processes_in_the_place_of_a_session() {
    const PROCESSES: u64 = 6;
    let somewhere = 0x7FFF_0000_0000;
    let set = |resource, new| decide(SEALED, nr::PRLIMIT64, [0, resource, new, 0, 0, 0]);
    assert_eq!(set(PROCESSES, 0x1000), Asked);
    assert_eq!(set(PROCESSES, somewhere), Asked);
    assert_eq!([set(PROCESSES, 0), set(7, somewhere)], [Allowed; 2]);
    assert_eq!(
        decide(SEALED, nr::PRLIMIT64, [5, 7, somewhere, 0, 0, 0]),
        Asked
    );
    assert_eq!(
        [6, 7].map(|resource| decide(SEALED, nr::SETRLIMIT, [resource, 1, 0, 0, 0, 0])),
        [Asked, Allowed]
    );
}

#[test]
fn ids_of_others_are_refused_and_the_own_ones_are_not() {
    const OWN: u64 = 1000;
    const UNCHANGED: u64 = 0xFFFF_FFFF;
    for (number, first, count) in [
        (nr::SETUID, 0, 1),
        (nr::SETGID, 0, 1),
        (nr::SETREUID, 0, 2),
        (nr::SETREGID, 0, 2),
        (nr::SETRESUID, 0, 3),
        (nr::SETRESGID, 0, 3),
        (nr::CHOWN, 1, 2),
        (nr::LCHOWN, 1, 2),
        (nr::FCHOWN, 1, 2),
        (nr::FCHOWNAT, 2, 2),
    ] {
        let mut arguments = [7; 6];
        arguments[first..first + count].fill(OWN);
        assert_eq!(decide(SEALED, number, arguments), Allowed, "{number}");
        for id in first..first + count {
            let with = |value| {
                let mut arguments = arguments;
                arguments[id] = value;
                decide(SEALED, number, arguments)
            };
            assert_eq!(
                [with(UNCHANGED), with(u64::MAX), with(0), with(1001)],
                [Allowed, Allowed, Refused(1), Refused(1)],
                "{number}"
            );
        }
    }
    assert_eq!(decide(BARE, nr::SETUID, [0; 6]), Allowed);
}

#[test]
fn init_hears_of_changes_to_files_where_it_keeps_them() {
    const KEEPING: Rules = Rules {
        changes: Changes::NotifyInit,
        ..SEALED
    };
    let [read, write, read_and_empty] = [0, 0o101, 0o1000];
    let opened = |rules, flags| decide(rules, nr::OPENAT, [0, 0, flags, 0o644, 0, 0]);
    assert_eq!(
        [read, write, read_and_empty].map(|flags| opened(KEEPING, flags)),
        [Allowed, Asked, Asked]
    );
    assert_eq!(opened(SEALED, write), Allowed);
    // The longest program of all fits as well.
    let longest = Rules {
        signals: Signals::NotifyInit,
        memory: KernelMemory::CountedByInit,
        objects: UserObjects::NotifyInit,
        changes: Changes::NotifyInit,
        blocks: Blocks::ByWriting,
        ..BARE
    };
    assert_eq!(opened(longest, write), Asked);
    assert_eq!(
        decide(KEEPING, nr::OPENAT, [0, 0, write, 0o4755, 0, 0]),
        Refused(1)
    );
    assert_eq!(decide(KEEPING, nr::OPEN, [0, write, 0o644, 0, 0, 0]), Asked);
    let set_flags = |rules| decide(rules, nr::IOCTL, [3, 0x4008_6602, 0, 0, 0, 0]);
    assert_eq!(
        [set_flags(KEEPING), set_flags(SEALED)],
        [Refused(25), Allowed]
    );
    assert_eq!(
        decide(KEEPING, nr::IOCTL, [3, 0x5412, 0, 0, 0, 0]),
        Refused(1)
    );
    for &number in CHANGES.iter().chain(METADATA_CHANGES) {
        assert_eq!(
            [
                decide(KEEPING, number, with_own_ids(number)),
                decide(SEALED, number, with_own_ids(number))
            ],
            [Asked, Allowed],
            "call {number}"
        );
    }
}

#[test]
fn blocks_of_files_are_had_by_writing() {
    let asked = |rules, mode| decide(rules, nr::FALLOCATE, [3, mode, 0, 1 << 30, 0, 0]);
    let [grow, keep_size, zero, insert, unshare] = [0, 1, 0x10, 0x20, 0x40];
    for mode in [grow, keep_size, zero, zero | keep_size, insert, unshare] {
        assert_eq!(
            [asked(SEALED, mode), asked(BARE, mode)],
            [Refused(95), Allowed],
            "mode {mode:#x}"
        );
    }
    let [punch_hole, collapse] = [3, 8];
    assert_eq!(
        [punch_hole, collapse].map(|mode| asked(SEALED, mode)),
        [Allowed; 2]
    );
    let reserve = |rules, request| decide(rules, nr::IOCTL, [3, request, 0, 0, 0, 0]);
    for &request in RESERVES {
        assert_eq!(
            [
                reserve(SEALED, request.into()),
                reserve(BARE, request.into())
            ],
            [Refused(25), Allowed]
        );
    }
}

#[test]
fn what_landlock_does_not_look_at_is_init_s_to_do_where_it_alone_guards_files() {
    let [mode, empty_path] = [0o644, 0x1000];
    for (number, arguments) in [
        (nr::CHMOD, [0, mode, 0, 0, 0, 0]),
        (nr::FCHMODAT, [0, 0, mode, 0, 0, 0]),
        (nr::FCHMODAT2, [0, 0, mode, empty_path, 0, 0]),
        (nr::LCHOWN, with_own_ids(nr::LCHOWN)),
        (nr::FCHOWNAT, with_own_ids(nr::FCHOWNAT)),
        (nr::UTIMENSAT, [0; 6]),
        (nr::UTIME, [0; 6]),
        (nr::TRUNCATE, [0; 6]),
        (nr::LSETXATTR, [0; 6]),
        (nr::FREMOVEXATTR, [0; 6]),
        (nr::GETXATTR, [0; 6]),
        (nr::FLISTXATTR, [0; 6]),
    ] {
        let judged = [BARE, SEALED].map(|rules| decide(rules, number, arguments));
        assert_eq!(judged, [Asked, Allowed], "call {number}");
    }
    for &number in INVISIBLE_TO_LANDLOCK {
        assert_eq!(decide(BARE, number, [0; 6]), Refused(38), "call {number}");
    }
    // What Landlock looks at goes on: names, and opening.
    for number in [nr::LINK, nr::LINKAT, nr::RENAME, nr::UNLINK, nr::OPEN] {
        assert_eq!(decide(BARE, number, [0; 6]), Allowed, "call {number}");
    }
    let opened = |flags| decide(BARE, nr::OPENAT, [0, 0, flags, mode, 0, 0]);
    let [write, write_and_empty, read_and_empty] = [1, 0o1001, 0o1000];
    assert_eq!(
        [write, write_and_empty, read_and_empty].map(opened),
        [Allowed, Allowed, Refused(13)]
    );
    assert_eq!(decide(BARE, nr::CHMOD, [0, 0o4755, 0, 0, 0, 0]), Refused(1));
}
