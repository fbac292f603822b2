use super::options::first_other;
use super::record::{Handling, Record};
use super::{arrange, new_socket};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;

const INTERNET: i32 = 2;
const STREAM: i32 = 1;
const TCP: i32 = 6;

fn look(socket: &impl AsRawFd) -> (Handling, Record) {
    let mut record = Record::empty();
    (record.fill(socket.as_raw_fd()), record)
}

#[test]
fn servers_and_bound_sockets_are_recorded() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let (seen, record) = look(&server);
    assert_eq!(seen, Handling::Recreated);
    assert_eq!(record.backlog(), Some(128));
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (seen, record) = look(&datagrams);
    assert_eq!((seen, record.backlog()), (Handling::Recreated, None));
    let six = TcpListener::bind("[::1]:0").unwrap();
    assert_eq!(look(&six).0, Handling::Recreated);
}

#[test]
fn connections_are_shared() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(server.local_addr().unwrap()).unwrap();
    let (accepted, _) = server.accept().unwrap();
    assert_eq!(look(&client).0, Handling::Shared);
    assert_eq!(look(&accepted).0, Handling::Shared);
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    datagrams.connect(datagrams.local_addr().unwrap()).unwrap();
    assert_eq!(look(&datagrams).0, Handling::Shared);
}

#[test]
fn a_server_is_had_again_at_its_address_with_its_options() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let number = server.as_raw_fd();
    for (option, value) in [(7, 50_000u32), (8, 60_000), (9, 1), (15, 1), (2, 0)] {
        set(number, option, value);
    }
    let (seen, record) = look(&server);
    assert_eq!(seen, Handling::Recreated);
    let address = server.local_addr().unwrap();
    drop(server);
    let fresh = new_socket(INTERNET, STREAM, TCP).unwrap();
    arrange(&record, fresh, 0).unwrap();
    // SAFETY: it is open, and ours alone.
    let again = unsafe { <TcpListener as std::os::fd::FromRawFd>::from_raw_fd(fresh) };
    assert_eq!(again.local_addr().unwrap(), address);
    let (_, after) = look(&again);
    assert!(after.options == record.options);
    assert_eq!(after.file_flags, record.file_flags);
    TcpStream::connect(address).unwrap();
    assert!(again.accept().is_ok());
}

#[test]
fn a_setting_that_is_not_set_again_is_noticed() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let fresh = new_socket(INTERNET, STREAM, TCP).unwrap();
    let other = || first_other(server.as_raw_fd(), fresh, INTERNET, TCP);
    assert_eq!(other(), None);
    const TIMESTAMP: i32 = 29;
    set(server.as_raw_fd(), TIMESTAMP, 1);
    assert_eq!(other(), Some((1, TIMESTAMP)));
    assert_eq!(look(&server).0, Handling::Obstacle);
    crate::sys::close(fresh);
}

fn set(socket: i32, option: i32, value: u32) {
    let words = [
        socket as usize,
        1,
        option as usize,
        &raw const value as usize,
        4,
    ];
    // SAFETY: the value lives through the call.
    unsafe { crate::sys::syscall(crate::sys::nr::SETSOCKOPT, words) }.unwrap();
}
