//! The host and the port that a request names, and which addresses are private.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// The longest name of a host, and of one label in it, as the name service has them.
const MAX_NAME_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// A name in small letters, or an address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Authority {
    /// Reads `host`, `host:port`, `[address]` or `[address]:port`. Without a port, `default_port` is meant. `None` for everything else:
    /// user names, a port with a sign or leading zeros, empty labels.
    pub(crate) fn parse(text: &str, default_port: Option<u16>) -> Option<Authority> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, rest) = rest.split_once(']')?;
                let address: Ipv6Addr = address.parse().ok()?;
                match rest {
                    "" => (address.to_string(), None),
                    _ => (address.to_string(), Some(rest.strip_prefix(':')?)),
                }
            }
            None => match text.split_once(':') {
                Some((host, port)) => (parse_name(host)?, Some(port)),
                None => (parse_name(text)?, None),
            },
        };
        let port = match port {
            Some(digits) => parse_port(digits)?,
            None => default_port?,
        };
        Some(Authority { host, port })
    }

    /// The value of the header `Host`. `usual_port` is left out.
    pub(crate) fn host_header(&self, usual_port: u16) -> String {
        let shown = self.to_string();
        let suffix = format!(":{usual_port}");
        match shown.strip_suffix(&suffix) {
            Some(host) if self.port == usual_port => host.to_owned(),
            _ => shown,
        }
    }
}

impl fmt::Display for Authority {
    /// `host:port`, with brackets around an IPv6 address.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Authority { host, port } = self;
        if host.contains(':') {
            write!(out, "[{host}]:{port}")
        } else {
            write!(out, "{host}:{port}")
        }
    }
}

fn parse_name(text: &str) -> Option<String> {
    // A dot at the end means the same host.
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        (1..=MAX_LABEL_BYTES).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    let is_name = name.len() <= MAX_NAME_BYTES && name.split('.').all(is_label);
    is_name.then(|| name.to_ascii_lowercase())
}

/// `parse::<u16>` alone would take `+80` and `0080`, which other readers take for something else.
fn parse_port(digits: &str) -> Option<u16> {
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    digits.parse().ok().filter(|_| is_plain)
}

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

/// Whether an address is one of this machine's own. An interface may have a public address, and a service that listens on all addresses is
/// then reached at it from here although a firewall keeps the internet out.
///
/// Only an own address can be bound to. A setting of the kernel for load balancers (`ip_nonlocal_bind`) allows every address; there, an own
/// address is one that the kernel reaches from itself.
pub(crate) fn is_own(address: IpAddr) -> bool {
    let is_bindable = |address: IpAddr| UdpSocket::bind((address, 0)).is_ok();
    // Addresses for examples, which no machine has.
    let foreign = match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    };
    if is_bindable(foreign) {
        reaches_itself(address)
    } else {
        is_bindable(address)
    }
}

/// Whether the kernel would send to an address from the same address. Nothing is sent.
fn reaches_itself(address: IpAddr) -> bool {
    const ANY_PORT: u16 = 9;
    let from: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let source = UdpSocket::bind((from, 0)).and_then(|socket| {
        socket.connect((address, ANY_PORT))?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip() == address)
}

fn is_private_4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || a == 0
        // Shared by the customers of one provider, kept for protocols, relays of 6to4, for measuring, and for later.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (18..20).contains(&b))
        || a >= 240
}

fn is_private_6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    // All that was ever given to the public begins with these three bits.
    segments[0] & 0xe000 != 0x2000
        // Kept for protocols (2001::/23). One of them is Teredo, which wraps an IPv4 address.
        || (segments[0] == 0x2001 && segments[1] < 0x0200)
        // For examples: 2001:db8::/32 and 3fff::/20.
        || segments[..2] == [0x2001, 0x0db8]
        || (segments[0] == 0x3fff && segments[1] < 0x1000)
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
        // The old form of an IPv4 address; `::1` is the loopback and `::` no address.
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 || low > 1 => Some(at(6)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(String, u16)> {
        Authority::parse(text, Some(80)).map(|authority| (authority.host, authority.port))
    }

    #[test]
    fn hosts_with_and_without_ports() {
        let expected = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(parsed("Example.ORG"), expected("example.org", 80));
        assert_eq!(parsed("a_b.example.:8080"), expected("a_b.example", 8080));
        assert_eq!(parsed("127.0.0.1:65535"), expected("127.0.0.1", 65535));
        assert_eq!(parsed("[0:0::1]"), expected("::1", 80));
        assert_eq!(parsed("[::1]:443"), expected("::1", 443));
        assert_eq!(Authority::parse("a.b", None), None);
    }

    #[test]
    fn what_two_readers_could_read_differently_is_no_authority() {
        for text in [
            "",
            ".",
            "a..b",
            ".a",
            "a:",
            "a:0",
            "a:+80",
            "a:080",
            "a:65536",
            "a:80:80",
            "a@b",
            "me:word@b",
            "a b",
            "a%00b",
            "[::1",
            "[::1]80",
            "[::1]:",
            "[fe80::1%eth0]",
            "[1.2.3.4]",
            "[a]",
            "::1",
            "a/b",
            "a\\b",
        ] {
            assert_eq!(parsed(text), None, "{text:?}");
        }
        assert_eq!(parsed(&format!("{}.b", "a".repeat(64))), None);
        assert_eq!(parsed(&"a.".repeat(128)), None);
    }

    #[test]
    fn the_usual_port_is_not_said() {
        let header = |text, usual| Authority::parse(text, Some(80)).unwrap().host_header(usual);
        assert_eq!(header("a.b", 80), "a.b");
        assert_eq!(header("a.b", 443), "a.b:80");
        assert_eq!(header("[::1]:443", 443), "[::1]");
    }
}

#[cfg(test)]
mod address_tests {
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
            "192.88.98.1",
            "192.31.196.1",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2002:808:808::1",
            "2606:4700::1111",
            "::ffff:8.8.8.8",
        ] {
            assert!(!is_private(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn addresses_of_this_machine_are_told_from_others() {
        for own in ["127.0.0.1", "127.1.2.3"] {
            let own = own.parse().unwrap();
            assert!(is_own(own), "{own}");
        }
        assert!(reaches_itself("127.0.0.1".parse().unwrap()));
        for foreign in ["8.8.8.8", "2606:4700::1111"] {
            let foreign = foreign.parse().unwrap();
            assert!(!is_own(foreign) && !reaches_itself(foreign), "{foreign}");
        }
    }
}
