//! Public addresses that an interface of this machine has.

use super::support::{ask, guard};
use std::process::Command;

/// Set in the copy of this program that runs in a network namespace of its own, where `PUBLIC` is an address of the loopback.
const INSIDE: &str = "CELLBLOCK_TEST_OWN_ADDRESS";
/// The first is the main address of its network, the second one more address in it.
const PUBLIC: [&str; 3] = ["9.9.9.9", "9.9.9.10", "2606:4700::99"];

#[test]
fn a_name_that_leads_to_a_public_address_of_this_machine_is_refused_needs_unshare_and_ip() {
    if std::env::var_os(INSIDE).is_some() {
        return refuses_own_addresses();
    }
    let [first, second, third] = PUBLIC;
    let script = format!(
        "ip link set lo up && ip address add {first}/24 dev lo && ip address add {second}/24 dev lo && ip address add {third}/128 dev lo && exec \"$0\" --exact \"$1\""
    );
    let name = "own_addresses::a_name_that_leads_to_a_public_address_of_this_machine_is_refused_needs_unshare_and_ip";
    let output = Command::new("unshare")
        .args(["--map-root-user", "--net", "sh", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .arg(name)
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

#[tokio::main(flavor = "current_thread")]
async fn refuses_own_addresses() {
    for address in PUBLIC {
        let address = (address.parse::<std::net::IpAddr>().unwrap(), 80).into();
        let (guard, _) = guard(&["own.example"], address);
        let answer = ask(&guard, "GET http://own.example/ HTTP/1.1\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{address}: {answer}");
    }
}
