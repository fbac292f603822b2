//! The options of a socket: which are set again, and whether it has others.

use crate::sys::{Errno, Fd, Result, nr, socket_option, syscall};

/// `SOL_SOCKET`, and options of that level.
pub(super) const SOCKET: i32 = 1;
/// `SO_TYPE`.
pub(super) const KIND: i32 = 3;
/// `SO_ACCEPTCONN`.
pub(super) const ACCEPTS: i32 = 30;
/// `SO_PROTOCOL`.
pub(super) const PROTOCOL: i32 = 38;
/// `SO_DOMAIN`.
pub(super) const DOMAIN: i32 = 39;
/// `IPPROTO_TCP`.
pub(super) const TCP: i32 = 6;
const IP: i32 = 0;
const IP_6: i32 = 41;
const UDP: i32 = 17;
const INTERNET: i32 = 2;
const INTERNET_6: i32 = 10;

/// As many bytes as are read of any option.
pub(super) const MAX_BYTES: usize = 64;

/// How an option is named.
pub(super) type OptionName = (i32, i32);

/// `SO_REUSEADDR`.
pub(super) const REUSE_ADDRESS: OptionName = (SOCKET, 2);

/// What is set again, in this order. The sizes of buffers are read as twice what they are set to.
const KEPT: [OptionName; 40] = [
    (SOCKET, 6),              // BROADCAST
    (SOCKET, SEND_BUFFER),    // SNDBUF
    (SOCKET, RECEIVE_BUFFER), // RCVBUF
    (SOCKET, 72),             // BUF_LOCK: whether the sizes were asked for
    (SOCKET, 5),              // DONTROUTE
    (SOCKET, 9),              // KEEPALIVE
    (SOCKET, 10),             // OOBINLINE
    LINGER,
    (SOCKET, 15),  // REUSEPORT
    (SOCKET, 16),  // PASSCRED
    (SOCKET, 18),  // RCVLOWAT
    (SOCKET, 20),  // RCVTIMEO
    (SOCKET, 21),  // SNDTIMEO
    (IP, 1),       // TOS
    (IP, 2),       // TTL
    (IP, 8),       // PKTINFO
    (IP, 10),      // MTU_DISCOVER
    (IP, 11),      // RECVERR
    (IP, 12),      // RECVTTL
    (IP, 13),      // RECVTOS
    (IP, 33),      // MULTICAST_TTL
    (IP, 34),      // MULTICAST_LOOP
    (SOCKET, 12),  // PRIORITY: it follows TOS, which is set before
    (IP_6, 26),    // V6ONLY
    (IP_6, 16),    // UNICAST_HOPS
    (IP_6, 18),    // MULTICAST_HOPS
    (IP_6, 19),    // MULTICAST_LOOP
    (IP_6, 23),    // MTU_DISCOVER
    (IP_6, 25),    // RECVERR
    (IP_6, 49),    // RECVPKTINFO
    (IP_6, 66),    // RECVTCLASS
    (IP_6, 67),    // TCLASS
    (TCP, 1),      // NODELAY
    (TCP, 4),      // KEEPIDLE
    (TCP, 5),      // KEEPINTVL
    (TCP, 6),      // KEEPCNT
    (TCP, 9),      // DEFER_ACCEPT
    (TCP, 18),     // USER_TIMEOUT
    (TCP, 23),     // FASTOPEN
    REUSE_ADDRESS, // last: it is another one while the address is taken
];
/// `SO_LINGER`: whether it is on, and for how long.
const LINGER: OptionName = (SOCKET, 13);
const SEND_BUFFER: i32 = 7;
const RECEIVE_BUFFER: i32 = 8;

/// Not compared: what tells of the state and not of a setting, and what reading would change.
const NOT_SETTINGS: [OptionName; 19] = [
    (SOCKET, 4), // ERROR: reading takes it
    (SOCKET, ACCEPTS),
    (SOCKET, 17), // PEERCRED
    (SOCKET, 28), // PEERNAME
    (SOCKET, 31), // PEERSEC
    (SOCKET, 49), // INCOMING_CPU
    (SOCKET, 55), // MEMINFO
    (SOCKET, 56), // INCOMING_NAPI_ID
    (SOCKET, 57), // COOKIE
    (SOCKET, 59), // PEERGROUPS
    (SOCKET, 77), // PEERPIDFD
    (IP, 52),     // PROTOCOL: here the kernel gives the port
    (IP_6, 6),    // 2292PKTOPTIONS: what came
    (TCP, 11),    // INFO
    (TCP, 10),    // WINDOW_CLAMP: it follows the buffer
    (TCP, 24),    // TIMESTAMP
    (TCP, 26),    // CC_INFO
    (TCP, 28),    // SAVED_SYN
    (TCP, 35),    // ZEROCOPY_RECEIVE
];

/// The values of the options that are set again.
#[repr(C)]
#[derive(PartialEq, Eq)]
pub struct Options {
    values: [OptionValue; KEPT.len()],
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
struct OptionValue {
    /// Negative if the socket has no such option.
    count: i32,
    bytes: [u8; 16],
}

impl OptionValue {
    fn of(socket: Fd, (level, option): OptionName) -> OptionValue {
        let mut bytes = [0; 16];
        let count =
            socket_option(socket, level, option, &mut bytes).map_or(-1, |count| count as i32);
        OptionValue { count, bytes }
    }

