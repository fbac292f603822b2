//! Descriptors that carry nothing but events, in the copy of a head that becomes a fork: `eventfd`, `timerfd`, `signalfd` and `epoll`.
//!
//! A descriptor leads to an object of the kernel's that the copy shares with its parent. A thread of the copy that waits at an `epoll` would take
//! events from the parent. So before any thread of the copy runs, each of these objects is made anew with the same state. What an `epoll`
//! watches besides (pipes, sockets) is made anew later, by the guest, which then registers it again.

use crate::arch::EpollEvent;
use crate::init::sweep::each_entry;
use crate::sys::text::{Text, hexadecimal, leading_number};
use crate::sys::{
    Fd, Result, close, each_line_at, nr, open, open_at, open_flags, read_link_at, set_file_flags,
    syscall, write_all,
};

/// The most descriptors of these kinds that are made anew. Those beyond are closed.
const MAX_DESCRIPTORS: usize = 1024;

#[derive(Clone, Copy, PartialEq, Eq)]
enum EventKind {
    Counter,
    Timer,
    Signals,
    Watch,
}

/// One descriptor of these kinds.
#[derive(Clone, Copy)]
struct EventDescriptor {
    number: Fd,
    kind: EventKind,
    is_renewed: bool,
}

struct FoundList {
    entries: [EventDescriptor; MAX_DESCRIPTORS],
    count: usize,
}

/// Makes every descriptor of these kinds anew. One that cannot be made anew is closed: it must not lead to the parent.
pub fn renew() -> Result<()> {
    let own = open(
        c"/proc/self",
        open_flags::RDONLY | open_flags::DIRECTORY | open_flags::CLOEXEC,
        0,
    )?;
    let outcome = find(own).map(|mut list| {
        for kind in [
            EventKind::Counter,
            EventKind::Timer,
            EventKind::Signals,
            EventKind::Watch,
        ] {
            renew_all(own, &mut list, kind);
        }
    });
    close(own);
    outcome
}

/// What an `eventfd` counts to at the moment; `None` for any other descriptor.
pub fn count_of(number: Fd) -> Option<u64> {
    let flags = open_flags::RDONLY | open_flags::DIRECTORY | open_flags::CLOEXEC;
    let own = open(c"/proc/self", flags, 0).ok()?;
    let mut count = None;
    let read = each_information_line(own, number, |line| {
        if line.starts_with(b"eventfd-count:") {
            let mut state = EventState::default();
            state.take(line);
            count = Some(state.count);
        }
    });
    close(own);
    read.ok().and(count)
}

fn find(own: Fd) -> Result<FoundList> {
    let descriptors = open_at(
        own,
        c"fd",
        open_flags::RDONLY | open_flags::DIRECTORY | open_flags::CLOEXEC,
        0,
    )?;
    let mut list = FoundList {
        entries: [EventDescriptor {
            number: -1,
            kind: EventKind::Counter,
            is_renewed: false,
        }; MAX_DESCRIPTORS],
        count: 0,
    };
    each_entry(descriptors, |number| {
        let Some(kind) = kind_of(descriptors, number) else {
            return;
        };
        match list.entries.get_mut(list.count) {
            Some(slot) => {
                *slot = EventDescriptor {
                    number,
                    kind,
                    is_renewed: false,
                };
                list.count += 1;
            }
            None => close(number),
        }
    });
    close(descriptors);
    Ok(list)
}

fn kind_of(descriptors: Fd, number: Fd) -> Option<EventKind> {
    let path = Text::<16>::new(format_args!("{number}")).ok()?;
    let mut target = [0; 32];
    let length = read_link_at(descriptors, path.as_c_str(), &mut target).ok()?;
    match &target[..length] {
        b"anon_inode:[eventfd]" => Some(EventKind::Counter),
        b"anon_inode:[timerfd]" => Some(EventKind::Timer),
        b"anon_inode:[signalfd]" => Some(EventKind::Signals),
        b"anon_inode:[eventpoll]" => Some(EventKind::Watch),
        _ => None,
    }
}

