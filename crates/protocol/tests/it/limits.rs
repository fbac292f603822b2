//! Limits of a session: defaults, how sizes and times are written, and how a wrong limit is answered.

use std::time::Duration;

use cellblock_protocol::*;
use serde_json::{Value, json};

fn read(value: Value) -> Result<Limits, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

/// Pages and the Python package cannot take the numbers from the code, so this compares them.
#[test]
fn the_pages_and_the_python_package_name_the_defaults_of_the_code() {
    let Limits {
        memory,
        wall,
        processes,
        cpus: None,
        open_files,
        disk,
        output_kept,
        output_spilled,
        idle,
        checkpoints,
        checkpoint_memory: None,
    } = Limits::DEFAULT
    else {
        panic!("the pages say `all processors` and `a quarter of the memory`");
    };
    let gib = |bytes: u64| {
        assert_eq!(bytes % (1 << 30), 0);
        bytes >> 30
    };
    let mb = |bytes: u64| {
        assert_eq!(bytes % 1_000_000, 0);
        bytes / 1_000_000
    };
    let (memory, disk, wall) = (gib(memory), gib(disk), wall.as_secs());
    let (kept, spilled, idle) = (mb(output_kept), mb(output_spilled), idle.as_secs() / 60);
    let names = |page: &str, expected: &[String]| {
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        for text in expected {
            assert!(page.contains(text), "{text:?} is missing");
        }
    };
    names(
        include_str!("../../../../docs/sessions.md"),
        &[
            format!("| `memory` | {memory} GiB |"),
            format!("| `wall` (`timeout` of one cell) | {wall} s |"),
            format!("| `processes` | {processes} |"),
            format!("| `open_files` | {open_files} |"),
            format!("| `disk` | {disk} GiB |"),
            format!("| `output_kept` | {kept} MB |"),
            format!("| `output_spilled` | {spilled} MB |"),
            format!("| `idle` | {idle} min |"),
            format!("| `checkpoints` | {checkpoints} |"),
        ],
    );
    names(
        include_str!("../../../../docs/cli.md"),
        &[
            format!("`2min` | {wall}s |"),
            format!("`2GiB` | {memory}GiB |"),
            format!("the most processes and threads | {processes} |"),
            format!("the most new data on disk | {disk}GiB |"),
            format!("the most open files | {open_files} |"),
        ],
    );
    names(
        include_str!("../../../../docs/server.md"),
        &[format!("that asks for no limit has {disk} GiB")],
    );
    let sentence = format!(
        "memory {memory} GiB, wall {wall} s a cell, {processes} processes, all processors, {open_files} open files, {disk} GiB of new data on disk, {kept} MB kept of each stream and {spilled} MB spilled, idle {idle} min, {checkpoints} checkpoints in a quarter of the memory"
    );
    names(
        include_str!("../../../../python/src/cellblock/options.py"),
        std::slice::from_ref(&sentence),
    );
    names(include_str!("../../../../docs/python-api.md"), &[sentence]);
}

#[test]
fn what_is_absent_has_the_default_of_the_contract() {
    let expected = Limits {
        memory: 2 * 1024 * 1024 * 1024,
        wall: Duration::from_secs(30),
        processes: 64,
        cpus: None,
        open_files: 1024,
        disk: 1024 * 1024 * 1024,
        output_kept: 1_000_000,
        output_spilled: 64_000_000,
        idle: Duration::from_secs(1800),
        checkpoints: 10,
        checkpoint_memory: None,
    };
    assert_eq!(read(json!({})), Ok(expected.clone()));
    assert_eq!(expected.checkpoint_budget(), 512 * 1024 * 1024);
    assert_eq!(expected.validate(), Ok(()));
}

#[test]
fn sizes_and_times_can_be_written_as_people_write_them() {
    let limits = read(
        json!({"memory": "512MB", "disk": "2GiB", "wall": "5min", "idle": "1.5h", "checkpoint_memory": "64M"}),
    );
    let expected = Limits {
        memory: 512_000_000,
        disk: 2 << 30,
        wall: Duration::from_secs(300),
        idle: Duration::from_secs(5400),
        checkpoint_memory: Some(64 << 20),
        ..Limits::default()
    };
    assert_eq!(limits, Ok(expected));
}

