//! Options that cannot be.

use super::words;
use crate::support::{builder, open, refusal, session, tool, wait};
use cellblock_protocol::{Limits, SessionOptions, Status};
use serde_json::json;

#[test]
fn an_absurd_limit_is_refused_and_named() {
    let good = Limits::default();
    let zero = std::time::Duration::ZERO;
    let bad = [
        (
            Limits {
                memory: 0,
                ..good.clone()
            },
            "`limits.memory`: expected 33554432 to 17592186044416 bytes, got 0",
        ),
        (
            Limits {
                memory: u64::MAX,
                ..good.clone()
            },
            "`limits.memory`: expected 33554432 to 17592186044416 bytes, got 18446744073709551615",
        ),
        (
            Limits {
                wall: zero,
                ..good.clone()
            },
            "`limits.wall`: expected a positive number of seconds, at most 604800 (7 days), got 0",
        ),
        (
            Limits {
                idle: zero,
                ..good.clone()
            },
            "`limits.idle`: expected a positive number of seconds, at most 604800 (7 days), got 0",
        ),
        (
            Limits {
                processes: 0,
                ..good.clone()
            },
            "`limits.processes`: expected 1 to 65536, got 0",
        ),
        (
            Limits {
                processes: u64::MAX,
                ..good.clone()
            },
            "`limits.processes`: expected 1 to 65536, got 18446744073709551615",
        ),
        (
            Limits {
                open_files: 1,
                ..good.clone()
            },
            "`limits.open_files`: expected 16 to 1048576, got 1",
        ),
        (
            Limits {
                disk: 0,
                ..good.clone()
            },
            "`limits.disk`: expected 1 to 17592186044416 bytes, got 0",
        ),
        (
            Limits {
                output_kept: 0,
                ..good.clone()
            },
            "`limits.output_kept`: expected 1 to 268435456 bytes, got 0",
        ),
        (
            Limits {
                output_spilled: 0,
                ..good.clone()
            },
            "`limits.output_spilled`: expected 1 to 17592186044416 bytes, got 0",
        ),
        (
            Limits {
                checkpoints: 0,
                ..good.clone()
            },
            "`limits.checkpoints`: expected 1 to 50, got 0",
        ),
    ];
    for (limits, message) in bad {
        assert_eq!(
            words(refusal(builder().limits(limits))),
            ("invalid", message.to_owned())
        );
    }
}

#[test]
fn a_negative_limit_is_refused_where_options_come_as_json() {
    for (json, message) in [
        (
            json!({"limits": {"memory": -1}}),
            "`limits.memory`: expected a positive number of bytes, or a text such as \"512MB\" or \"2GiB\", got -1",
        ),
        (
            json!({"limits": {"wall": -0.5}}),
            "`limits.wall`: expected a positive number of seconds, at most 604800 (7 days), got -0.5",
        ),
        (
            json!({"limits": {"processes": 2.5}}),
            "`limits.processes`: expected a positive whole number, got 2.5",
        ),
        (
            json!({"limit": {}}),
            "unknown field `limit`; the fields are session, workspace, workspace_at, env, container, shell, strategy, atomic, arming, isolation, network, unlisted_hosts, credentials, limits, imports, seed, random_seed, setup, journal, replay",
        ),
    ] {
        assert_eq!(
            serde_json::from_value::<SessionOptions>(json)
                .unwrap_err()
                .to_string(),
            message
        );
    }
}

#[test]
fn the_smallest_limits_still_give_a_session() {
    let limits = Limits {
        memory: 32 << 20,
        processes: 1,
        open_files: 16,
        disk: 1,
        output_kept: 1,
        output_spilled: 1,
        checkpoints: 1,
        ..Limits::default()
    };
    let result = open(builder().limits(limits)).run("print('ab')\n1 + 1");
    assert_eq!(
        (result.status, result.stdout.as_str()),
        (Status::Success, "a")
    );
}

