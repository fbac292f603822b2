//! `cellblock serve`: where it listens.

use crate::support::Place;
use std::net::TcpListener;

#[test]
fn a_port_alone_is_one_of_the_loopback() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let port = address.port().to_string();
    let place = Place::new();
    let said = place.run(["serve", "--no-auth", "--stdlib", "--port", &port]);
    assert_ne!(said.status, 0);
    assert!(
        said.stderr.contains(&address.to_string()),
        "{}",
        said.stderr
    );
}
