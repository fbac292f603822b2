//! HTML as Markdown: headings, paragraphs, lists, links, tables and code. What cannot be read is left out, never an error.

/// Elements whose content is no text of the page.
const HIDDEN: &[&str] = &["script", "style", "noscript", "template", "svg", "head"];

/// Elements that begin and end a paragraph.
const BLOCKS: &[&str] = &[
    "p",
    "div",
    "section",
    "article",
    "main",
    "header",
    "footer",
    "nav",
    "ul",
    "ol",
    "table",
    "form",
    "blockquote",
    "figure",
    "dl",
    "dd",
    "dt",
    "fieldset",
    "aside",
    "tbody",
    "thead",
];

/// The text of a page as Markdown. `address` is the page's own, for links without a host.
pub(super) fn markdown_of(html: &str, address: &str) -> String {
    let mut page = PageWriter {
        address,
        ..PageWriter::default()
    };
    let mut rest = html;
    while let Some((text, tail)) = rest.split_once('<') {
        page.add_text(text);
        rest = match tail.strip_prefix("!--") {
            Some(comment) => comment.split_once("-->").map_or("", |(_, after)| after),
            None => page.add_tag(tail),
        };
    }
    page.add_text(rest);
    page.finished()
}

#[derive(Default)]
struct PageWriter<'a> {
    address: &'a str,
    out: String,
    /// The targets of the links that are open, with where their text begins.
    links: Vec<(String, usize)>,
    /// Whether the text is inside `pre`.
    is_preformatted: bool,
    /// The cells of the row that is open.
    cells: Option<Vec<String>>,
    /// Where the open cell begins in `out`.
    cell_start: usize,
    /// Whether the open table has a row already.
    has_row: bool,
}

impl PageWriter<'_> {
    fn add_text(&mut self, text: &str) {
        let text = decoded(text);
        if self.is_preformatted {
            self.out.push_str(&text);
            return;
        }
        let ends_with_space = self.out.ends_with([' ', '\n']) || self.out.is_empty();
        if text.starts_with(char::is_whitespace) && !ends_with_space {
            self.out.push(' ');
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        self.out.push_str(&words.join(" "));
        if !words.is_empty() && text.ends_with(char::is_whitespace) {
            self.out.push(' ');
        }
    }

    /// Reads a tag whose `<` is gone. Returns what follows it.
    fn add_tag<'t>(&mut self, tail: &'t str) -> &'t str {
        let Some((tag, after)) = tail.split_once('>') else {
            return "";
        };
        let (is_end, tag) = match tag.strip_prefix('/') {
            Some(tag) => (true, tag),
            None => (false, tag),
        };
        let name: String = tag
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric())
            .collect::<String>()
            .to_ascii_lowercase();
        if HIDDEN.contains(&name.as_str()) && !is_end && !tag.ends_with('/') {
            return after_end_of(after, &name);
        }
        match (name.as_str(), is_end) {
            ("h1" | "h2" | "h3" | "h4" | "h5" | "h6", false) => {
                let level = name[1..].parse().unwrap_or(1);
                self.paragraph();
                self.out.push_str(&"#".repeat(level));
                self.out.push(' ');
            }
            ("h1" | "h2" | "h3" | "h4" | "h5" | "h6", true) => self.paragraph(),
            ("br", _) => self.line(),
            ("hr", _) => {
                self.paragraph();
                self.out.push_str("---");
                self.paragraph();
            }
            ("li", false) => {
                self.entry();
                self.out.push_str("- ");
            }
            ("strong" | "b", _) => self.out.push_str("**"),
            ("code", _) if !self.is_preformatted => self.out.push('`'),
            ("pre", is_end) => {
                self.paragraph();
                self.out.push_str("```");
                self.out.push('\n');
                self.is_preformatted = !is_end;
            }
            ("a", false) => {
                if let Some(target) = attribute(tag, "href") {
                    let target = absolute(&target, self.address);
                    self.links.push((target, self.out.len()));
                }
            }
            ("a", true) => self.end_link(),
            ("img", _) => {
                let words = attribute(tag, "alt").filter(|words| !words.trim().is_empty());
                if let Some(words) = words {
                    self.out.push_str(&format!("[picture: {}]", words.trim()));
                }
            }
            ("table", false) => {
                self.paragraph();
                self.has_row = false;
            }
            ("tr", false) => self.cells = Some(Vec::new()),
            ("tr", true) => self.end_row(),
            ("td" | "th", false) => self.cell_start = self.out.len(),
            ("td" | "th", true) => self.end_cell(),
            (block, _) if BLOCKS.contains(&block) && self.cells.is_none() => self.paragraph(),
            _ => {}
        }
        after
    }

    fn end_link(&mut self) {
        let Some((target, start)) = self.links.pop() else {
            return;
        };
        let Some(text) = self.out.get(start..).map(|text| text.trim().to_owned()) else {
            return;
        };
        if !text.is_empty() && !target.starts_with("javascript:") {
            self.out.truncate(start);
            self.out.push_str(&format!("[{text}]({target})"));
        }
    }

    fn end_cell(&mut self) {
        let Some(cells) = &mut self.cells else {
            return;
        };
        let text = self.out.get(self.cell_start..).unwrap_or_default();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        cells.push(text.replace('|', "\\|"));
        self.out.truncate(self.cell_start);
    }

    fn end_row(&mut self) {
        let Some(cells) = self.cells.take().filter(|cells| !cells.is_empty()) else {
            return;
        };
        self.entry();
        self.out.push_str(&format!("| {} |", cells.join(" | ")));
        if !self.has_row {
            let marks = vec!["---"; cells.len()];
            self.out.push_str(&format!("\n| {} |", marks.join(" | ")));
        }
        self.has_row = true;
        self.out.push('\n');
    }

    fn line(&mut self) {
        self.trim_end();
        if !self.out.is_empty() {
            self.out.push('\n');
        }
    }

    fn paragraph(&mut self) {
        self.trim_end();
        if !self.out.is_empty() {
            self.out.push_str("\n\n");
        }
    }

    /// Begins a line, and keeps an empty line that is there already.
    fn entry(&mut self) {
        let is_after_paragraph = self.out.trim_end_matches(' ').ends_with("\n\n");
        match is_after_paragraph {
            true => self.paragraph(),
            false => self.line(),
        }
    }

    /// Removes the spaces and empty lines at the end.
    fn trim_end(&mut self) {
        self.out.truncate(self.out.trim_end().len());
    }

    fn finished(mut self) -> String {
        self.trim_end();
        self.out
    }
}

