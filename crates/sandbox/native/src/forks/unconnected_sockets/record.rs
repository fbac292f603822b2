//! What a socket was, so that another can take its place.

use super::options::{self, Options};
use crate::sys::{Fd, Result, nr, socket_option, status, syscall};

const UNIX: i32 = 1;
const INTERNET: i32 = 2;
const INTERNET_6: i32 = 10;
const STREAM: i32 = 1;
const DATAGRAM: i32 = 2;

/// One socket. The guest keeps the memory, and reads the first numbers.
#[repr(C)]
pub struct Record {
    /// The descriptor that leads to it, or `CLOSED`.
    pub descriptor: Fd,
    /// After it was made anew: 0, or why that failed.
    pub error: i32,
    /// Whether something waited in it: connections that were not accepted, or datagrams that were not read.
    has_waiting: i32,
    /// The setting because of which the socket cannot be made anew; zeros where it is not a setting.
    other_level: i32,
    other_option: i32,
    /// How many connections may wait; negative if it does not listen.
    backlog: i32,
    /// What kind of socket it is.
    pub domain: i32,
    /// The type argument of `socket(2)`.
    pub kind: i32,
    /// The protocol argument of `socket(2)`.
    pub protocol: i32,
    /// The flags of `F_GETFL`, for example `O_NONBLOCK`.
    pub file_flags: u32,
    /// The socket's own number: the same for all descriptors that lead to it.
    pub inode: u64,
    address_bytes: u32,
    address: [u8; MAX_ADDRESS_BYTES],
    /// The values of its options.
    pub options: Options,
}

const MAX_ADDRESS_BYTES: usize = 128;

/// What is to be done about a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Handling {
    /// It goes on as it is in a copy.
    Shared = 0,
    /// The record tells how it is made anew.
    Recreated = 1,
    /// It listens, and cannot be made anew as it was.
    Obstacle = 2,
}

impl Record {
    /// The descriptor of a socket that was closed after it was recorded.
    pub const CLOSED: Fd = -1;

    /// A record that tells of nothing.
    #[cfg(test)]
    pub fn empty() -> Record {
        // SAFETY: all of it is numbers.
        unsafe { core::mem::zeroed() }
    }

    /// Looks at a socket, and fills the record.
    pub fn fill(&mut self, descriptor: Fd) -> Handling {
        let listens = options::number(descriptor, (options::SOCKET, options::ACCEPTS))
            .is_ok_and(|value| value != 0);
        match self.try_fill(descriptor, listens) {
            Ok(Some(())) => Handling::Recreated,
            Ok(None) if listens && !self.has_path() => Handling::Obstacle,
            Ok(None) => Handling::Shared,
            Err(_) if listens => Handling::Obstacle,
            Err(_) => Handling::Shared,
        }
    }

    /// None if the socket is of another kind, or could not be made anew as it is.
    fn try_fill(&mut self, descriptor: Fd, listens: bool) -> Result<Option<()>> {
        self.descriptor = descriptor;
        self.error = 0;
        self.domain = options::number(descriptor, (options::SOCKET, options::DOMAIN))?;
        self.kind = options::number(descriptor, (options::SOCKET, options::KIND))?;
        self.protocol = options::number(descriptor, (options::SOCKET, options::PROTOCOL))?;
        self.inode = status(descriptor)?.inode;
        self.file_flags = file_flags(descriptor)?;
        self.read_address(descriptor)?;
        if !self.is_known_kind() || !self.is_bound() || (!listens && is_connected(descriptor)) {
            return Ok(None);
        }
        let state = TcpState::of(descriptor);
        self.backlog = match (listens, &state) {
            (false, _) => -1,
            (true, Ok(state)) => state.backlog,
            // The kernel does not tell that of other sockets.
            (true, Err(_)) => DEFAULT_BACKLOG,
        };
        let waiting = match (listens, &state) {
            (true, Ok(state)) => state.waiting > 0,
            _ => is_readable(descriptor),
        };
        self.has_waiting = i32::from(waiting);
        const ASYNC: u32 = 0o20_000;
        if self.file_flags & ASYNC != 0 {
            return Ok(None);
        }
        self.options = Options::of(descriptor);
        let fresh = super::new_socket(self.domain, self.kind, self.protocol)?;
        let other = options::first_other(descriptor, fresh, self.domain, self.protocol);
        crate::sys::close(fresh);
        (self.other_level, self.other_option) = other.unwrap_or_default();
        Ok(other.is_none().then_some(()))
    }

