//! R1, R3, R33: what is there before the first cell.

use crate::support::{builder, open, session, wait};
use cellblock_protocol::bytes_seed;
use serde_json::json;

#[test]
fn r1_variables_given_at_the_start_are_there_in_the_first_cell() {
    let session = open(
        builder()
            .variable("readings", json!([12, 19.5, "x", null, true]))
            .variable("options", json!({"depth": {"inner": [1]}}))
            .variable("name", "Ada"),
    );
    assert_eq!(
        session.value("readings, options, name"),
        "([12, 19.5, 'x', None, True], {'depth': {'inner': [1]}}, 'Ada')"
    );
}

#[test]
fn r1_bytes_are_seeded_as_bytes() {
    let every_byte: Vec<u8> = (0..=255).collect();
    let session = open(builder().variable("blob", bytes_seed(&every_byte)));
    assert_eq!(session.value("blob == bytes(range(256))"), "True");
}

#[test]
fn r1_setup_code_runs_as_cell_0() {
    let session = open(builder().setup("base = 20\ndef fail():\n    raise OSError(base)"));
    let result = session.run("fail()");
    assert_eq!(
        (result.cell, result.error.unwrap().traceback.as_str()),
        (
            1,
            "Traceback (most recent call last):\n  File \"<cell 1>\", line 1, in <module>\n    fail()\n  \
                 File \"<cell 0>\", line 3, in fail\n    raise OSError(base)\nOSError: 20\n"
        )
    );
}

#[test]
fn r1_setup_code_sees_the_seeds_and_the_imports() {
    let session = open(
        builder()
            .variable("side", 3)
            .import("math")
            .setup("area = math.pi * side"),
    );
    assert_eq!(session.value("area"), "9.42477796076938");
}

#[test]
fn r1_what_was_there_before_the_first_cell_is_not_its_doing() {
    let session = open(builder().variable("a", 1).import("math").setup("b = 2"));
    assert!(session.good("a + b").variables.is_empty());
}

#[test]
fn variables_can_be_seeded_between_cells_too() {
    let session = session();
    session.good("x = 1");
    let seed = json!({"y": [2], "blob": bytes_seed(b"\0")});
    wait(session.seed(seed.as_object().unwrap().clone())).unwrap();
    assert_eq!(session.value("x, y, blob"), r"(1, [2], b'\x00')");
}

#[test]
fn r3_a_seeded_name_that_is_bound_anew_stays_so() {
    let session = open(builder().variable("limit", 1));
    session.good("limit = limit + 1");
    assert_eq!(session.value("limit"), "2");
}

#[test]
fn r33_imports_are_bound_beforehand() {
    let session = open(
        builder()
            .import("math")
            .import("json as j")
            .import("from collections import Counter, OrderedDict as Ordered"),
    );
    assert_eq!(
        session.value("math.floor(2.5), j.dumps([1]), Counter('aab')['a'], Ordered.__name__"),
        "(2, '[1]', 2, 'OrderedDict')"
    );
}
