//! Markers in texts, and the contents that replace them.

use super::Responses;
use crate::Part;

fn expanded(responses: &Responses, text: &str) -> (String, Vec<Part>) {
    let mut text = text.to_owned();
    let attachments = responses.expand_text(&mut text);
    (text, attachments)
}

fn text(content: &str) -> Part {
    Part::blob("text/plain", content.to_owned())
}

#[test]
fn texts_are_put_in_place_and_pictures_are_returned_in_order() {
    let mut responses = Responses::default();
    let a = responses.keep("s", text("alpha"));
    let b = responses.keep("s", Part::blob("image/png", &b"\x89PNG"[..]));
    let c = responses.keep("s", Part::blob("image/gif", &b"GIF"[..]));
    assert_eq!(
        expanded(
            &responses,
            &format!("1 <<TOOL_RESPONSE:{c}>> 2 <<TOOL_RESPONSE:{a}>> 3 <<TOOL_RESPONSE:{b}>>\n")
        ),
        (
            "1 [image/gif, 3 bytes] 2 alpha 3 [image/png, 4 bytes]\n".to_owned(),
            vec![
                Part::blob("image/gif", &b"GIF"[..]),
                Part::blob("image/png", &b"\x89PNG"[..])
            ]
        )
    );
}

#[test]
fn a_marker_is_replaced_once() {
    let mut responses = Responses::default();
    let a = responses.keep("s", text("alpha"));
    let marker = format!("<<TOOL_RESPONSE:{a}>>");
    assert_eq!(
        expanded(&responses, &marker.repeat(3)).0,
        "alpha[shown above][shown above]"
    );
}

#[test]
fn replaced_text_is_not_searched_again() {
    let mut responses = Responses::default();
    let secret = responses.keep("s", text("secret"));
    let first = responses.keep("s", text(&format!("<<TOOL_RESPONSE:{secret}>>")));
    let half = responses.keep("s", text("<<TOOL_RESP"));
    let (text, _) = expanded(
        &responses,
        &format!("<<TOOL_RESPONSE:{first}>> <<TOOL_RESPONSE:{half}>>ONSE:{secret}>>"),
    );
    assert_eq!(
        text,
        format!("<<TOOL_RESPONSE:{secret}>> <<TOOL_RESPONSE:{secret}>>")
    );
}

#[test]
fn markers_of_other_sessions_and_broken_markers_stay() {
    let mut responses = Responses::default();
    let own = responses.keep("s", text("own"));
    for marker in [
        "<<TOOL_RESPONSE:other-1>>".to_owned(),
        "<<TOOL_RESPONSE:s-2>>".to_owned(),
        "<<TOOL_RESPONSE:>>".to_owned(),
        format!("<<TOOL_RESPONSE: {own}>>"),
        format!("<<TOOL_RESPONSE:{own}>"),
        format!("<TOOL_RESPONSE:{own}>>"),
        format!("<<tool_response:{own}>>"),
        format!("<<TOOL_RESPONSE:{own}\n>>"),
        format!("<<TOOL_RESPONSE:{}", "x".repeat(100_000)),
        "<<TOOL_RESPONSE:".repeat(1000),
    ] {
        assert_eq!(expanded(&responses, &marker), (marker, vec![]));
    }
}

#[test]
fn a_marker_within_a_marker_is_found() {
    let mut responses = Responses::default();
    let own = responses.keep("s", text("own"));
    assert_eq!(
        expanded(
            &responses,
            &format!("<<TOOL_RESPONSE:<<TOOL_RESPONSE:{own}>>>>")
        )
        .0,
        "<<TOOL_RESPONSE:own>>"
    );
    // Characters of more than one byte around it.
    assert_eq!(
        expanded(&responses, &format!("é<<TOOL_RESPONSE:{own}>>世")).0,
        "éown世"
    );
}

#[test]
fn the_oldest_contents_are_dropped_first() {
    let mut responses = Responses::default();
    let first = responses.keep("s", Part::blob("application/zip", vec![0; 40 << 20]));
    let second = responses.keep("s", Part::blob("application/zip", vec![0; 40 << 20]));
    let marker = format!("<<TOOL_RESPONSE:{first}>>");
    assert_eq!(expanded(&responses, &marker).0, marker);
    let marker = format!("<<TOOL_RESPONSE:{second}>>");
    assert_eq!(
        expanded(&responses, &marker).0,
        "[application/zip, 41943040 bytes]"
    );
}
