//! Names whose addresses change, and names that lead to private addresses: the address that is checked is the one that is connected to.
//!
//! The tests run in a network namespace with nothing but a loopback, so a connection to a public address fails at once and reaches
//! nothing.

use super::support::{ask, guard_with, tunnel};
use cellblock_network::Lookup;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpStream;

/// Set in the copy of this program that runs in the namespace.
const INSIDE: &str = "CELLBLOCK_TEST_REBINDING";
const PUBLIC: &str = "9.9.9.9";

/// Runs this test once more in a network namespace of its own.
fn run_inside(name: &str) {
    let output = Command::new("unshare")
        .args(["--map-root-user", "--net", "sh", "-c"])
        .arg("ip link set lo up && exec \"$0\" --exact \"$1\"")
        .arg(std::env::current_exe().unwrap())
        .arg(format!("rebinding::{name}"))
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

fn in_runtime(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(work);
}

/// A service on this machine that no session may reach.
struct PrivateService {
    listener: TcpListener,
    port: u16,
}

impl PrivateService {
    fn new() -> PrivateService {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        PrivateService { listener, port }
    }

    fn was_reached(&self) -> bool {
        std::thread::sleep(Duration::from_millis(100));
        self.listener.accept().is_ok()
    }
}

/// A name service that gives the next answer each time, and the last one from then on. It counts how often it is asked.
fn answers(answers: &[&[&str]]) -> (Lookup, Arc<AtomicUsize>) {
    let answers: Vec<Vec<IpAddr>> = answers
        .iter()
        .map(|answer| answer.iter().map(|text| text.parse().unwrap()).collect())
        .collect();
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let left = Arc::new(Mutex::new(answers));
    let lookup: Lookup = Arc::new(move |_, port| {
        counter.fetch_add(1, Ordering::SeqCst);
        let mut left = left.lock().unwrap();
        let answer = match left.len() {
            1 => left[0].clone(),
            _ => left.remove(0),
        };
        Box::pin(async move {
            let addresses = answer.into_iter().map(|address| (address, port).into());
            Ok(addresses.collect::<Vec<SocketAddr>>())
        })
    });
    (lookup, asked)
}

#[test]
fn a_name_that_becomes_private_between_two_lookups_never_leads_there_needs_unshare_and_ip() {
    if std::env::var_os(INSIDE).is_none() {
        return run_inside(
            "a_name_that_becomes_private_between_two_lookups_never_leads_there_needs_unshare_and_ip",
        );
    }
    in_runtime(async {
        let service = PrivateService::new();
        let host = format!("rebound.example:{}", service.port);
        for request in [
            format!("GET http://{host}/ HTTP/1.1\r\n\r\n"),
            format!("CONNECT {host} HTTP/1.1\r\n\r\n"),
        ] {
            let (lookup, asked) = answers(&[&[PUBLIC], &["127.0.0.1"]]);
            let (guard, notes) = guard_with(&[&host], lookup);
            let first = ask(&guard, &request).await;
            // The guard has asked once: it connects to the address of that answer, and to no other.
            assert_eq!(asked.load(Ordering::SeqCst), 1, "{first}");
            assert!(first.starts_with("HTTP/1.1 502 "), "{first}");
            let second = ask(&guard, &request).await;
            assert!(second.starts_with("HTTP/1.1 403 "), "{second}");
            assert_eq!(asked.load(Ordering::SeqCst), 2, "{:?}", notes.lock());
        }
        assert!(!service.was_reached());
    });
}

#[test]
fn of_several_addresses_the_private_ones_are_left_out_needs_unshare_and_ip() {
    if std::env::var_os(INSIDE).is_none() {
        return run_inside(
            "of_several_addresses_the_private_ones_are_left_out_needs_unshare_and_ip",
        );
    }
    in_runtime(async {
        let service = PrivateService::new();
        let host = format!("mixed.example:{}", service.port);
        for answer in [
            ["127.0.0.1", PUBLIC],
            [PUBLIC, "127.0.0.1"],
            [PUBLIC, "::ffff:127.0.0.1"],
        ] {
            let (lookup, _) = answers(&[&answer]);
            let (guard, _) = guard_with(&[&host], lookup);
            let request = format!("GET http://{host}/ HTTP/1.1\r\n\r\n");
            let answered = ask(&guard, request).await;
            assert!(
                answered.starts_with("HTTP/1.1 502 "),
                "{answer:?}: {answered}"
            );
        }
        assert!(!service.was_reached());
    });
}

#[tokio::test]
async fn a_rule_for_tcp_refuses_private_addresses_of_its_name() {
    let service = PrivateService::new();
    let rule = format!("tcp://rebound.example:{}", service.port);
    let (lookup, _) = answers(&[&["127.0.0.1"]]);
    let (guard, notes) = guard_with(&[&rule], lookup);
    let door = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(door.local_addr().unwrap());
    let (client, inside) = tokio::join!(client, door.accept());
    guard
        .serve_tcp(inside.unwrap().0, &rule.parse().unwrap())
        .await;
    drop(client);
    let notes = notes.lock().unwrap().clone();
    assert!(notes[0].contains("has the private address"), "{notes:?}");
    assert!(!service.was_reached());
}

/// One address of each range that is not of the public internet, and its first and last ones where its borders are not round.
const NOT_PUBLIC: &[&str] = &[
    "0.0.0.0",
    "0.255.255.255",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.0",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.8",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.255.255",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::10.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0:10.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b::169.254.169.254",
    "64:ff9b:1::1",
    "64:ff9b:1:ffff::8.8.8.8",
    "100::1",
    "100:0:0:1::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:1::1",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
    "2001:db8::1",
    "2002:7f00:1::1",
    "2002:a9fe:a9fe::1",
    "3fff::1",
    "3fff:fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "febf::1",
    "fec0::1",
    "ff02::1",
];

#[test]
fn a_name_with_an_address_of_any_range_that_is_not_public_is_refused_needs_unshare_and_ip() {
    if std::env::var_os(INSIDE).is_none() {
        return run_inside(
            "a_name_with_an_address_of_any_range_that_is_not_public_is_refused_needs_unshare_and_ip",
        );
    }
    in_runtime(async {
        let mut passed = Vec::new();
        for address in NOT_PUBLIC {
            let (lookup, _) = answers(&[&[address]]);
            let (guard, _) = guard_with(&["name.example"], lookup);
            let answer = ask(&guard, "GET http://name.example/ HTTP/1.1\r\n\r\n").await;
            let tunnel = tunnel(&guard, "CONNECT name.example:443 HTTP/1.1\r\n\r\n").await;
            let is_refused = [answer, tunnel].iter().all(|answer| {
                answer.starts_with("HTTP/1.1 403 name.example has the private address")
            });
            if !is_refused {
                passed.push(*address);
            }
        }
        assert_eq!(passed, [""; 0]);
    });
}