#[test]
fn the_largest_limits_still_give_a_session() {
    let limits = Limits {
        memory: 16 << 40,
        processes: 65_536,
        open_files: 1 << 20,
        disk: 16 << 40,
        output_kept: 256 << 20,
        output_spilled: 16 << 40,
        checkpoints: 50,
        ..Limits::default()
    };
    assert_eq!(open(builder().limits(limits)).value("1 + 1"), "2");
}

#[test]
fn a_name_that_is_no_name_is_refused() {
    let expected = "`session`: expected 1 to 64 of the characters A-Z a-z 0-9 . _ -, not starting with a dot, got ";
    for name in ["", "a/b", "..", "a b", "é", "a\0"] {
        assert_eq!(
            words(refusal(builder().name(name))),
            ("invalid", format!("{expected}{name:?}"))
        );
    }
}

#[test]
fn a_seed_that_cannot_be_a_variable_is_refused() {
    for (name, message) in [
        (
            "no name",
            "`seed`: expected names that are Python identifiers, got \"no name\"",
        ),
        (
            "1st",
            "`seed`: expected names that are Python identifiers, got \"1st\"",
        ),
        (
            "class",
            "`seed`: expected names that are not Python keywords, got \"class\"",
        ),
    ] {
        assert_eq!(
            words(refusal(builder().variable(name, 1))),
            ("invalid", message.to_owned())
        );
    }
    let message = "`seed.blob`: expected `{\"$bytes\": base64}` with valid, padded base64, got something else";
    assert_eq!(
        words(refusal(builder().variable("blob", json!({"$bytes": "!"})))),
        ("invalid", message.to_owned())
    );
    let error = refusal(builder().variable("__builtins__", json!({})));
    assert!(error.to_string().contains("__builtins__"), "{error}");
}

#[test]
fn an_import_that_is_none_is_refused() {
    let expected = "`imports`: expected a module such as \"math\", \"numpy as np\" or \"from x import y\", got ";
    for import in ["", "math; print(1)", "from x", "a b", "import", "math as"] {
        assert_eq!(
            words(refusal(builder().import(import))),
            ("invalid", format!("{expected}{import:?}"))
        );
    }
}

#[test]
fn an_import_that_is_not_installed_is_an_error_that_names_it() {
    let (code, message) = words(refusal(builder().import("no_such_module")));
    assert_eq!(code, "refused");
    assert!(
        message.contains("No module named 'no_such_module'"),
        "{message}"
    );
}

#[test]
fn setup_code_that_fails_is_an_error_with_its_traceback() {
    assert_eq!(
        words(refusal(builder().setup("x = 1\n1/0"))),
        (
            "refused",
            "the setup code ended with failure:\nTraceback (most recent call last):\n  File \"<cell 0>\", line 2, in <module>\n    1/0\nZeroDivisionError: division by zero\n".to_owned()
        )
    );
    assert_eq!(
        words(refusal(builder().setup("import os\nos._exit(1)"))).0,
        "refused"
    );
}

#[test]
fn a_tool_that_cannot_be_a_function_is_refused() {
    let session = session();
    let error = wait(session.set_tools(vec![tool("no name", "", &[])])).unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        (
            "invalid",
            "`name`: expected 1 to 64 letters, digits, `_`, `-` or `.`, got \"no name\""
        )
    );
    let error =
        wait(session.set_tools(vec![tool("a-b", "", &[]), tool("a_b", "", &[])])).unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        ("refused", "two tools would both be called 'a_b' in Python")
    );
}

#[test]
fn looking_for_what_is_not_there_is_an_error_that_names_it() {
    let session = session();
    let error = wait(session.inspect("nothing")).unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        ("refused", "there is no variable 'nothing' in this session")
    );
    let error =
        wait(session.read_output(7, cellblock_protocol::Stream::Stdout, 0, 10)).unwrap_err();
    assert_eq!(error.code(), "not_found");
    assert!(error.to_string().contains("cell 7"), "{error}");
}
