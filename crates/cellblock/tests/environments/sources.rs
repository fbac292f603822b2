//! Packages that come as source: their builds are code of strangers.

use crate::packages::{home, host, source, wait};
use cellblock::env::Requirements;
use cellblock::{Session, SessionBuilder, Status};

fn install(session: &Session, name: &str) -> Result<String, String> {
    let layer = wait(
        host()
            .packages()
            .install(session, Requirements::new([name])),
    );
    layer
        .map(|layer| layer.to_string())
        .map_err(|error| error.to_string())
}

#[test]
fn a_build_sees_nothing_of_the_users_and_writes_nowhere_else() {
    let (key, trap) = (home().join(".ssh/id_ed25519"), home().join("trap"));
    let backend = format!(
        r#"
import socket
def attempt(action):
    try:
        action()
        return 'done'
    except Exception as error:
        return type(error).__name__
found = dict(
    key=attempt(lambda: open({key:?}).read()),
    home=sorted(os.listdir(os.path.expanduser('~/.ssh'))) if os.path.exists(os.path.expanduser('~/.ssh')) else [],
    written=attempt(lambda: open({trap:?}, 'w').write('x')) == 'done',
    network=attempt(lambda: socket.create_connection(('1.1.1.1', 53), 2)) == 'done',
)
return wheel(directory, f'found = {{found!r}}')
"#
    );
    source("curious", backend.trim());
    let session = wait(SessionBuilder::new().host(host()).start()).unwrap();
    assert_eq!(
        install(&session, "curious").unwrap(),
        "Installed curious 1.0. All variables are as they were."
    );
    let result = wait(session.run("import curious; curious.found")).unwrap();
    assert_eq!(result.status, Status::Success, "{result:?}");
    assert_eq!(
        result.value.unwrap().repr,
        "{'key': 'FileNotFoundError', 'home': [], 'written': False, 'network': False}"
    );
    assert!(!trap.exists());
}

#[test]
fn a_build_that_fails_is_a_clear_message_and_leaves_nothing() {
    source("broken", "raise RuntimeError('no compiler here')");
    let session = wait(SessionBuilder::new().host(host()).start()).unwrap();
    wait(session.run("x = 1")).unwrap();
    let error = install(&session, "broken").unwrap_err();
    assert!(
        error.contains("could not find the packages, or build them from source"),
        "{error}"
    );
    assert!(error.contains("no compiler here"), "{error}");
    let result = wait(session.run("x")).unwrap();
    assert_eq!(result.value.unwrap().repr, "1");
}
