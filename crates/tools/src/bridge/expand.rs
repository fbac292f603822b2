//! Markers in a text.

/// What begins and what ends a marker.
const BEGIN: &str = "<<TOOL_RESPONSE:";
const END: &str = ">>";
/// Ids are short: what comes later in the text is not searched for an end.
const LONGEST_ID: usize = 128;

/// A piece of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Text(&'a str),
    /// Something that has the form of a marker, and the id in it.
    Marker {
        whole: &'a str,
        id: &'a str,
    },
}

/// Cuts a text at its markers, from the left, each byte looked at once.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(BEGIN) {
        let after = &rest[at + BEGIN.len()..];
        match id_of(after) {
            Some(id) => {
                let end = at + BEGIN.len() + id.len() + END.len();
                pieces.push(Piece::Text(&rest[..at]));
                pieces.push(Piece::Marker {
                    whole: &rest[at..end],
                    id,
                });
                rest = &rest[end..];
            }
            None => {
                let end = at + BEGIN.len();
                pieces.push(Piece::Text(&rest[..end]));
                rest = after;
            }
        }
    }
    pieces.push(Piece::Text(rest));
    pieces
}

fn id_of(text: &str) -> Option<&str> {
    let good = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let length = text.bytes().take(LONGEST_ID + 1).take_while(good).count();
    let is_closed = text[length..].starts_with(END);
    (is_closed && (1..=LONGEST_ID).contains(&length)).then(|| &text[..length])
}
