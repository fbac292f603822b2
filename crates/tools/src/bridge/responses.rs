//! What code in a session holds handles of.

use super::expand::{Piece, pieces};
use crate::Part;
use cellblock_protocol::CellResult;
use std::collections::{HashMap, HashSet, VecDeque};

/// The bytes that are kept for expansion; the oldest go first.
const MOST_BYTES: usize = 64 << 20;

/// The contents behind the handles that one session was given.
#[derive(Debug, Default)]
pub(crate) struct Responses {
    given: usize,
    contents: HashMap<String, Part>,
    order: VecDeque<String>,
    bytes: usize,
}

impl Responses {
    /// Keeps a part and names it. The session's own name is in it, so that no other session's handle is ever taken for it.
    pub(super) fn keep(&mut self, session: &str, part: Part) -> String {
        self.given += 1;
        let id = format!("{session}-{}", self.given);
        self.bytes += size(&part);
        self.contents.insert(id.clone(), part);
        self.order.push_back(id.clone());
        while self.bytes > MOST_BYTES
            && let Some(oldest) = self.order.pop_front()
        {
            if let Some(part) = self.contents.remove(&oldest) {
                self.bytes -= size(&part);
            }
        }
        id
    }

    /// Puts the real contents where markers stand in what a cell wrote. Texts are put in place; of anything else, a label is, and
    /// the thing itself is returned. Each marker counts once; what was put in is not looked at again.
    pub(super) fn expand(&self, result: &mut CellResult) -> Vec<Part> {
        if self.contents.is_empty() {
            return Vec::new();
        }
        self.expand_text(&mut result.stdout);
        self.expand_text(&mut result.stderr);
        let mut attachments = self.expand_text(&mut result.output);
        if let Some(value) = &mut result.value {
            let more = self.expand_text(&mut value.repr);
            attachments.extend(
                more.into_iter()
                    .filter(|part| !attachments.contains(part))
                    .collect::<Vec<_>>(),
            );
        }
        attachments
    }

    fn expand_text(&self, text: &mut String) -> Vec<Part> {
        let mut attachments = Vec::new();
        let mut seen: HashSet<&str> = HashSet::new();
        let mut expanded = String::new();
        let mut found = false;
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) => expanded.push_str(text),
                Piece::Marker { whole, id } => match self.contents.get_key_value(id) {
                    None => expanded.push_str(whole),
                    Some((id, _)) if !seen.insert(id) => {
                        found = true;
                        expanded.push_str("[shown above]");
                    }
                    Some((_, part)) => {
                        found = true;
                        match shown_in_place(part) {
                            Some(text) => expanded.push_str(&text),
                            None => {
                                expanded.push_str(&part.label());
                                attachments.push(part.clone());
                            }
                        }
                    }
                },
            }
        }
        if found {
            *text = expanded;
        }
        attachments
    }
}

fn shown_in_place(part: &Part) -> Option<String> {
    match part {
        Part::Text(text) => Some(text.clone()),
        Part::Blob { mime, data, .. } => {
            let is_text = mime.starts_with("text/") || mime == "application/json";
            is_text.then(|| String::from_utf8_lossy(data).into_owned())
        }
    }
}

fn size(part: &Part) -> usize {
    match part {
        Part::Text(text) => text.len(),
        Part::Blob { data, .. } => data.len(),
    }
}

#[cfg(test)]
mod tests {
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
    fn texts_are_put_in_place_and_pictures_beside_it_in_order() {
        let mut responses = Responses::default();
        let a = responses.keep("s", text("alpha"));
        let b = responses.keep("s", Part::blob("image/png", &b"\x89PNG"[..]));
        let c = responses.keep("s", Part::blob("image/gif", &b"GIF"[..]));
        assert_eq!(
            expanded(
                &responses,
                &format!(
                    "1 <<TOOL_RESPONSE:{c}>> 2 <<TOOL_RESPONSE:{a}>> 3 <<TOOL_RESPONSE:{b}>>\n"
                )
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
    fn a_marker_counts_once() {
        let mut responses = Responses::default();
        let a = responses.keep("s", text("alpha"));
        let marker = format!("<<TOOL_RESPONSE:{a}>>");
        assert_eq!(
            expanded(&responses, &marker.repeat(3)).0,
            "alpha[shown above][shown above]"
        );
    }

    #[test]
    fn what_was_put_in_is_not_looked_at_again() {
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
    fn ids_of_other_sessions_and_broken_markers_stay_as_they_are() {
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
        // Letters of more than one byte around it.
        assert_eq!(
            expanded(&responses, &format!("é<<TOOL_RESPONSE:{own}>>世")).0,
            "éown世"
        );
    }

    #[test]
    fn the_oldest_contents_go_when_there_is_too_much() {
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
}