fn renew_all(own: Fd, list: &mut FoundList, kind: EventKind) {
    for index in 0..list.count {
        let found = list.entries[index];
        if found.kind != kind || found.is_renewed {
            continue;
        }
        let fresh = EventState::read(own, found.number).and_then(|state| match kind {
            EventKind::Counter => new_counter(&state),
            EventKind::Timer => new_timer(&state),
            EventKind::Signals => new_signals(&state),
            EventKind::Watch => new_watch(own, found.number, list),
        });
        let shared = share_description(list, index);
        let others = list.entries[..list.count].iter_mut().zip(shared);
        for (entry, _) in others.filter(|(_, is_shared)| *is_shared) {
            entry.is_renewed = true;
            let number = entry.number;
            if fresh.and_then(|fresh| replace(fresh, number)).is_err() {
                close(number);
            }
        }
        if let Ok(fresh) = fresh {
            close(fresh);
        }
    }
}

/// Which descriptors from `index` on lead to the same open object: copies of one descriptor (`dup`). The kernel's own comparison (`kcmp`) is
/// behind the filter. So a flag that means nothing to these objects is switched on one of them, and looked for at the others.
fn share_description(list: &FoundList, index: usize) -> [bool; MAX_DESCRIPTORS] {
    let mut shared = [false; MAX_DESCRIPTORS];
    shared[index] = true;
    let first = list.entries[index];
    let Ok(before) = flags_of(first.number) else {
        return shared;
    };
    for (state, wanted) in [(before ^ open_flags::APPEND, true), (before, false)] {
        if set_file_flags(first.number, state).is_err() {
            break;
        }
        let others = list.entries[..list.count].iter().zip(&mut shared);
        for (entry, is_shared) in others.skip(index + 1) {
            if entry.kind != first.kind || entry.is_renewed {
                continue;
            }
            let agrees =
                flags_of(entry.number).is_ok_and(|flags| (flags ^ state) & open_flags::APPEND == 0);
            // It must follow both changes.
            *is_shared = agrees && (wanted || *is_shared);
        }
    }
    shared
}

/// Puts `fresh` in the place of a descriptor. Whether programs inherit the descriptor stays as it was.
fn replace(fresh: Fd, number: Fd) -> Result<()> {
    const F_GETFD: usize = 1;
    // SAFETY: descriptors only.
    let closes = unsafe { syscall(nr::FCNTL, [number as usize, F_GETFD, 0]) }? & 1;
    let words = [
        fresh as usize,
        number as usize,
        closes * open_flags::CLOEXEC,
    ];
    // SAFETY: descriptors only.
    unsafe { syscall(nr::DUP3, words) }.map(drop)
}

fn flags_of(number: Fd) -> Result<usize> {
    const F_GETFL: usize = 3;
    // SAFETY: descriptors only.
    unsafe { syscall(nr::FCNTL, [number as usize, F_GETFL, 0]) }
}

/// What `/proc/self/fdinfo` tells of one of these objects.
#[derive(Default)]
struct EventState {
    flags: usize,
    count: u64,
    is_semaphore: bool,
    clock: usize,
    expirations: u64,
    /// Seconds and nanoseconds.
    value: [u64; 2],
    interval: [u64; 2],
    signals: u64,
}

impl EventState {
    fn read(own: Fd, number: Fd) -> Result<EventState> {
        let mut state = EventState {
            flags: flags_of(number)?,
            ..EventState::default()
        };
        each_information_line(own, number, |line| state.take(line))?;
        Ok(state)
    }

    fn take(&mut self, line: &[u8]) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            return;
        };
        let (key, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        match key {
            b"eventfd-count" => self.count = hexadecimal(value).unwrap_or(0),
            b"eventfd-semaphore" => self.is_semaphore = value == b"1",
            b"clockid" => self.clock = leading_number(value).unwrap_or(0) as usize,
            b"ticks" => self.expirations = leading_number(value).unwrap_or(0),
            b"it_value" => self.value = time(value).unwrap_or_default(),
            b"it_interval" => self.interval = time(value).unwrap_or_default(),
            b"sigmask" => self.signals = hexadecimal(value).unwrap_or(0),
            _ => {}
        }
    }
}

/// `(seconds, nanoseconds)`.
fn time(text: &[u8]) -> Option<[u64; 2]> {
    let inner = text.strip_prefix(b"(")?;
    let comma = inner.iter().position(|byte| *byte == b',')?;
    Some([
        leading_number(inner)?,
        leading_number(inner[comma + 1..].trim_ascii())?,
    ])
}

fn each_information_line(own: Fd, number: Fd, visit: impl FnMut(&[u8])) -> Result<()> {
    let path = Text::<24>::new(format_args!("fdinfo/{number}"))?;
    each_line_at(own, path.as_c_str(), visit)
}

