//! Which addresses are nobody's but the user's own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is anything but one of the public Internet: the machine itself, its neighbours, or no host at all.
pub(crate) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_4(address),
        IpAddr::V6(address) => match embedded(address) {
            Some(inside) => is_private_4(inside),
            None => is_private_6(address),
        },
    }
}

fn is_private_4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || a == 0
        // Shared by the customers of one provider, kept for protocols, for measuring, and for later.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b))
        || a >= 240
}

fn is_private_6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    // All that was ever given to the public begins with these three bits. Teredo wraps an IPv4 address, and one range is for examples.
    segments[0] & 0xe000 != 0x2000
        || segments[..2] == [0x2001, 0]
        || segments[..2] == [0x2001, 0x0db8]
}

/// The IPv4 address that an IPv6 one only wraps.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let at = |index: usize| {
        let [a, b] = segments[index].to_be_bytes();
        let [c, d] = segments[index + 1].to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(at(6)),
        [0x2002, ..] => Some(at(1)),
        // Of the old form; ::1 and :: are loopback and nobody.
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 || low > 1 => Some(at(6)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_not_of_the_public_internet() {
        for text in [
            "127.0.0.1",
            "127.9.9.9",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "::1",
            "::",
            "fd00::1",
            "fe80::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::10.0.0.1",
            "2002:7f00:1::",
            "::127.0.0.1",
            "ff02::1",
            "64:ff9b:1::a00:1",
            "100::1",
            "2001::1",
            "2001:db8::1",
        ] {
            assert!(is_private(text.parse().unwrap()), "{text}");
        }
        for text in [
            "8.8.8.8",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1111",
            "::ffff:8.8.8.8",
        ] {
            assert!(!is_private(text.parse().unwrap()), "{text}");
        }
    }
}
