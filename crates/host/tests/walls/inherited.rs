//! The wall around what a child inherits: variables, open files, keys.

use super::attack::Attack;
use super::stage::stage;
use cellblock_protocol::Wall;

#[test]
fn variables_of_the_host_are_not_inherited() {
    let Some(stage) = stage("inherited::variables_of_the_host_are_not_inherited") else {
        return;
    };
    let code = "import os; os.environ['CELLBLOCK_CANARY'] == secret and print('REACHED')";
    Attack::on(Wall::Environment, code)
        .variable("secret", stage.variable)
        .is_stopped();
}

#[test]
fn open_files_of_the_host_are_not_inherited() {
    let Some(stage) = stage("inherited::open_files_of_the_host_are_not_inherited") else {
        return;
    };
    let (descriptor, secret) = stage.descriptor;
    let code = "import os; os.pread(descriptor, 100, 0).decode() == secret and print('REACHED')";
    Attack::on(Wall::Environment, code)
        .variable("descriptor", descriptor)
        .variable("secret", secret)
        .is_stopped();
}

#[test]
fn keys_of_the_host_are_not_inherited() {
    let Some(stage) = stage("inherited::keys_of_the_host_are_not_inherited") else {
        return;
    };
    let Some((name, secret)) = stage.key else {
        println!("this kernel has no keys");
        return;
    };
    let code = r"
import ctypes
KEYCTL, SEARCH, READ, SESSION_KEYRING = 250, 10, 11, -3
libc = ctypes.CDLL(None)
key = libc.syscall(KEYCTL, SEARCH, SESSION_KEYRING, b'user', name.encode(), 0)
payload = ctypes.create_string_buffer(100)
libc.syscall(KEYCTL, READ, key, payload, len(payload))
payload.value.decode() == secret and print('REACHED')
";
    let attack = Attack::on(Wall::Environment, code).helped_by([Wall::Seccomp]);
    attack
        .variable("name", name)
        .variable("secret", secret)
        .is_stopped();
}
