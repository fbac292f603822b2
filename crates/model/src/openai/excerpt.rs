//! What an endpoint said, short and harmless enough for a message to a person.

const LONGEST: usize = 300;

/// The beginning of a text on one line: without control characters, and without tags where it is a web page.
pub(super) fn excerpt(text: &str) -> String {
    let text = if looks_like_html(text) {
        without_tags(text)
    } else {
        text.to_owned()
    };
    let mut words = String::new();
    let mut kept = 0;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        if !words.is_empty() {
            words.push(' ');
            kept += 1;
        }
        for character in word.chars() {
            if kept == LONGEST {
                words.push('…');
                return words;
            }
            words.push(character);
            kept += 1;
        }
    }
    words
}

/// Whether this is a web page rather than an answer of the protocol.
pub(super) fn looks_like_html(text: &str) -> bool {
    let start: String = text.trim_start().chars().take(15).collect();
    let start = start.to_ascii_lowercase();
    start.starts_with("<!doctype") || start.starts_with("<html") || start.starts_with("<head")
}

fn without_tags(text: &str) -> String {
    let mut plain = String::new();
    let mut in_tag = false;
    for character in text.chars() {
        match character {
            '<' => in_tag = true,
            '>' => {
                in_tag = false;
                plain.push(' ');
            }
            _ if !in_tag => plain.push(character),
            _ => {}
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_web_page_becomes_its_words() {
        let page = "<html><head><title>502 Bad Gateway</title></head>\n<body>\x1b[31mnginx</body>";
        assert_eq!(excerpt(page), "502 Bad Gateway [31mnginx");
    }

    #[test]
    fn a_long_text_is_cut() {
        assert_eq!(excerpt(&"é".repeat(1000)).chars().count(), LONGEST + 1);
    }
}
