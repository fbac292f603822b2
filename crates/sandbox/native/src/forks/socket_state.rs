//! What a head and its standbys have in common of a socket beside what waits in it: its options, and its connection.
//!
//! A cell that failed may have set options of a socket that was there before: they are set again. It may have connected the socket, or ended a
//! direction of its connection (`shutdown`): that stays, and the result names it.

use crate::forks::unconnected_sockets::Options;
use crate::sys::{Errno, Fd, Poll, nr, poll, socket_option, syscall};

const MAX_ADDRESS_BYTES: usize = 128;

/// What is noted of a socket. A guest that reads it as bytes needs no more than its size.
#[repr(C)]
pub struct SocketState {
    options: Options,
    connection: Connection,
}

/// What was found when a socket was put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Difference {
    /// All is as it was.
    None = 0,
    /// An option that cannot be set again.
    Option = 1,
    /// Another connection, or another end of it.
    Connection = 2,
}

impl SocketState {
    /// Looks at a socket.
    pub fn of(socket: Fd) -> SocketState {
        SocketState {
            options: Options::of(socket),
            connection: Connection::of(socket),
        }
    }

    /// Sets the options as they were.
    pub fn put_back(&self, socket: Fd) -> Difference {
        let has_options = self.options.put_back(socket);
        if Connection::of(socket) != self.connection {
            Difference::Connection
        } else if has_options {
            Difference::None
        } else {
            Difference::Option
        }
    }
}

#[repr(C)]
#[derive(PartialEq, Eq)]
struct Connection {
    peer_bytes: u32,
    peer: [u8; MAX_ADDRESS_BYTES],
    /// The state of TCP; 0 of any other socket.
    tcp_state: u8,
    /// Whether nothing more can be received, and nothing more sent.
    ends: [bool; 2],
}

impl Connection {
    fn of(socket: Fd) -> Connection {
        let mut connection = Connection {
            peer_bytes: MAX_ADDRESS_BYTES as u32,
            peer: [0; MAX_ADDRESS_BYTES],
            tcp_state: tcp_state(socket),
            ends: [cannot_receive(socket), cannot_send(socket)],
        };
        let words = [
            socket as usize,
            connection.peer.as_mut_ptr() as usize,
            &raw mut connection.peer_bytes as usize,
        ];
        // SAFETY: memory for an address, and its length.
        if unsafe { syscall(nr::GETPEERNAME, words) }.is_err() {
            connection.peer_bytes = 0;
        }
        connection
    }
}

fn tcp_state(socket: Fd) -> u8 {
    const TCP_INFO: (i32, i32) = (6, 11);
    let mut state = [0; 4];
    let (level, option) = TCP_INFO;
    match socket_option(socket, level, option, &mut state) {
        Ok(_) => state[0],
        Err(_) => 0,
    }
}

fn cannot_receive(socket: Fd) -> bool {
    const READ_HANG_UP: i16 = 0x2000;
    let mut wanted = [Poll::readable(socket)];
    wanted[0].events |= READ_HANG_UP;
    poll(&mut wanted, 0) > 0 && wanted[0].seen & READ_HANG_UP != 0
}

/// Of a connection within the machine. (That of TCP has its state, and may have an error that waits to be read.)
fn cannot_send(socket: Fd) -> bool {
    const UNIX: [u8; 4] = 1i32.to_ne_bytes();
    const STREAM: [u8; 4] = 1i32.to_ne_bytes();
    const DOMAIN: (i32, i32) = (1, 39);
    const KIND: (i32, i32) = (1, 3);
    const DONT_WAIT_NO_SIGNAL: usize = 0x40 | 0x4000;
    let is = |(level, option): (i32, i32), wanted: [u8; 4]| {
        let mut bytes = [0; 4];
        socket_option(socket, level, option, &mut bytes).is_ok() && bytes == wanted
    };
    if !is(DOMAIN, UNIX) || !is(KIND, STREAM) {
        return false;
    }
    // Sends nothing.
    let words = [socket as usize, 0, 0, DONT_WAIT_NO_SIGNAL, 0, 0];
    // SAFETY: no bytes and no address are read.
    let sent = unsafe { syscall(nr::SENDTO, words) };
    sent == Err(Errno::PIPE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn an_end_of_a_connection_is_a_difference() {
        for direction in [Shutdown::Read, Shutdown::Write] {
            let (near, far) = UnixStream::pair().unwrap();
            let state = SocketState::of(near.as_raw_fd());
            assert_eq!(state.put_back(near.as_raw_fd()), Difference::None);
            near.shutdown(direction).unwrap();
            assert_eq!(state.put_back(near.as_raw_fd()), Difference::Connection);
            drop(far);
        }
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        let state = SocketState::of(near.as_raw_fd());
        assert_eq!(state.put_back(near.as_raw_fd()), Difference::None);
        near.shutdown(Shutdown::Write).unwrap();
        assert_eq!(state.put_back(near.as_raw_fd()), Difference::Connection);
    }

    #[test]
    fn an_option_is_set_again() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        let state = SocketState::of(near.as_raw_fd());
        near.set_nodelay(true).unwrap();
        near.set_ttl(7).unwrap();
        assert_eq!(state.put_back(near.as_raw_fd()), Difference::None);
        assert!(!near.nodelay().unwrap() && near.ttl().unwrap() != 7);
    }
}
