//! Code that is none, or too much.

use crate::support::{session, wait};
use cellblock_protocol::{Cell, Status};
use std::time::Duration;

#[test]
fn nul_bytes_are_a_syntax_error_and_the_session_lives() {
    let session = session();
    for code in ["x = 1\0", "\0", "'a\0b'", "# \0\nx = 1"] {
        let result = session.run(code);
        assert_eq!(
            (result.status, result.error.unwrap().type_.as_str()),
            (Status::Failure, "SyntaxError"),
            "{code:?}"
        );
    }
    assert_eq!(session.value("'x' in globals()"), "False");
}

#[test]
fn ten_megabytes_of_code_run() {
    let text = format!(
        "x = '{}'\n{}len(x)",
        "a".repeat(5_000_000),
        "# nothing\n".repeat(500_000)
    );
    assert_eq!(session().value(&text), "5000000");
}

#[test]
fn ten_megabytes_of_nonsense_are_a_syntax_error() {
    let session = session();
    for code in [
        "(".repeat(10_000_000),
        "%&".repeat(5_000_000),
        format!("x = {}", "[".repeat(10_000_000)),
    ] {
        let result = session.run(Cell::new(code).timeout(Duration::from_secs(60)));
        assert_eq!(
            (result.status, result.error.unwrap().type_.as_str()),
            (Status::Failure, "SyntaxError")
        );
    }
    assert_eq!(session.value("1"), "1");
}

#[test]
fn deeply_nested_code_is_a_failure_and_no_crash() {
    let session = session();
    for code in [
        format!("{}1{}", "(".repeat(5000), ")".repeat(5000)),
        format!("{}1", "-".repeat(100_000)),
        format!("x{}", ".a".repeat(100_000)),
        format!("1{}", " + 1".repeat(100_000)),
    ] {
        let result = session.run(code.as_str());
        assert_eq!(result.status, Status::Failure, "{}…", &code[..20]);
    }
    assert_eq!(session.value("1"), "1");
}

#[test]
fn code_over_the_limit_is_refused_before_anything_runs() {
    let session = session();
    let error = session.attempt("#".repeat(16_000_001)).unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        (
            "invalid",
            "`code`: expected at most 16000000 bytes, got 16000001 bytes"
        )
    );
    assert_eq!(session.run("1").cell, 1);
}

#[test]
fn line_ends_of_other_systems_are_line_ends() {
    assert_eq!(session().value("x = 1\r\nif x:\r\n    y = 2\r\ny"), "2");
}

#[test]
fn a_file_that_is_no_utf_8_is_a_syntax_error_of_the_import() {
    let session = session();
    wait(session.put_file("latin.py", b"x = '\xe9\xff'\n".to_vec())).unwrap();
    let result = session.run("import sys\nsys.path.insert(0, '.')\nimport latin");
    assert_eq!(
        (result.status, result.error.unwrap().type_.as_str()),
        (Status::Failure, "SyntaxError")
    );
    let result = session.run("open('latin.py').read()");
    assert_eq!(
        (result.status, result.error.unwrap().type_.as_str()),
        (Status::Failure, "UnicodeDecodeError")
    );
}
