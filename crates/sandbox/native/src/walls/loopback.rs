//! The session's own loopback, and its way out, where it has one: sockets on that loopback, at which the host listens.
//!
//! The network namespace of a session has nothing but a loopback. Code may bind and connect there. For a way out, init makes sockets that listen there and hands them to the host,
//! which accepts connections as if it were inside. So nothing of the session's speaks with the outside; the host does, for it.

use crate::sys::{self, Errno, Fd, Result, close, nr, send, syscall, write_file};
use crate::walls::mounts;
use crate::wire::config::{Item, Items};
use crate::wire::message::{At, Failure, Message, Stage, from_init};
use core::ffi::CStr;

const INTERNET: u16 = 2;

#[repr(C)]
struct Address {
    family: u16,
    /// Both in the order of the network.
    port: [u8; 2],
    host: [u8; 4],
    zero: [u8; 8],
}

/// Switches the loopback on, listens on the ports that `items` list, and sends the sockets to the host. The namespace must be the session's own.
pub fn open(items: Items<'_>, control: Fd) -> core::result::Result<(), Failure> {
    raise_loopback().at(Stage::Loopback)?;
    for (number, (port, place)) in items.of(Item::LoopbackPort).enumerate() {
        let socket = listen(port, place).at(Stage::Loopback)?;
        let message = Message {
            kind: from_init::LOOPBACK_SOCKET,
            a: number as u64,
            ..Message::default()
        };
        let sent = send(control, &message.to_bytes(), &[socket]);
        close(socket);
        sent.at(Stage::Loopback)?;
    }
    Ok(())
}

/// Lets an address be had again as soon as the connections of a server have ended. Outside, they are remembered for a minute, because packets
/// may be under way; on a loopback there are none. A server that is made anew after a crash needs its address at once. Where `/proc/sys`
/// cannot be written, it stays as outside.
pub fn forget_ended_connections() {
    let _ = write_file(c"/proc/sys/net/ipv4/tcp_max_tw_buckets", b"0");
}

/// Puts each text of `items` in the place of a file that the session sees, such as `/etc/hosts`. Forks see it too.
pub fn replace_files(items: Items<'_>) -> core::result::Result<(), Failure> {
    for (text, path) in items.of(Item::File) {
        mounts::cover(path, text.to_bytes()).at(Stage::Loopback)?;
    }
    Ok(())
}

fn listen(port: &CStr, place: &CStr) -> Result<Fd> {
    const STREAM_CLOEXEC: usize = 1 | 0o2_000_000;
    const BACKLOG: usize = 128;
    let place = number(place)?.to_be_bytes();
    let address = Address {
        family: INTERNET,
        port: number(port)?.to_be_bytes(),
        // 127.0.0.1 for the proxy, and 127.1.x.y for hosts by name.
        host: if place == [0, 0] {
            [127, 0, 0, 1]
        } else {
            [127, 1, place[0], place[1]]
        },
        zero: [0; 8],
    };
    // SAFETY: numbers only.
    let socket = unsafe { syscall(nr::SOCKET, [INTERNET as usize, STREAM_CLOEXEC, 0]) }? as Fd;
    // SAFETY: the address lives through the call and its size is told.
    let bound = unsafe {
        syscall(
            nr::BIND,
            [
                socket as usize,
                &raw const address as usize,
                size_of::<Address>(),
            ],
        )
    };
    // SAFETY: numbers only.
    let listens = bound.and_then(|_| unsafe { syscall(nr::LISTEN, [socket as usize, BACKLOG]) });
    match listens {
        Ok(_) => Ok(socket),
        Err(error) => {
            close(socket);
            Err(error)
        }
    }
}

/// A new network namespace has a loopback that is switched off.
fn raise_loopback() -> Result<()> {
    const DATAGRAM_CLOEXEC: usize = 2 | 0o2_000_000;
    const SET_FLAGS: usize = 0x8914;
    const UP_AND_RUNNING: u16 = 0x41;
    /// `struct ifreq`.
    #[repr(C)]
    struct Request {
        name: [u8; 16],
        flags: u16,
        rest: [u8; 22],
    }
    let mut name = [0; 16];
    name[..2].copy_from_slice(b"lo");
    let request = Request {
        name,
        flags: UP_AND_RUNNING,
        rest: [0; 22],
    };
    // SAFETY: numbers only.
    let socket = unsafe { syscall(nr::SOCKET, [INTERNET as usize, DATAGRAM_CLOEXEC, 0]) }? as Fd;
    // SAFETY: the request lives through the call.
    let outcome = unsafe {
        syscall(
            nr::IOCTL,
            [socket as usize, SET_FLAGS, &raw const request as usize],
        )
    };
    sys::close(socket);
    outcome.map(drop)
}

fn number(text: &CStr) -> Result<u16> {
    let digits = text.to_bytes();
    if digits.is_empty() {
        return Err(Errno::INVAL);
    }
    digits.iter().try_fold(0u16, |number, digit| {
        let digit = digit
            .checked_sub(b'0')
            .filter(|digit| *digit < 10)
            .ok_or(Errno::INVAL)?;
        number
            .checked_mul(10)
            .and_then(|number| number.checked_add(digit.into()))
            .ok_or(Errno::INVAL)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_plain_numbers() {
        assert_eq!(number(c"3128"), Ok(3128));
        for wrong in [c"", c"x", c"-1", c"65536", c"1 "] {
            assert_eq!(number(wrong), Err(Errno::INVAL));
        }
    }
}
