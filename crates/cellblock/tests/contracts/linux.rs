//! What ordinary programs expect of a Linux system, and find in a session.

use crate::support::session;
use cellblock::Event;

#[test]
fn root_is_known_by_name_and_nobody_here_is_root() {
    assert_eq!(
        session().value(
            "import grp, os, pwd
pwd.getpwuid(0).pw_name, grp.getgrgid(0).gr_name, pwd.getpwuid(os.getuid()).pw_name, os.getuid() == 0"
        ),
        "('root', 'root', 'user', False)"
    );
}

#[test]
fn ports_and_protocols_are_known_by_name() {
    assert_eq!(
        session().value(
            "import socket
socket.getservbyname('https'), socket.getservbyname('domain', 'udp'), socket.getservbyport(80), socket.getprotobyname('udp')"
        ),
        "(443, 53, 'http', 17)"
    );
}

#[test]
fn input_says_which_stream_the_code_has_deleted_and_the_next_cell_has_them_all() {
    let session = session();
    for stream in ["stdin", "stdout", "stderr"] {
        assert_eq!(
            session.exception(&format!("import sys\ndel sys.{stream}\ninput('name?')")),
            format!("RuntimeError('input(): lost sys.{stream}')")
        );
    }
    let mut cell = session.start("input('name?')");
    let Some(Event::InputRequest { call, .. }) = cell.next() else {
        panic!("no question came")
    };
    session.input(&call, Ok("Ada".to_owned()));
    assert_eq!(cell.result().value.unwrap().repr, "'Ada'");
}

/// Arrow's allocator, mimalloc, reserves a gigabyte at its first use, and would make it count as used memory.
#[test]
fn an_allocator_is_told_that_reserved_memory_counts() {
    assert_eq!(
        session().value("import os; os.environ['MIMALLOC_ARENA_EAGER_COMMIT']"),
        "'0'"
    );
}
