//! Notifications of the kernel to init: what code calls, with any arguments.

use crate::Outcome;
use crate::choices::Choices;
use crate::objects::objects;
use cellblock_native::files::file_argument::FileArgument;
use cellblock_native::init::notify::{NOTIFICATION_BYTES, Notification, Protected, is_harmless};
use cellblock_native::sys::{Pid, Received, nr};

/// The processes that init protects: itself and a standby.
const INIT: Pid = 1;
const STANDBY: Pid = 7;

/// The calls that init is asked about because they concern other processes.
const CALLS: [usize; 11] = [
    nr::KILL,
    nr::TKILL,
    nr::TGKILL,
    nr::RT_SIGQUEUEINFO,
    nr::RT_TGSIGQUEUEINFO,
    nr::SETPRIORITY,
    nr::IOPRIO_SET,
    nr::FCNTL,
    nr::PRLIMIT64,
    nr::PIDFD_OPEN,
    nr::SCHED_SETAFFINITY,
];

/// Judges a call, and reads a notification that another init passed on. A call that the kernel would let touch the protected is refused.
pub fn notifications(bytes: &[u8]) -> Outcome {
    let mut choices = Choices::new(bytes);
    if choices.one_in(8) {
        objects(&mut choices.clone());
    }
    passed_on(&mut choices);
    let call = CALLS[choices.below(CALLS.len())];
    let arguments = [(); 6].map(|()| argument(&mut choices));
    let is_allowed = is_harmless(call, &arguments, &Family);
    let touched = touches(call, &arguments);
    assert!(
        !(is_allowed && touched),
        "the call {call} with {arguments:?} is allowed"
    );
    if is_allowed {
        Outcome::Accepted
    } else {
        Outcome::Refused
    }
}

struct Family;

impl Protected for Family {
    fn is_protected(&self, pid: Pid) -> bool {
        pid == INIT || pid == STANDBY
    }
}

/// A register: often a number that means something, with or without other bits above those that the kernel looks at.
fn argument(choices: &mut Choices<'_>) -> u64 {
    const NUMBERS: [i64; 12] = [
        7,
        1,
        0,
        -1,
        -7,
        2,
        3,
        8,
        9,
        i32::MIN as i64,
        i32::MAX as i64,
        -2,
    ];
    let number = match choices.below(3) {
        2 => choices.number(),
        _ => NUMBERS[choices.below(NUMBERS.len())] as u64,
    };
    match choices.below(4) {
        0 => number & 0xFFFF_FFFF,
        1 => number | choices.number() << 32,
        _ => number,
    }
}

/// Whether the kernel would let a call reach a protected process. Written from the manual pages, without the code that it checks.
fn touches(call: usize, arguments: &[u64; 6]) -> bool {
    // All these arguments are `int` or `pid_t`: the kernel takes the low half.
    let [first, second, third, ..] = arguments.map(|argument| argument as i32);
    let is_one = |pid: i32| pid == INIT || pid == STANDBY;
    let is_group = |pid: i32| pid.checked_neg().is_some_and(is_one);
    match call {
        nr::KILL => first == -1 || is_one(first) || is_group(first),
        nr::TGKILL | nr::RT_TGSIGQUEUEINFO => is_one(second) || (is_one(first) && second > 0),
        // PRIO_PROCESS, PRIO_PGRP, PRIO_USER.
        nr::SETPRIORITY => first == 2 || (matches!(first, 0 | 1) && is_one(second)),
        // IOPRIO_WHO_PROCESS, _PGRP, _USER.
        nr::IOPRIO_SET => first == 3 || (matches!(first, 1 | 2) && is_one(second)),
        // The owner of a descriptor's signals.
        nr::FCNTL => is_one(third) || is_group(third),
        _ => is_one(first),
    }
}

/// Bytes from another init. They are a notification with a name, or nothing.
fn passed_on(choices: &mut Choices<'_>) {
    let mut bytes = Vec::new();
    let numbers = [nr::OPENAT, nr::OPEN, nr::CREAT, nr::SETXATTR, nr::LINKAT];
    for field in 0..NOTIFICATION_BYTES / 8 {
        let mut number = choices.number();
        if field == 2 {
            number = numbers[choices.below(numbers.len())] as u64;
        }
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    let Some(mut notification) = Notification::from_bytes(&bytes) else {
        panic!("{} bytes are no notification", bytes.len());
    };
    assert_eq!(notification.as_bytes()[..], bytes[..]);
    assert!(notification.mode() <= 0o1777);
    let before = notification.mode();
    notification.apply_mask(choices.number() & 0o777);
    assert_eq!(notification.mode() & !before, 0, "a mask gave a permission");
    let length = choices.below(5000);
    let path = choices.below(5000) as u16;
    bytes.extend_from_slice(&[choices.byte() & 1, choices.byte() & 1]);
    bytes.extend_from_slice(&path.to_le_bytes());
    bytes.resize(bytes.len() + length, b'a');
    if choices.one_in(3) {
        let at = choices.below(bytes.len());
        bytes.truncate(at);
    }
    let received = Received {
        bytes: bytes.len(),
        ..Received::default()
    };
    if let Some((_, named)) = FileArgument::passed(&bytes, &received) {
        assert!(named.other().len() <= bytes.len());
        let _ = (named.is_unknown(), named.is_open_already());
        // An attribute has a name that ends, or there is none.
        let _ = named.attribute();
    }
}
