//! Cells: what is refused before it runs, the time that a cell has, and how a cell is read from JSON.

use std::time::Duration;

use cellblock_protocol::*;
use serde_json::json;

fn refusal(cell: Cell) -> String {
    cell.validate().unwrap_err().to_string()
}

#[test]
fn a_text_is_a_cell() {
    assert_eq!(
        Cell::from("1+1"),
        Cell {
            code: "1+1".to_owned(),
            ..Cell::default()
        }
    );
}

#[test]
fn a_time_out_must_be_a_positive_time() {
    let expected =
        "`timeout`: expected a positive number of seconds, at most 604800 (7 days), got ";
    for (seconds, came) in [
        (0.0, "0"),
        (-3.0, "-3"),
        (f64::NAN, "NaN"),
        (f64::INFINITY, "inf"),
        (604_801.0, "604801"),
    ] {
        let refused = duration_of_seconds("timeout", seconds).unwrap_err();
        assert_eq!(refused.to_string(), format!("{expected}{came}"));
    }
    for (limit, came) in [
        (Duration::ZERO, "0"),
        (Duration::from_secs(604_801), "604801"),
    ] {
        assert_eq!(
            refusal(Cell::new("x").timeout(limit)),
            format!("{expected}{came}")
        );
    }
    assert_eq!(
        Cell::new("x").timeout(Duration::from_millis(1)).validate(),
        Ok(())
    );
}

#[test]
fn code_has_a_largest_size() {
    assert_eq!(
        refusal(Cell::new(" ".repeat(MAX_CODE_BYTES + 1))),
        "`code`: expected at most 16000000 bytes, got 16000001 bytes"
    );
}

#[test]
fn a_nul_byte_is_left_for_python_to_complain_about() {
    assert_eq!(Cell::new("x = '\0'").validate(), Ok(()));
}

#[test]
fn the_sessions_limit_holds_where_the_cell_has_none() {
    let session = Duration::from_secs(30);
    assert_eq!(Cell::new("x").wall(session), session);
    assert_eq!(
        Cell::new("x")
            .timeout(Duration::from_millis(500))
            .wall(session),
        Duration::from_millis(500)
    );
}

#[test]
fn a_cell_is_read_from_json() {
    let read = |value| serde_json::from_value::<Cell>(value).map_err(|error| error.to_string());
    assert_eq!(
        read(json!({"code": "x", "timeout": 5, "atomic": true})),
        Ok(Cell::new("x").timeout(Duration::from_secs(5)).atomic(true))
    );
    assert_eq!(
        read(json!({"code": "x", "timeout": null})),
        Ok(Cell::new("x"))
    );
    assert_eq!(
        read(json!({"code": "x", "timout": 5})),
        Err(
            "unknown field `timout`; the fields are code, timeout, atomic, env, silent, count"
                .to_owned()
        )
    );
    assert_eq!(
        read(json!({"timeout": 5})),
        Err("missing field `code`: expected a text".to_owned())
    );
    assert_eq!(
        read(json!({"code": 3})),
        Err("`code`: expected a text, got 3".to_owned())
    );
}