    fn as_set(mut self, name: OptionName) -> OptionValue {
        if let (SOCKET, SEND_BUFFER | RECEIVE_BUFFER) = name {
            let read =
                u32::from_ne_bytes([self.bytes[0], self.bytes[1], self.bytes[2], self.bytes[3]]);
            self.bytes[..4].copy_from_slice(&(read / 2).to_ne_bytes());
        }
        self
    }

    fn switched_on(mut self) -> OptionValue {
        self.bytes[..4].copy_from_slice(&1i32.to_ne_bytes());
        self
    }

    fn set(self, socket: Fd, (level, option): OptionName) -> Result<()> {
        let Ok(count) = usize::try_from(self.count) else {
            return Ok(());
        };
        let words = [
            socket as usize,
            level as usize,
            option as usize,
            self.bytes.as_ptr() as usize,
            count.min(self.bytes.len()),
        ];
        // SAFETY: the value and its size live through the call.
        unsafe { syscall(nr::SETSOCKOPT, words) }.map(drop)
    }
}

impl Options {
    /// Reads the options of a socket.
    pub fn of(socket: Fd) -> Options {
        Options {
            values: KEPT.map(|name| OptionValue::of(socket, name)),
        }
    }

    /// Sets them on a new socket that has no address yet, and `SO_REUSEADDR`: connections may still be at its port.
    pub fn set_before_binding(&self, fresh: Fd) -> Result<()> {
        for (name, value) in KEPT.into_iter().zip(self.values) {
            if OptionValue::of(fresh, name) != value {
                value.as_set(name).set(fresh, name)?;
            }
        }
        set_number(fresh, REUSE_ADDRESS, 1)
    }

    /// Sets those of a socket that are others now. Says whether all of them are these.
    pub fn put_back(&self, socket: Fd) -> bool {
        const BUFFER_LOCK: OptionName = (SOCKET, 72);
        // The kernel chooses sizes itself until they are asked for.
        let are_asked_for = number(socket, BUFFER_LOCK).is_ok_and(|lock| lock != 0);
        let mut are_all = true;
        for (name, value) in KEPT.into_iter().zip(self.values) {
            let is_left = matches!(name, (SOCKET, SEND_BUFFER | RECEIVE_BUFFER)) && !are_asked_for;
            if !is_left && OptionValue::of(socket, name) != value {
                if name == LINGER {
                    // The kernel takes the time only together with "on".
                    let _ = value.switched_on().set(socket, name);
                }
                let _ = value.as_set(name).set(socket, name);
                // A buffer may have been larger than one that can be asked for.
                are_all &= OptionValue::of(socket, name) == value;
            }
        }
        are_all
    }

    /// Sets `SO_REUSEADDR` to its recorded value, after `bind`.
    pub fn set_after_binding(&self, fresh: Fd) -> Result<()> {
        let [.., reuse_address] = self.values;
        reuse_address.set(fresh, REUSE_ADDRESS)
    }
}

/// A setting of a socket that a new one has not, and that is not set again.
pub(super) fn first_other(socket: Fd, fresh: Fd, domain: i32, protocol: i32) -> Option<OptionName> {
    const LAST_OPTIONS: [(i32, i32); 5] =
        [(SOCKET, 84), (IP, 53), (IP_6, 80), (TCP, 37), (UDP, 110)];
    LAST_OPTIONS
        .into_iter()
        .filter(|(level, _)| applies(*level, domain, protocol))
        .flat_map(|(level, last)| (1..=last).map(move |option| (level, option)))
        .filter(|name| !KEPT.contains(name) && !NOT_SETTINGS.contains(name))
        .find(|name| !is_same(socket, fresh, *name))
}

fn applies(level: i32, domain: i32, protocol: i32) -> bool {
    match level {
        IP => domain == INTERNET,
        IP_6 => domain == INTERNET_6,
        TCP | UDP => protocol == level && matches!(domain, INTERNET | INTERNET_6),
        _ => true,
    }
}

fn is_same(socket: Fd, fresh: Fd, (level, option): OptionName) -> bool {
    // Its size is counted in instructions of eight bytes.
    const FILTER: OptionName = (SOCKET, 26);
    let most = if (level, option) == FILTER {
        MAX_BYTES / 8
    } else {
        MAX_BYTES
    };
    let mut values = [[0; MAX_BYTES]; 2];
    let [own, other] = &mut values;
    let counts = [
        socket_option(socket, level, option, &mut own[..most]),
        socket_option(fresh, level, option, &mut other[..most]),
    ];
    counts[0] == counts[1] && own == other
}

/// Reads an option that is a number.
pub(super) fn number(socket: Fd, (level, option): OptionName) -> Result<i32> {
    let mut bytes = [0; 4];
    match socket_option(socket, level, option, &mut bytes)? {
        4 => Ok(i32::from_ne_bytes(bytes)),
        _ => Err(Errno::INVAL),
    }
}

/// Sets an option that is a number.
pub(super) fn set_number(socket: Fd, name: OptionName, number: i32) -> Result<()> {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&number.to_ne_bytes());
    OptionValue { count: 4, bytes }.set(socket, name)
}
