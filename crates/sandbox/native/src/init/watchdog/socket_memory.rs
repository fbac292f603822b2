//! Memory in the buffers of a session's sockets. The kernel tells it for every socket of a network namespace, also for those that wait in
//! another socket or to be accepted, and that no process has open.

use crate::sys::text::leading_number;
use crate::sys::{Errno, Fd, Result, close, each_line_at, each_line_while_at, nr, syscall};

/// What a socket takes by itself.
const SOCKET_BYTES: u64 = 2048;
/// What one buffer of a socket can hold where the kernel does not tell: the default size, which the filter does not let code change.
pub const BUFFER_BYTES: u64 = 212_992;

/// Bytes that all sockets of this process's network namespace hold. Ends early when they are more than `limit`.
pub fn bytes(proc_directory: Fd, limit: u64) -> u64 {
    let mut sum = of_unix(proc_directory, limit);
    for protocol in [TCP, UDP] {
        if sum <= limit && is_in_use(proc_directory, protocol) {
            sum += of_internet(proc_directory, protocol, limit, |_| true);
        }
    }
    if sum <= limit {
        sum += of_netlink(proc_directory, limit);
    }
    sum
}

/// Bytes that connections hold which wait to be accepted, in this process's network namespace: no cgroup counts them. Ends early when they are
/// more than `limit`. Where the kernel does not list connections, all of TCP count, with as much as they can hold.
pub fn unaccepted_bytes(proc_directory: Fd, limit: u64) -> u64 {
    if is_in_use(proc_directory, TCP) {
        of_internet(proc_directory, TCP, limit, is_unaccepted)
    } else {
        0
    }
}

/// Whether an answer is about a connection that no process has accepted: it has no inode yet. A connection that a process has closed has none
/// any more, but is in another state, and its cgroup goes on counting it.
fn is_unaccepted(answer: &[u8]) -> bool {
    const STATE: usize = 1;
    const INODE: core::ops::Range<usize> = 68..72;
    const ESTABLISHED: u8 = 1;
    const CLOSED_BY_PEER: u8 = 8;
    answer.get(INODE) == Some(&[0; 4])
        && matches!(answer.get(STATE), Some(&(ESTABLISHED | CLOSED_BY_PEER)))
}

/// Sockets to the kernel, in which its answers wait until they are read.
fn of_netlink(proc_directory: Fd, limit: u64) -> u64 {
    let mut sum = 0;
    let _ = each_line_while_at(proc_directory, c"self/net/netlink", |line| {
        sum += netlink_bytes(line).unwrap_or(0);
        sum <= limit
    });
    sum
}

/// What the socket in a line of `net/netlink` takes.
fn netlink_bytes(line: &[u8]) -> Option<u64> {
    const RECEIVED: usize = 4;
    let mut words = line
        .split(|byte| *byte == b' ')
        .filter(|word| !word.is_empty());
    let received = leading_number(words.nth(RECEIVED)?)?;
    let sent = leading_number(words.next()?)?;
    Some(SOCKET_BYTES + received + sent)
}

const UNIX: u8 = 1;
const INTERNET: [u8; 2] = [2, 10];
const TCP: u8 = 6;
const UDP: u8 = 17;