#[test]
fn limits_survive_the_journey() {
    let limits = Limits {
        memory: 512 << 20,
        wall: Duration::from_millis(2500),
        cpus: Some(0.5),
        ..Limits::default()
    };
    let json = serde_json::to_value(&limits).unwrap();
    assert_eq!(json["wall"], json!(2.5));
    assert_eq!(read(json), Ok(limits));
}

#[test]
fn a_wrong_limit_is_named_with_what_came() {
    let wrong = |value| read(value).unwrap_err();
    assert_eq!(
        wrong(json!({"cpus": 0})),
        "`cpus`: expected a number of processors, from 0.01 to 1024, got 0"
    );
    assert_eq!(
        wrong(json!({"cpus": "two"})),
        "`cpus`: expected a number of processors, got \"two\""
    );
    assert_eq!(
        wrong(json!({"memory": -5})),
        "`memory`: expected a positive number of bytes, or a text such as \"512MB\" or \"2GiB\", got -5"
    );
    assert_eq!(
        wrong(json!({"memory": "-5MB"})),
        "`memory`: expected a positive number of bytes, or a text such as \"512MB\" or \"2GiB\", got \"-5MB\""
    );
    assert_eq!(
        wrong(json!({"disk": "9 parsecs"})),
        "`disk`: expected a positive number of bytes, or a text such as \"512MB\" or \"2GiB\", got \"9 parsecs\""
    );
    assert_eq!(
        wrong(json!({"memory": 0})),
        "`memory`: expected 33554432 to 17592186044416 bytes, got 0"
    );
    assert_eq!(
        wrong(json!({"processes": 0})),
        "`processes`: expected 1 to 65536, got 0"
    );
    assert_eq!(
        wrong(json!({"processes": -1})),
        "`processes`: expected a positive whole number, got -1"
    );
    assert_eq!(
        wrong(json!({"open_files": 2.5})),
        "`open_files`: expected a positive whole number, got 2.5"
    );
    assert_eq!(
        wrong(json!({"wall": 0})),
        "`wall`: expected a positive number of seconds, at most 604800 (7 days), got 0"
    );
    assert_eq!(
        wrong(json!({"idle": true})),
        "`idle`: expected a positive number of seconds, or a text such as \"30s\" or \"5min\", got true"
    );
    assert_eq!(
        wrong(json!({"mem": 5})),
        "unknown field `mem`; the fields are memory, wall, processes, cpus, open_files, disk, output_kept, output_spilled, idle, checkpoints, checkpoint_memory"
    );
}

#[test]
fn sizes_are_exact_and_never_overflow() {
    assert_eq!(parse_size("4096"), Ok(4096));
    assert_eq!(parse_size(" 1.5 GiB "), Ok(3 << 29));
    assert_eq!(parse_size("9007199254740993"), Ok(9_007_199_254_740_993));
    for wrong in [
        "",
        "MB",
        "1e3",
        "99999999999999999999",
        "18446744073709551615TB",
        "1.2.3MB",
        "NaN",
        "-1",
    ] {
        assert!(parse_size(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn an_age_may_be_longer_than_a_time_limit() {
    assert_eq!(parse_age("30d"), Ok(Duration::from_secs(30 * 24 * 3600)));
    assert!(parse_duration("30d").is_err());
    for wrong in ["0", "4000d", "soon", ""] {
        assert!(parse_age(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn times_have_units() {
    assert_eq!(parse_duration("30s"), Ok(Duration::from_secs(30)));
    assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
    assert_eq!(parse_duration("2"), Ok(Duration::from_secs(2)));
    for wrong in ["", "0", "8d", "-1s", "1 fortnight", "infs"] {
        assert!(parse_duration(wrong).is_err(), "{wrong}");
    }
}
