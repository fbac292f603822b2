//! Sockets that have an address and no connection: servers that listen, and sockets for datagrams.
//!
//! A copy of the head that held such a socket would keep its address in use after the head has closed it, and clients would wait for a server
//! that no longer exists. So a standby lets go of them and keeps a record of each. When it goes on as the head, it makes them anew, before its
//! threads run: a thread that waited in `accept` waits at the new socket.
//!
//! Sockets with the path of a file for an address stay as they are: their names do not get into each other's way.

mod let_go_signal;
mod options;
mod ports;
mod record;

pub use let_go_signal::LetGoSignal;
pub use options::Options;
pub use record::{Handling, Record};

use ports::Connections;

use crate::sys::{Errno, Fd, Result, close, monotonic_milliseconds, nr, poll, status, syscall};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::SeqCst};

static RECORDS: AtomicPtr<Record> = AtomicPtr::new(null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Has the next copy of this process let go of these sockets. `connections` are the descriptors of its other sockets.
///
/// # Safety
/// The memory must stay as it is until this process, or its copy, has been told of others.
pub unsafe fn remember(records: &mut [Record], connections: &mut [Fd]) {
    RECORDS.store(records.as_mut_ptr(), SeqCst);
    COUNT.store(records.len(), SeqCst);
    ports::remember(connections);
}

/// In a standby: closes the recorded sockets but keeps their descriptor numbers taken, so that an address is free as soon as the head closes it.
pub fn let_go() {
    let records = all();
    if records.is_empty() {
        return;
    }
    let nothing = new_socket(UNIX, STREAM, 0);
    for record in records {
        if !status(record.descriptor).is_ok_and(|now| now.inode == record.inode) {
            // Another thread has closed the socket since it was looked at. The number may lead to something else.
            record.descriptor = Record::CLOSED;
            continue;
        }
        let replaced = nothing.and_then(|nothing| replace(nothing, record.descriptor));
        if replaced.is_err() {
            close(record.descriptor);
        }
    }
    if let Ok(nothing) = nothing {
        close(nothing);
    }
}

/// In a standby that goes on as the head, before it has other threads: makes them anew. `Record::error` says why a socket could not be made.
pub fn put_back() {
    let records = all();
    if records.is_empty() {
        return;
    }
    let connections = Connections::with_shared_ports();
    put_back_all(records);
    connections.restore();
}

fn put_back_all(records: &mut [Record]) {
    let deadline = monotonic_milliseconds() + MAX_WAIT_MILLISECONDS;
    for index in 0..records.len() {
        let (before, rest) = records.split_at_mut(index);
        let record = &mut rest[0];
        if record.descriptor == Record::CLOSED {
            continue;
        }
        let original = before.iter().find(|other| other.inode == record.inode);
        let outcome = match original {
            // One socket under two numbers.
            Some(original) if original.error == 0 => {
                replace(original.descriptor, record.descriptor)
            }
            Some(original) => Err(Errno(original.error)),
            None => put_back_one(record, deadline),
        };
        record.error = outcome.err().map_or(0, |Errno(number)| number);
    }
}

/// How long to wait for processes that have an address and are ending. The host ends a standby that is not up in a few seconds.
const MAX_WAIT_MILLISECONDS: u64 = 2_000;

fn put_back_one(record: &Record, deadline: u64) -> Result<()> {
    let fresh = new_socket(record.domain, record.kind, record.protocol)?;
    let outcome = arrange(record, fresh, deadline).and_then(|()| replace(fresh, record.descriptor));
    close(fresh);
    outcome
}

fn arrange(record: &Record, fresh: Fd, deadline: u64) -> Result<()> {
    record.options.set_before_binding(fresh)?;
    while let Err(error) = bind(fresh, record.address()) {
        if error != Errno::ADDRINUSE || monotonic_milliseconds() > deadline {
            return Err(error);
        }
        poll(&mut [], 1);
    }
    if let Some(backlog) = record.backlog() {
        // SAFETY: numbers only.
        unsafe { syscall(nr::LISTEN, [fresh as usize, backlog]) }?;
    }
    record.options.set_after_binding(fresh)?;
    crate::sys::set_file_flags(fresh, record.file_flags as usize)
}

const UNIX: i32 = 1;
const STREAM: i32 = 1;

fn new_socket(domain: i32, kind: i32, protocol: i32) -> Result<Fd> {
    const CLOEXEC: i32 = 0o2_000_000;
    let words = [
        domain as usize,
        (kind | CLOEXEC) as usize,
        protocol as usize,
    ];
    // SAFETY: numbers only.
    unsafe { syscall(nr::SOCKET, words) }.map(|socket| socket as Fd)
}

fn bind(socket: Fd, address: &[u8]) -> Result<()> {
    let words = [socket as usize, address.as_ptr() as usize, address.len()];
    // SAFETY: the address lives through the call and its size is told.
    unsafe { syscall(nr::BIND, words) }.map(drop)
}

/// Puts a socket in the place of a descriptor. Whether programs inherit the descriptor stays as it was.
fn replace(socket: Fd, descriptor: Fd) -> Result<()> {
    const F_GETFD: usize = 1;
    const CLOEXEC: usize = 0o2_000_000;
    // SAFETY: descriptors only.
    let closes = unsafe { syscall(nr::FCNTL, [descriptor as usize, F_GETFD, 0]) }? & 1;
    let words = [socket as usize, descriptor as usize, closes * CLOEXEC];
    // SAFETY: descriptors only.
    unsafe { syscall(nr::DUP3, words) }.map(drop)
}

fn all<'a>() -> &'a mut [Record] {
    let records = RECORDS.load(SeqCst);
    match COUNT.load(SeqCst) {
        0 => &mut [],
        // SAFETY: what `remember` was given; the process has one thread that is here.
        count => unsafe { core::slice::from_raw_parts_mut(records, count) },
    }
}

#[cfg(test)]
mod tests;