    /// Where it is bound.
    pub fn address(&self) -> &[u8] {
        &self.address[..(self.address_bytes as usize).min(MAX_ADDRESS_BYTES)]
    }

    /// How many connections may wait, if it listens.
    pub fn backlog(&self) -> Option<usize> {
        usize::try_from(self.backlog).ok()
    }

    fn read_address(&mut self, descriptor: Fd) -> Result<()> {
        self.address_bytes = MAX_ADDRESS_BYTES as u32;
        let words = [
            descriptor as usize,
            self.address.as_mut_ptr() as usize,
            &raw mut self.address_bytes as usize,
        ];
        // SAFETY: the address and its size live through the call.
        unsafe { syscall(nr::GETSOCKNAME, words) }.map(drop)
    }

    fn is_known_kind(&self) -> bool {
        const TCP: i32 = 6;
        const UDP: i32 = 17;
        match (self.domain, self.kind) {
            (INTERNET | INTERNET_6, STREAM) => self.protocol == TCP,
            (INTERNET | INTERNET_6, DATAGRAM) => self.protocol == UDP,
            (UNIX, _) => !self.has_path(),
            _ => false,
        }
    }

    fn is_bound(&self) -> bool {
        match self.domain {
            UNIX => self.address().len() > FAMILY_BYTES,
            // The port.
            _ => self.address().get(2..4).is_some_and(|port| port != [0, 0]),
        }
    }

    /// Whether its address is the path of a file.
    fn has_path(&self) -> bool {
        self.domain == UNIX
            && self
                .address()
                .get(FAMILY_BYTES)
                .is_some_and(|first| *first != 0)
    }
}

const FAMILY_BYTES: usize = 2;
const DEFAULT_BACKLOG: i32 = 128;

fn is_connected(descriptor: Fd) -> bool {
    let mut address = [0u8; MAX_ADDRESS_BYTES];
    let mut length = MAX_ADDRESS_BYTES as u32;
    let words = [
        descriptor as usize,
        address.as_mut_ptr() as usize,
        &raw mut length as usize,
    ];
    // SAFETY: the address and its size live through the call.
    let has_peer = unsafe { syscall(nr::GETPEERNAME, words) }.is_ok();
    // A connection that is being made, or has ended, has no peer either.
    const CLOSED: u8 = 7;
    has_peer || TcpState::of(descriptor).is_ok_and(|state| state.state != CLOSED)
}

fn is_readable(descriptor: Fd) -> bool {
    const IS_READABLE: i16 = 1;
    let mut wanted = [crate::sys::Poll::readable(descriptor)];
    crate::sys::poll(&mut wanted, 0) > 0 && wanted[0].seen & IS_READABLE != 0
}

fn file_flags(descriptor: Fd) -> Result<u32> {
    const F_GETFL: usize = 3;
    // SAFETY: descriptors only.
    unsafe { syscall(nr::FCNTL, [descriptor as usize, F_GETFL, 0]) }.map(|flags| flags as u32)
}

/// The first part of `struct tcp_info`.
struct TcpState {
    state: u8,
    waiting: i32,
    backlog: i32,
}

impl TcpState {
    fn of(descriptor: Fd) -> Result<TcpState> {
        const INFO: i32 = 11;
        let mut bytes = [0; options::MAX_BYTES];
        socket_option(descriptor, options::TCP, INFO, &mut bytes)?;
        let number = |place: usize| {
            i32::from_ne_bytes([
                bytes[place],
                bytes[place + 1],
                bytes[place + 2],
                bytes[place + 3],
            ])
        };
        Ok(TcpState {
            state: bytes[0],
            // For a socket that listens these stand in the place of `unacked` and `sacked`.
            waiting: number(24),
            backlog: number(28),
        })
    }
}
