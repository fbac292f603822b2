//! Messages with descriptors over Unix sockets.

use super::{Errno, Fd, Result, nr, syscall};

/// Most descriptors in one message.
pub const MAX_DESCRIPTORS: usize = 16;

const SOL_SOCKET: i32 = 1;
const SCM_RIGHTS: i32 = 1;
const NOSIGNAL: usize = 0x4000;
const CLOEXEC_ON_RECEIVE: usize = 0x4000_0000;

#[repr(C)]
struct Slice {
    base: usize,
    length: usize,
}

#[repr(C)]
struct Header {
    name: usize,
    name_length: u32,
    slices: *mut Slice,
    slice_count: usize,
    control: *mut Control,
    control_length: usize,
    flags: i32,
}

#[repr(C, align(8))]
struct Control {
    length: usize,
    level: i32,
    kind: i32,
    descriptors: [Fd; MAX_DESCRIPTORS],
}

const CONTROL_HEAD: usize = 16;

/// A connected pair of packet sockets, close-on-exec.
pub fn packet_pair() -> Result<(Fd, Fd)> {
    const UNIX: usize = 1;
    const SEQPACKET_CLOEXEC: usize = 5 | 0o2_000_000;
    let mut pair = [0; 2];
    // SAFETY: memory for two descriptors.
    unsafe {
        syscall(
            nr::SOCKETPAIR,
            [UNIX, SEQPACKET_CLOEXEC, 0, pair.as_mut_ptr() as usize],
        )
    }?;
    Ok((pair[0], pair[1]))
}

/// A pipe, close-on-exec: the end that is read, and the end that is written.
pub fn pipe() -> Result<(Fd, Fd)> {
    const CLOEXEC: usize = 0o2_000_000;
    let mut ends = [0; 2];
    // SAFETY: memory for two descriptors.
    unsafe { syscall(nr::PIPE2, [ends.as_mut_ptr() as usize, CLOEXEC]) }?;
    Ok((ends[0], ends[1]))
}

/// Sends one message with descriptors.
pub fn send(socket: Fd, bytes: &[u8], descriptors: &[Fd]) -> Result<()> {
    send_with(NOSIGNAL, socket, bytes, descriptors)
}

/// Sends one message if the socket takes it now, and never waits.
pub fn send_now(socket: Fd, bytes: &[u8], descriptors: &[Fd]) -> Result<()> {
    const DONTWAIT: usize = 0x40;
    send_with(NOSIGNAL | DONTWAIT, socket, bytes, descriptors)
}

fn send_with(flags: usize, socket: Fd, bytes: &[u8], descriptors: &[Fd]) -> Result<()> {
    let mut control = Control {
        length: 0,
        level: SOL_SOCKET,
        kind: SCM_RIGHTS,
        descriptors: [0; MAX_DESCRIPTORS],
    };
    let mut slice = Slice {
        base: bytes.as_ptr() as usize,
        length: bytes.len(),
    };
    let mut control_length = 0;
    if !descriptors.is_empty() {
        if descriptors.len() > MAX_DESCRIPTORS {
            return Err(Errno::OVERFLOW);
        }
        for (slot, fd) in control.descriptors.iter_mut().zip(descriptors) {
            *slot = *fd;
        }
        control.length = CONTROL_HEAD + size_of_val(descriptors);
        control_length = control.length.next_multiple_of(8);
    }
    let header = Header {
        name: 0,
        name_length: 0,
        slices: &raw mut slice,
        slice_count: 1,
        control: if control_length == 0 {
            core::ptr::null_mut()
        } else {
            &raw mut control
        },
        control_length,
        flags: 0,
    };
    loop {
        // SAFETY: the header and all it points to live through the call.
        match unsafe {
            syscall(
                nr::SENDMSG,
                [socket as usize, &raw const header as usize, flags],
            )
        } {
            Err(Errno::INTR) => {}
            outcome => return outcome.map(drop),
        }
    }
}

/// Reads an option of a socket. Returns how many bytes it has.
pub fn socket_option(socket: Fd, level: i32, option: i32, bytes: &mut [u8]) -> Result<usize> {
    let mut length = bytes.len() as u32;
    let words = [
        socket as usize,
        level as usize,
        option as usize,
        bytes.as_mut_ptr() as usize,
        &raw mut length as usize,
    ];
    // SAFETY: the bytes and their number live through the call.
    unsafe { syscall(nr::GETSOCKOPT, words) }?;
    Ok(length as usize)
}

/// The process that made a pair of sockets, as we count.
pub fn maker_of(socket: Fd) -> Result<super::Pid> {
    const PEERCRED: i32 = 17;
    // `struct ucred`: process, user, group.
    let mut credentials = [0; 12];
    socket_option(socket, SOL_SOCKET, PEERCRED, &mut credentials)?;
    let [a, b, c, d, ..] = credentials;
    Ok(super::Pid::from_ne_bytes([a, b, c, d]))
}

/// The number of the network namespace that a socket was made in. No other namespace ever has it.
pub fn network_namespace_of(socket: Fd) -> Result<u64> {
    const NAMESPACE_COOKIE: i32 = 71;
    let mut cookie = [0; 8];
    socket_option(socket, SOL_SOCKET, NAMESPACE_COOKIE, &mut cookie)?;
    Ok(u64::from_ne_bytes(cookie))
}

/// What came in one message.
#[derive(Default)]
pub struct Received {
    /// How many bytes; 0 means that the other side has gone.
    pub bytes: usize,
    /// The descriptors that came along.
    pub descriptors: [Fd; MAX_DESCRIPTORS],
    /// How many of them.
    pub count: usize,
}

/// Receives one message; descriptors arrive close-on-exec.
pub fn receive(socket: Fd, buffer: &mut [u8]) -> Result<Received> {
    let mut control = Control {
        length: 0,
        level: 0,
        kind: 0,
        descriptors: [-1; MAX_DESCRIPTORS],
    };
    let mut slice = Slice {
        base: buffer.as_mut_ptr() as usize,
        length: buffer.len(),
    };
    let mut header = Header {
        name: 0,
        name_length: 0,
        slices: &raw mut slice,
        slice_count: 1,
        control: &raw mut control,
        control_length: size_of::<Control>(),
        flags: 0,
    };
    let bytes = loop {
        // SAFETY: the header and all it points to live through the call.
        match unsafe {
            syscall(
                nr::RECVMSG,
                [
                    socket as usize,
                    &raw mut header as usize,
                    CLOEXEC_ON_RECEIVE,
                ],
            )
        } {
            Err(Errno::INTR) => {}
            outcome => break outcome?,
        }
    };
    let told = header.control_length >= CONTROL_HEAD
        && control.level == SOL_SOCKET
        && control.kind == SCM_RIGHTS;
    let count = if told {
        control.length.saturating_sub(CONTROL_HEAD) / size_of::<Fd>()
    } else {
        0
    };
    Ok(Received {
        bytes,
        descriptors: control.descriptors,
        count: count.min(MAX_DESCRIPTORS),
    })
}
