//! Known tags in a text that is not XML.

/// What stands between two tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tagged<'a> {
    /// The name of the tag, as it was asked for.
    pub name: &'static str,
    /// The text between them, as it is.
    pub body: &'a str,
    /// Where the opening tag begins, in bytes.
    pub start: usize,
    /// Whether there is a closing tag.
    pub closed: bool,
}

/// Finds these tags, in order. What is inside one is not searched: code may well compare `a < b`.
pub fn tagged<'a>(text: &'a str, names: &[&'static str]) -> Vec<Tagged<'a>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(offset) = text[at..].find('<') {
        let start = at + offset;
        let opening = names
            .iter()
            .find_map(|name| Some((*name, opening_end(&text[start..], name)?)));
        let Some((name, length)) = opening else {
            at = start + 1;
            continue;
        };
        let body_start = start + length;
        let rest = &text[body_start..];
        let close = closing(rest, name);
        let body_length = close.map_or(rest.len(), |(start, _)| start);
        found.push(Tagged {
            name,
            body: &rest[..body_length],
            start,
            closed: close.is_some(),
        });
        at = body_start + close.map_or(rest.len(), |(_, end)| end);
    }
    found
}

/// How long `<name>` is at the beginning of this text. Small models add spaces and change the case.
fn opening_end(text: &str, name: &str) -> Option<usize> {
    let rest = text.strip_prefix('<')?;
    tag_end(rest, name).map(|end| end + 1)
}

/// Where `</name>` begins and ends.
fn closing(text: &str, name: &str) -> Option<(usize, usize)> {
    let mut at = 0;
    while let Some(offset) = text[at..].find("</") {
        let start = at + offset;
        if let Some(end) = tag_end(&text[start + 2..], name) {
            return Some((start, start + 2 + end));
        }
        at = start + 2;
    }
    None
}

/// The length of `name>`, with spaces before the bracket.
fn tag_end(text: &str, name: &str) -> Option<usize> {
    let head = text.get(..name.len())?;
    if !head.eq_ignore_ascii_case(name) {
        return None;
    }
    let tail = &text[name.len()..];
    let spaces = tail.len() - tail.trim_start_matches([' ', '\t']).len();
    tail[spaces..]
        .starts_with('>')
        .then_some(name.len() + spaces + 1)
}
