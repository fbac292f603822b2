//! Where two requests differ, for a person.

use serde_json::Value;

/// How many differences are told.
const MOST: usize = 5;

/// Characters shown on each side.
const SHOWN: usize = 120;

/// The first differences, a few lines each.
pub(super) fn difference(recorded: &Value, asked: &Value) -> String {
    let mut found = Vec::new();
    compare("", recorded, asked, &mut found);
    let more = found.len().saturating_sub(MOST);
    found.truncate(MOST);
    if more > 0 {
        found.push(format!("and {more} more differences"));
    }
    found.join("\n")
}

fn compare(place: &str, recorded: &Value, asked: &Value, found: &mut Vec<String>) {
    match (recorded, asked) {
        (Value::Object(old), Value::Object(new)) => {
            for key in old
                .keys()
                .chain(new.keys().filter(|key| !old.contains_key(*key)))
            {
                let place = if place.is_empty() {
                    key.clone()
                } else {
                    format!("{place}.{key}")
                };
                side_by_side(&place, old.get(key), new.get(key), found);
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            for index in 0..old.len().max(new.len()) {
                let place = format!("{place}[{index}]");
                side_by_side(&place, old.get(index), new.get(index), found);
            }
        }
        (Value::String(old), Value::String(new)) if old != new => {
            let pairs = old.chars().zip(new.chars());
            let same = pairs.take_while(|(old, new)| old == new).count();
            tell(place, &around(old, same), &around(new, same), found);
        }
        (old, new) if old != new => tell(place, &short(old), &short(new), found),
        _ => {}
    }
}

fn side_by_side(
    place: &str,
    recorded: Option<&Value>,
    asked: Option<&Value>,
    found: &mut Vec<String>,
) {
    match (recorded, asked) {
        (Some(recorded), Some(asked)) => compare(place, recorded, asked, found),
        (recorded, asked) => {
            let show = |value: Option<&Value>| value.map_or("(nothing)".into(), short);
            tell(place, &show(recorded), &show(asked), found);
        }
    }
}

fn tell(place: &str, recorded: &str, asked: &str, found: &mut Vec<String>) {
    found.push(format!(
        "{place}\n  recorded: {recorded}\n  asked:    {asked}"
    ));
}

fn short(value: &Value) -> String {
    around(&value.to_string(), 0)
}

/// The text near the place where it begins to differ, on one line.
fn around(text: &str, place: usize) -> String {
    let start = place.saturating_sub(20);
    let piece: String = text.chars().skip(start).take(SHOWN).collect();
    let before = if start > 0 { "…" } else { "" };
    let after = if text.chars().count() > start + SHOWN {
        "…"
    } else {
        ""
    };
    format!("{before}{}{after}", piece.escape_debug())
}