/// What follows the end tag of an element. Nothing, where it is missing.
fn after_end_of<'t>(text: &'t str, name: &str) -> &'t str {
    let end = format!("</{name}");
    let found = text
        .match_indices("</")
        .find(|(at, _)| {
            text.get(*at..at + end.len())
                .is_some_and(|tag| tag.eq_ignore_ascii_case(&end))
        })
        .map(|(at, _)| at);
    let tail = found.map_or("", |at| &text[at..]);
    tail.split_once('>').map_or("", |(_, after)| after)
}

/// The value of an attribute of a tag.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let lower = tag.to_ascii_lowercase();
    let at = lower
        .match_indices(name)
        .find(|(at, _)| {
            let begins = lower[..*at].ends_with(char::is_whitespace);
            begins && lower[at + name.len()..].trim_start().starts_with('=')
        })
        .map(|(at, _)| at)?;
    let value = tag.get(at + name.len()..)?.trim_start();
    let value = value.strip_prefix('=')?.trim_start();
    let value = match value.chars().next()? {
        mark @ ('"' | '\'') => value[1..].split(mark).next(),
        _ => value.split(|c: char| c.is_whitespace()).next(),
    };
    value.map(decoded)
}

/// A link with the host of the page, where it has none.
fn absolute(target: &str, address: &str) -> String {
    let has_scheme = target.split_once(':').is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric())
    });
    if has_scheme || target.starts_with('#') {
        return target.to_owned();
    }
    let (scheme, rest) = address.split_once("://").unwrap_or(("http", address));
    let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    if let Some(other) = target.strip_prefix("//") {
        return format!("{scheme}://{other}");
    }
    if target.starts_with('/') {
        return format!("{scheme}://{host}{target}");
    }
    let path = rest[host.len()..].split(['?', '#']).next().unwrap_or("");
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    format!("{scheme}://{host}{folder}/{target}")
}

/// A text with its entities as characters.
fn decoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let entity = after.split_once(';').filter(|(name, _)| name.len() <= 10);
        let found = entity.and_then(|(name, tail)| Some((character(name)?, tail)));
        match found {
            Some((character, tail)) => {
                out.push(character);
                rest = tail;
            }
            None => {
                out.push('&');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

fn character(entity: &str) -> Option<char> {
    let named = [
        ("amp", '&'),
        ("lt", '<'),
        ("gt", '>'),
        ("quot", '"'),
        ("apos", '\''),
        ("nbsp", ' '),
        ("ndash", '\u{2013}'),
        ("mdash", '\u{2014}'),
        ("hellip", '\u{2026}'),
        ("copy", '\u{a9}'),
        ("euro", '\u{20ac}'),
        ("deg", '\u{b0}'),
    ];
    if let Some((_, found)) = named.iter().find(|(name, _)| *name == entity) {
        return Some(*found);
    }
    let digits = entity.strip_prefix('#')?;
    let code = match digits.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    char::from_u32(code)
}

#[cfg(test)]
mod tests {
    use super::markdown_of;

    #[test]
    fn a_page_becomes_markdown() {
        let html = "<!DOCTYPE html><html><head><title>no</title><style>p {}</style></head><body>\
            <h1>Rain &amp; sun</h1><p>In <b>Oslo</b>,\n see <a href=\"/days?a=1&amp;b=2\">the days</a>.</p>\
            <!-- not <p>this</p> --><script>if (a < b) {}</script>\
            <ul><li>one</li><li><a href='more.html'>two</a></li></ul>\
            <table><tr><th>day</th><th>mm</th></tr><tr><td>Monday</td><td>4&#46;5</td></tr></table>\
            <pre>a  b\n c</pre><img src=x alt=\"a chart\"></body></html>";
        let expected = "# Rain & sun\n\nIn **Oslo**, see [the days](http://weather.example/days?a=1&b=2).\n\n\
            - one\n- [two](http://weather.example/now/more.html)\n\n\
            | day | mm |\n| --- | --- |\n| Monday | 4.5 |\n\n```\na  b\n c\n\n```\n[picture: a chart]";
        assert_eq!(
            markdown_of(html, "http://weather.example/now/index.html"),
            expected
        );
    }

    #[test]
    fn broken_pages_are_read_as_far_as_they_go() {
        for (html, expected) in [
            ("", ""),
            ("no tags & no end", "no tags & no end"),
            ("<p>open <a href=", "open"),
            ("a <script> never ends", "a"),
            ("</a></td></tr>x", "x"),
            ("<a href='javascript:x()'>go</a>", "go"),
            ("&#x110000; &unknown; &", "&#x110000; &unknown; &"),
        ] {
            assert_eq!(markdown_of(html, "http://x"), expected, "{html}");
        }
    }
}
