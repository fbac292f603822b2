//! The part of the filter about sockets: which families and protocols there are, and what a socket tells of its other end.

use super::{
    ACCES, ALLOW, JUMP_ANY_BIT, JUMP_EQUAL, LOAD, NO_PROTOCOL, OFFSET_NUMBER, Program, Sockets,
    argument, fail_with,
};
use crate::sys::nr;

const UNIX: u32 = 1;
const INET: u32 = 2;
const INET6: u32 = 10;
const NETLINK: u32 = 16;

const NO_OPTION: u32 = fail_with(92);
const NO_FAMILY: u32 = fail_with(97);

impl Program {
    /// An allow list of families: the others (`AF_VSOCK` to the machine's owner, `AF_ALG`, raw packets, …) are not namespaced
    /// or not needed.
    pub(super) fn sockets(&mut self, sockets: Sockets) {
        let (unix, internet) = match sockets {
            Sockets::InEmptyNamespace => (ALLOW, ALLOW),
            Sockets::PairsOnly => (ACCES, ACCES),
        };
        match sockets {
            Sockets::InEmptyNamespace => self.internet_protocols(),
            // One of a pair can be given a name, and the names of the host's network are the host's.
            Sockets::PairsOnly => self.when(nr::BIND, ACCES),
        }
        // Datagrams of a pair can be sent to any socket with a name. Of the kinds of sockets only they have this bit.
        const DATAGRAMS: u32 = 2;
        for (number, unix) in [(nr::SOCKET, unix), (nr::SOCKETPAIR, ALLOW)] {
            self.add(JUMP_EQUAL, number as u32, 0, 11);
            self.add(LOAD, argument(0), 0, 0);
            self.add(JUMP_EQUAL, UNIX, 0, 4);
            self.add(LOAD, argument(1), 0, 0);
            self.add(JUMP_ANY_BIT, DATAGRAMS, 0, 1);
            self.answer(internet);
            self.answer(unix);
            self.add(JUMP_EQUAL, INET, 2, 0);
            self.add(JUMP_EQUAL, INET6, 1, 0);
            self.add(JUMP_EQUAL, NETLINK, 0, 1);
            self.answer(internet);
            self.answer(NO_FAMILY);
        }
    }

    /// An allow list of protocols: TCP and UDP, and those of `ping`, which the kernel refuses by itself. No cgroup counts what waits in
    /// sockets of MPTCP, and the lists that init reads have neither these sockets nor those of UDP-Lite. For others (SCTP, DCCP, L2TP, …) the
    /// kernel loads code that the machine may have no other use for.
    fn internet_protocols(&mut self) {
        const DEFAULT: u32 = 0;
        const ALLOWED: [u32; 5] = [DEFAULT, 1, 6, 17, 58];
        let tests = ALLOWED.len() as u8;
        self.add(JUMP_EQUAL, nr::SOCKET as u32, 0, 6 + tests);
        self.add(LOAD, argument(0), 0, 0);
        self.add(JUMP_EQUAL, INET, 1, 0);
        self.add(JUMP_EQUAL, INET6, 0, 2 + tests);
        self.add(LOAD, argument(2), 0, 0);
        for (protocol, after) in ALLOWED.into_iter().zip((1..=tests).rev()) {
            self.add(JUMP_EQUAL, protocol, after, 0);
        }
        self.answer(NO_PROTOCOL);
        self.add(LOAD, OFFSET_NUMBER, 0, 0);
    }

    /// Socket options that hand out descriptors of processes: of the process at the other end (`SO_PEERPIDFD`), which is the host for our own
    /// channel, and of each sender (`SO_PASSPIDFD`). Signals can be sent through them that init is not asked about. And a protocol on top of TCP
    /// (`TCP_ULP`), for which the kernel loads code.
    pub(super) fn process_descriptors(&mut self) {
        const OF_SOCKETS: u32 = 1;
        const OF_TCP: u32 = 6;
        for (number, level, option) in [
            (nr::GETSOCKOPT, OF_SOCKETS, 77),
            (nr::SETSOCKOPT, OF_SOCKETS, 76),
            (nr::SETSOCKOPT, OF_TCP, 31),
        ] {
            self.add(JUMP_EQUAL, number as u32, 0, 6);
            self.add(LOAD, argument(1), 0, 0);
            self.add(JUMP_EQUAL, level, 0, 3);
            self.add(LOAD, argument(2), 0, 0);
            self.add(JUMP_EQUAL, option, 0, 1);
            self.answer(NO_OPTION);
            self.add(LOAD, OFFSET_NUMBER, 0, 0);
        }
    }

    /// Netlink sockets only for addresses and routes: those of other protocols carry messages between processes. With `ask`, init is asked before
    /// one is made. Without, the rules for families of sockets decide.
    pub(super) fn netlink_protocols(&mut self, ask: Option<u32>) {
        let asks = u8::from(ask.is_some());
        self.add(JUMP_EQUAL, nr::SOCKET as u32, 0, 6 + asks);
        self.add(LOAD, argument(0), 0, 0);
        self.add(JUMP_EQUAL, NETLINK, 0, 3 + asks);
        self.add(LOAD, argument(2), 0, 0);
        self.add(JUMP_EQUAL, 0, 1, 0);
        self.answer(NO_PROTOCOL);
        if let Some(ask) = ask {
            self.answer(ask);
        }
        self.add(LOAD, OFFSET_NUMBER, 0, 0);
    }
}