fn of_unix(proc_directory: Fd, limit: u64) -> u64 {
    const SHOW_PEER_QUEUE_MEMORY: u32 = 0x4 | 0x10 | 0x20;
    const DATAGRAM: u8 = 2;
    const LISTENS: u8 = 10;
    const HEAD: usize = 16;
    let mut request = [0; 24];
    request[0] = UNIX;
    request[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
    request[12..16].copy_from_slice(&SHOW_PEER_QUEUE_MEMORY.to_ne_bytes());
    let mut sum = 0;
    let dumped = dump(&request, |answer| {
        let [_, kind, state, _] = answer.first_chunk().copied().unwrap_or_default();
        let found = SocketReport::read(answer.get(HEAD..).unwrap_or(&[]), &UNIX_ATTRIBUTES);
        sum += SOCKET_BYTES + found.memory();
        // What was sent is charged to the sender; when the sender is closed, to no socket that is listed. Nor are those that wait to be accepted.
        if state == LISTENS {
            sum += u64::from(found.queued) * (SOCKET_BYTES + found.send_buffer);
        } else if found.queued > 0 && kind == DATAGRAM {
            sum += found.send_buffer * longest_queue(proc_directory);
        } else if found.queued > 0 && found.peer == Some(0) {
            sum += found.send_buffer;
        }
        sum <= limit
    });
    if dumped.is_err() {
        sum = unix_sockets(proc_directory) * BUFFER_BYTES;
    }
    sum
}

/// What the sockets of a protocol hold whose answers `is_counted` accepts.
fn of_internet(
    proc_directory: Fd,
    protocol: u8,
    limit: u64,
    is_counted: impl Fn(&[u8]) -> bool,
) -> u64 {
    const HEAD: usize = 72;
    const SHOW_MEMORY: u8 = 1 << (INTERNET_ATTRIBUTES.memory - 1);
    let mut sum = 0;
    for family in INTERNET {
        let mut request = [0; 56];
        request[..3].copy_from_slice(&[family, protocol, SHOW_MEMORY]);
        request[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
        let dumped = dump(&request, |answer| {
            if is_counted(answer) {
                let found =
                    SocketReport::read(answer.get(HEAD..).unwrap_or(&[]), &INTERNET_ATTRIBUTES);
                sum += SOCKET_BYTES + found.memory();
            }
            sum <= limit
        });
        if dumped.is_err() {
            let sockets = in_use(proc_directory, protocol, family);
            sum += sockets * 2 * BUFFER_BYTES;
        }
    }
    sum
}

/// Whether there are sockets of a protocol at all: to list them the kernel goes through those of the whole machine.
fn is_in_use(proc_directory: Fd, protocol: u8) -> bool {
    let used = INTERNET.map(|family| in_use(proc_directory, protocol, family));
    used != [0, 0]
}

fn in_use(proc_directory: Fd, protocol: u8, family: u8) -> u64 {
    const IN_USE: usize = 2;
    let (path, name): (_, &[u8]) = match (family == INTERNET[0], protocol) {
        (true, TCP) => (c"self/net/sockstat", b"TCP:"),
        (true, _) => (c"self/net/sockstat", b"UDP:"),
        (false, TCP) => (c"self/net/sockstat6", b"TCP6:"),
        (false, _) => (c"self/net/sockstat6", b"UDP6:"),
    };
    count(proc_directory, path, &[name], IN_USE)
}

/// How many Unix sockets there are in this process's network namespace, also those that no process has open.
pub fn unix_sockets(proc_directory: Fd) -> u64 {
    sockets_of(proc_directory, &[b"UNIX", b"UNIX-STREAM"])
}

/// How many netlink sockets processes have made in this process's network namespace. A socket counts until it is closed: also one that waits in
/// another socket, and one that has no address yet and is not listed in `net/netlink`.
pub fn netlink_sockets(proc_directory: Fd) -> u64 {
    sockets_of(proc_directory, &[b"NETLINK"])
}

/// How many sockets of these protocols there are.
fn sockets_of(proc_directory: Fd, protocols: &[&[u8]]) -> u64 {
    const SOCKETS: usize = 2;
    count(proc_directory, c"self/net/protocols", protocols, SOCKETS)
}

/// The sum of the numbers in this column of the lines that begin with one of the names.
fn count(proc_directory: Fd, path: &core::ffi::CStr, names: &[&[u8]], column: usize) -> u64 {
    let mut sum = 0;
    let _ = each_line_at(proc_directory, path, |line| {
        let mut words = line
            .split(|byte| *byte == b' ')
            .filter(|word| !word.is_empty());
        if words.next().is_some_and(|name| names.contains(&name)) {
            sum += words.nth(column - 1).and_then(leading_number).unwrap_or(0);
        }
    });
    sum
}

/// How many messages may wait in a datagram socket.
fn longest_queue(proc_directory: Fd) -> u64 {
    const USUAL: u64 = 10;
    let mut buffer = [0; 32];
    let path = c"sys/net/unix/max_dgram_qlen";
    let text = crate::sys::read_file_at(proc_directory, path, &mut buffer);
    1 + text.ok().and_then(leading_number).unwrap_or(USUAL)
}

/// The numbers of what an answer may hold.
struct Attributes {
    peer: u16,
    queue: u16,
    memory: u16,
}

const UNIX_ATTRIBUTES: Attributes = Attributes {
    peer: 2,
    queue: 4,
    memory: 5,
};
const INTERNET_ATTRIBUTES: Attributes = Attributes {
    peer: u16::MAX,
    queue: u16::MAX,
    memory: 7,
};

/// What the kernel tells of a socket.
#[derive(Debug, Default, PartialEq, Eq)]
struct SocketReport {
    /// The inode of the socket at its other end, 0 when that was closed; if it ever had one.
    peer: Option<u32>,
    /// Bytes that wait to be read, or sockets that wait to be accepted.
    queued: u32,
    send_buffer: u64,
    received: u64,
    /// Bytes on their way, of sockets that hand them to a device or to another socket at once.
    sent: u64,
    /// Bytes that a TCP socket keeps until the other end has confirmed them. They stay when the socket is closed.
    unconfirmed: u64,
    options: u64,
    backlog: u64,
}

impl SocketReport {
    fn read(mut attributes: &[u8], numbers: &Attributes) -> SocketReport {
        let mut found = SocketReport::default();
        while let Some(head) = attributes.first_chunk::<4>() {
            let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
            let number = u16::from_ne_bytes([head[2], head[3]]);
            let Some(value) = attributes.get(4..length) else {
                break;
            };
            let word = |index: usize| {
                let bytes = value.get(4 * index..)?.first_chunk::<4>()?;
                Some(u32::from_ne_bytes(*bytes))
            };
            let bytes = |index| u64::from(word(index).unwrap_or(0));
            if number == numbers.peer {
                found.peer = word(0);
            } else if number == numbers.queue {
                found.queued = word(0).unwrap_or(0);
            } else if number == numbers.memory {
                // As `SK_MEMINFO_` numbers them.
                (found.received, found.sent) = (bytes(0), bytes(2));
                (found.send_buffer, found.unconfirmed) = (bytes(3), bytes(5));
                found.options = bytes(6);
                found.backlog = bytes(7);
            }
            attributes = attributes
                .get(length.next_multiple_of(4)..)
                .unwrap_or_default();
        }
        found
    }

    fn memory(&self) -> u64 {
        // What is on its way is a part of what is not confirmed.
        self.received + self.sent.max(self.unconfirmed) + self.options + self.backlog
    }
}

/// Asks the kernel for all sockets of a kind and calls `visit` with each answer, until that says that it is enough.
fn dump(request: &[u8], mut visit: impl FnMut(&[u8]) -> bool) -> Result<()> {
    const NETLINK: usize = 16;
    const RAW_CLOEXEC: usize = 3 | 0o2_000_000;
    const SOCK_DIAG: usize = 4;
    // A new one each time: what was asked for and not read must not be taken for the next answer.
    // SAFETY: no pointers.
    let socket = unsafe { syscall(nr::SOCKET, [NETLINK, RAW_CLOEXEC, SOCK_DIAG]) }? as Fd;
    let outcome = ask(socket, request).and_then(|()| receive_answers(socket, &mut visit));
    close(socket);
    outcome
}

const HEADER: usize = 16;

fn ask(socket: Fd, request: &[u8]) -> Result<()> {
    const BY_FAMILY: u16 = 20;
    const REQUEST_DUMP: u16 = 0x301;
    let mut message = [0; HEADER + 64];
    let length = HEADER + request.len();
    let buffer = message.get_mut(HEADER..length).ok_or(Errno::OVERFLOW)?;
    buffer.copy_from_slice(request);
    message[..4].copy_from_slice(&(length as u32).to_ne_bytes());
    message[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    message[6..8].copy_from_slice(&REQUEST_DUMP.to_ne_bytes());
    let words = [socket as usize, message.as_ptr() as usize, length, 0, 0, 0];
    // SAFETY: the message is ours and its length is told; without an address it goes to the kernel.
    unsafe { syscall(nr::SENDTO, words) }.map(drop)
}

fn receive_answers(socket: Fd, visit: &mut impl FnMut(&[u8]) -> bool) -> Result<()> {
    const DONTWAIT: usize = 0x40;
    const ERROR: u16 = 2;
    const DONE: u16 = 3;
    let mut buffer = [0u8; 16 << 10];
    loop {
        let words = [
            socket as usize,
            buffer.as_mut_ptr() as usize,
            buffer.len(),
            DONTWAIT,
            0,
            0,
        ];
        // SAFETY: the buffer is ours and its length is told.
        let length = unsafe { syscall(nr::RECVFROM, words) }?;
        let mut rest = &buffer[..length.min(buffer.len())];
        if rest.is_empty() {
            return Err(Errno::PROTO);
        }
        while let Some(head) = rest.first_chunk::<6>() {
            let length = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let body = rest.get(HEADER..length).ok_or(Errno::PROTO)?;
            match u16::from_ne_bytes([head[4], head[5]]) {
                DONE => return Ok(()),
                ERROR => return Err(Errno::NOENT),
                _ if !visit(body) => return Ok(()),
                _ => {}
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixDatagram, UnixStream};

    fn attribute(number: u16, words: &[u32]) -> std::vec::Vec<u8> {
        let mut bytes = ((4 + 4 * words.len()) as u16).to_ne_bytes().to_vec();
        bytes.extend(number.to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn what_the_kernel_tells_of_a_socket_is_read() {
        let mut bytes = attribute(5, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        bytes.extend(attribute(4, &[10, 11]));
        bytes.extend(attribute(2, &[0]));
        let found = SocketReport::read(&bytes, &UNIX_ATTRIBUTES);
        let expected = SocketReport {
            peer: Some(0),
            queued: 10,
            send_buffer: 4,
            received: 1,
            sent: 3,
            unconfirmed: 6,
            options: 7,
            backlog: 8,
        };
        assert_eq!(found, expected);
        assert_eq!(found.memory(), 1 + 6 + 7 + 8);
        // What is cut off is nothing.
        let cut = SocketReport::read(&bytes[..20], &UNIX_ATTRIBUTES);
        assert_eq!(cut, SocketReport::default());
    }

    #[test]
    fn what_a_connection_keeps_counts_also_when_its_sender_is_gone() {
        const LEAST: u64 = 1 << 20;
        let processes = crate::walls::mounts::open_proc().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        sender.set_nonblocking(true).unwrap();
        let mut sent = 0;
        while let Ok(count) = sender.write(&[1; 65536]) {
            sent += count as u64;
        }
        assert!(sent > LEAST, "{sent}");
        let is_counted = || bytes(processes, u64::MAX) >= sent;
        assert!(is_counted());
        drop(sender);
        assert!(is_counted());
        close(processes);
    }

    #[test]
    fn a_connection_counts_as_not_accepted_until_it_is_accepted() {
        const SENT: u64 = 30_000;
        let processes = crate::walls::mounts::open_proc().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connect = || {
            let mut sender = TcpStream::connect(address).unwrap();
            sender.write_all(&[1; SENT as usize]).unwrap();
            sender
        };
        // Other tests have connections too.
        let port = address.port().to_be_bytes();
        let is_counted = |answer: &[u8]| is_unaccepted(answer) && answer[4..6] == port;
        let counted = || of_internet(processes, TCP, u64::MAX, is_counted);
        assert_eq!(counted(), 0);
        let (open, closed) = (connect(), connect());
        drop(closed);
        assert!(counted() >= 2 * SENT);
        assert!(unaccepted_bytes(processes, u64::MAX) >= 2 * SENT);
        let accepted = [listener.accept().unwrap(), listener.accept().unwrap()];
        assert_eq!(counted(), 0);
        // One that is closed again has no inode either.
        drop(accepted);
        drop(open);
        assert_eq!(counted(), 0);
        close(processes);
    }

    #[test]
    fn what_waits_in_sockets_counts_and_goes_on_counting_when_its_sender_is_gone() {
        const EACH: u64 = 100_000;
        const PAIRS: u64 = 64;
        let processes = crate::walls::mounts::open_proc().unwrap();
        let message = [1; EACH as usize];
        let mut pairs = std::vec::Vec::new();
        for _ in 0..PAIRS {
            let (mut near, far) = UnixStream::pair().unwrap();
            near.write_all(&message).unwrap();
            pairs.push((near, far));
        }
        assert!(bytes(processes, u64::MAX) >= PAIRS * EACH);
        let far: std::vec::Vec<UnixStream> = pairs.into_iter().map(|(_, far)| far).collect();
        assert!(bytes(processes, u64::MAX) >= PAIRS * EACH);
        // It need not be known how much it is, only that it is enough.
        assert!(bytes(processes, EACH) > EACH);
        drop(far);
        let (near, far) = UnixDatagram::pair().unwrap();
        near.send(&message).unwrap();
        drop(near);
        assert!(bytes(processes, u64::MAX) >= EACH);
        drop(far);
        close(processes);
    }
}