fn new_counter(state: &EventState) -> Result<Fd> {
    const SEMAPHORE: usize = 1;
    let flags = state.flags & open_flags::NONBLOCK
        | open_flags::CLOEXEC
        | if state.is_semaphore { SEMAPHORE } else { 0 };
    // SAFETY: numbers only.
    let fresh = unsafe { syscall(nr::EVENTFD2, [0, flags]) }? as Fd;
    // The first number of `eventfd` has 32 bits only.
    if state.count > 0 {
        write_all(fresh, &state.count.to_ne_bytes())?;
    }
    Ok(fresh)
}

fn new_timer(state: &EventState) -> Result<Fd> {
    let flags = state.flags & open_flags::NONBLOCK | open_flags::CLOEXEC;
    // SAFETY: numbers only.
    let fresh = unsafe { syscall(nr::TIMERFD_CREATE, [state.clock, flags]) }? as Fd;
    let mut value = state.value;
    // What has expired and was not read yet expires again at once.
    if state.expirations > 0 {
        value = [0, 1];
    }
    let times = [state.interval[0], state.interval[1], value[0], value[1]];
    let words = [fresh as usize, 0, times.as_ptr() as usize, 0];
    // SAFETY: the times live through the call.
    unsafe { syscall(nr::TIMERFD_SETTIME, words) }.map(|_| fresh)
}

fn new_signals(state: &EventState) -> Result<Fd> {
    let flags = state.flags & open_flags::NONBLOCK | open_flags::CLOEXEC;
    let words = [
        usize::MAX,
        &raw const state.signals as usize,
        size_of::<u64>(),
        flags,
    ];
    // SAFETY: the mask lives through the call.
    unsafe { syscall(nr::SIGNALFD4, words) }.map(|fd| fd as Fd)
}

/// An `epoll` that watches what the old one watches of the other three kinds, which are made anew by now.
fn new_watch(own: Fd, number: Fd, list: &FoundList) -> Result<Fd> {
    // SAFETY: numbers only.
    let fresh = unsafe { syscall(nr::EPOLL_CREATE1, [open_flags::CLOEXEC]) }? as Fd;
    each_information_line(own, number, |line| {
        if let Some((watched, event)) = registration(line)
            && list.entries[..list.count]
                .iter()
                .any(|found| found.number == watched && found.kind != EventKind::Watch)
        {
            let _ = register(fresh, watched, event);
        }
    })?;
    Ok(fresh)
}

fn register(watch: Fd, watched: Fd, event: EpollEvent) -> Result<()> {
    const ADD: usize = 1;
    let words = [
        watch as usize,
        ADD,
        watched as usize,
        &raw const event as usize,
    ];
    // SAFETY: the event lives through the call.
    unsafe { syscall(nr::EPOLL_CTL, words) }.map(drop)
}

/// `tfd:        5 events:       1d data: ffffffffffffffff  pos:0 ino:61af sdev:7`
fn registration(line: &[u8]) -> Option<(Fd, EpollEvent)> {
    let mut words = line
        .split(|byte| *byte == b' ')
        .filter(|word| !word.is_empty());
    if words.next()? != b"tfd:" {
        return None;
    }
    let watched = leading_number(words.next()?)? as Fd;
    let events = hexadecimal(words.nth(1)?)? as u32;
    let data = hexadecimal(words.nth(1)?)?;
    Some((watched, EpollEvent { events, data }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_epoll_watches_is_read_with_the_code_s_own_number() {
        let line = b"tfd:        5 events: 8000201d data: ffff123456789abc  pos:0 ino:61af sdev:7";
        let event = EpollEvent {
            events: 0x8000_201D,
            data: 0xFFFF_1234_5678_9ABC,
        };
        assert_eq!(registration(line), Some((5, event)));
        assert_eq!(registration(b"pos:\t0"), None);
        assert_eq!(registration(b"tfd: 5 events:"), None);
    }

    #[test]
    fn counters_and_timers_are_read() {
        let mut state = EventState::default();
        for line in [
            &b"eventfd-count:               1f"[..],
            b"eventfd-semaphore: 1",
            b"clockid: 7",
            b"ticks: 2",
            b"it_value: (3, 49406829)",
            b"it_interval: (1, 0)",
            b"sigmask:\t0000000000000200",
        ] {
            state.take(line);
        }
        assert_eq!((state.count, state.is_semaphore), (31, true));
        assert_eq!((state.clock, state.expirations), (7, 2));
        assert_eq!((state.value, state.interval), ([3, 49_406_829], [1, 0]));
        assert_eq!(state.signals, 1 << 9);
    }
}
