//! The filter's rules about sockets.

use super::tests::Verdict::{Allowed, Refused};
use super::tests::{BARE, SEALED, decide};
use crate::sys::nr;

#[test]
fn sockets_lead_nowhere() {
    let family = |rules, number, family| decide(rules, number, [family, 0, 0, 0, 0, 0]);
    let [unix, internet, vsock] = [1, 2, 40];
    let sealed = [unix, internet, vsock].map(|kind| family(SEALED, nr::SOCKET, kind));
    assert_eq!(sealed, [Allowed, Allowed, Refused(97)]);
    // No namespace: a Unix socket could be connected to one of the host's.
    let bare = [unix, internet, vsock].map(|kind| family(BARE, nr::SOCKET, kind));
    assert_eq!(bare, [Refused(13), Refused(13), Refused(97)]);
    assert_eq!(family(BARE, nr::SOCKETPAIR, unix), Allowed);
    // A datagram goes wherever it is sent to, also from a pair.
    let pair = |rules, kind: u64| {
        decide(
            rules,
            nr::SOCKETPAIR,
            [unix, kind | 0o2_000_000, 0, 0, 0, 0],
        )
    };
    let [stream, datagrams, raw, packets] = [1, 2, 3, 5];
    assert_eq!(
        [stream, datagrams, raw, packets].map(|kind| pair(BARE, kind)),
        [Allowed, Refused(13), Refused(13), Allowed]
    );
    assert_eq!(pair(SEALED, datagrams), Allowed);
    // A name without a file is the whole machine's where there is no namespace.
    let named = [SEALED, BARE].map(|rules| decide(rules, nr::BIND, [3, 0, 0, 0, 0, 0]));
    assert_eq!(named, [Allowed, Refused(13)]);
}

#[test]
fn no_socket_has_a_protocol_whose_memory_is_not_counted() {
    let [internet, internet6, unix] = [2, 10, 1];
    let [stream, datagrams] = [1, 2];
    let made =
        |family, kind, protocol| decide(SEALED, nr::SOCKET, [family, kind, protocol, 0, 0, 0]);
    for family in [internet, internet6] {
        let [tcp, udp, ping] = [6, 17, 1];
        assert_eq!(
            [
                made(family, stream, 0),
                made(family, stream, tcp),
                made(family, datagrams, udp),
                made(family, datagrams, ping)
            ],
            [Allowed; 4]
        );
        let [multipath, sctp, smc] = [262, 132, 256];
        let [udp_lite, l2tp] = [136, 115];
        assert_eq!(
            [multipath, sctp, smc].map(|protocol| made(family, stream, protocol)),
            [Refused(93); 3]
        );
        assert_eq!(
            [udp_lite, l2tp].map(|protocol| made(family, datagrams, protocol)),
            [Refused(93); 2]
        );
    }
    assert_eq!(made(unix, stream, unix), Allowed);
    assert_eq!(
        decide(BARE, nr::SOCKET, [internet, stream, 262, 0, 0, 0]),
        Refused(13)
    );
}

#[test]
fn no_socket_hands_out_a_descriptor_of_a_process() {
    let [of_sockets, of_tcp] = [1, 6];
    let option = |number, level, name| {
        [SEALED, BARE].map(|rules| decide(rules, number, [3, level, name, 0, 0, 0]))
    };
    let [credentials, pass_descriptors, peer_descriptor] = [17, 76, 77];
    assert_eq!(
        option(nr::GETSOCKOPT, of_sockets, peer_descriptor),
        [Refused(92); 2]
    );
    assert_eq!(
        option(nr::SETSOCKOPT, of_sockets, pass_descriptors),
        [Refused(92); 2]
    );
    assert_eq!(
        option(nr::GETSOCKOPT, of_sockets, credentials),
        [Allowed; 2]
    );
    let [no_delay, upper_protocol] = [1, 31];
    assert_eq!(option(nr::SETSOCKOPT, of_tcp, no_delay), [Allowed; 2]);
    assert_eq!(
        option(nr::SETSOCKOPT, of_tcp, upper_protocol),
        [Refused(92); 2]
    );
}
