//! Markdown as safe HTML.
//!
//! Safe by construction and not by cleaning: HTML in the source is shown as text, and only the addresses below become links.
//! Models write the Markdown, and what a model writes may come from a hostile file.

use pulldown_cmark::{
    CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html,
};

use super::escape::escaped;
use super::highlight;

/// The HTML of `source`.
///
/// An image with a relative address becomes `<img data-path="…">` without a source: the page knows the session whose file it is.
/// A remote image becomes a link, because loading it would tell its server that the answer is being read.
pub(super) fn to_html(source: &str) -> String {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_FOOTNOTES;
    let mut safe = Safe::default();
    let events = Parser::new_ext(source, options).filter_map(|event| safe.event(event));
    let mut html = String::with_capacity(source.len() * 2);
    html::push_html(&mut html, events);
    html
}

/// The state between events: code blocks and images are collected until their end.
#[derive(Default)]
struct Safe<'source> {
    /// The language and the text of the code block that is open.
    code: Option<(String, String)>,
    /// The address and the description of the image that is open.
    image: Option<(CowStr<'source>, String)>,
    /// Whether the cells that come are those of a table's head.
    is_head: bool,
}

impl<'source> Safe<'source> {
    fn event(&mut self, event: Event<'source>) -> Option<Event<'source>> {
        if let Some((_, description)) = &mut self.image {
            match event {
                Event::End(TagEnd::Image) => return self.end_image(),
                Event::Text(text) | Event::Code(text) => description.push_str(&text),
                _ => {}
            }
            return None;
        }
        if let Some((_, code)) = &mut self.code {
            match event {
                Event::End(TagEnd::CodeBlock) => return self.end_code(),
                Event::Text(text) => code.push_str(&text),
                _ => {}
            }
            return None;
        }
        match event {
            Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
            Event::Start(Tag::HtmlBlock) => Some(Event::Start(Tag::Paragraph)),
            Event::End(TagEnd::HtmlBlock) => Some(Event::End(TagEnd::Paragraph)),
            Event::Start(Tag::CodeBlock(kind)) => {
                self.code = Some((language_of(&kind), String::new()));
                None
            }
            Event::Start(Tag::Image { dest_url, .. }) => {
                self.image = Some((dest_url, String::new()));
                None
            }
            Event::Start(Tag::Link { dest_url, .. }) => Some(raw(link_start(&dest_url))),
            Event::End(TagEnd::Link) => Some(raw("</a>".to_owned())),
            Event::Start(Tag::Heading { level, .. }) => {
                Some(raw(format!("<h{}>", page_level(level))))
            }
            Event::End(TagEnd::Heading(level)) => Some(raw(format!("</h{}>", page_level(level)))),
            Event::Start(Tag::Table(_)) => {
                // The scroller takes the focus, so that a wide table can be scrolled with keys.
                Some(raw(
                    "<div class=\"table-scroll\" tabindex=\"0\"><table><thead><tr>".to_owned(),
                ))
            }
            Event::End(TagEnd::Table) => Some(raw("</tbody></table></div>".to_owned())),
            Event::Start(Tag::TableHead) => {
                self.is_head = true;
                None
            }
            Event::End(TagEnd::TableHead) => {
                self.is_head = false;
                Some(raw("</tr></thead><tbody>".to_owned()))
            }
            Event::Start(Tag::TableRow) => Some(raw("<tr>".to_owned())),
            Event::End(TagEnd::TableRow) => Some(raw("</tr>".to_owned())),
            Event::Start(Tag::TableCell) if self.is_head => {
                Some(raw("<th scope=\"col\">".to_owned()))
            }
            Event::End(TagEnd::TableCell) if self.is_head => Some(raw("</th>".to_owned())),
            Event::Start(Tag::TableCell) => Some(raw("<td>".to_owned())),
            Event::End(TagEnd::TableCell) => Some(raw("</td>".to_owned())),
            other => Some(other),
        }
    }

    fn end_code(&mut self) -> Option<Event<'source>> {
        let (language, code) = self.code.take()?;
        let body = highlight::to_html(&code, &language);
        Some(raw(format!(
            "<pre class=\"code\" tabindex=\"0\" data-language=\"{}\"><code>{body}</code></pre>",
            escaped(&language)
        )))
    }

    fn end_image(&mut self) -> Option<Event<'source>> {
        let (address, description) = self.image.take()?;
        let (address, description) = (escaped(&address), escaped(&description));
        Some(raw(match Address::of(&address) {
            Address::Workspace => format!("<img data-path=\"{address}\" alt=\"{description}\">"),
            Address::Web => format!("{}{description}</a>", link_start_escaped(&address)),
            Address::Refused => description,
        }))
    }
}

/// Where an address leads.
enum Address {
    /// To a file of the workspace.
    Workspace,
    /// To the web or to a mail program.
    Web,
    /// To a script, to data, or to something unknown.
    Refused,
}

impl Address {
    fn of(address: &str) -> Self {
        let lower = address.trim().to_ascii_lowercase();
        let is_web = ["https://", "http://", "mailto:"]
            .iter()
            .any(|start| lower.starts_with(start));
        if is_web {
            Self::Web
        } else if lower.contains(':')
            || lower.starts_with('/')
            || lower.starts_with('\\')
            || lower.is_empty()
        {
            Self::Refused
        } else {
            Self::Workspace
        }
    }
}

fn link_start(address: &str) -> String {
    link_start_escaped(&escaped(address))
}

fn link_start_escaped(address: &str) -> String {
    match Address::of(address) {
        Address::Web => {
            format!("<a href=\"{address}\" target=\"_blank\" rel=\"noopener noreferrer nofollow\">")
        }
        Address::Workspace => format!("<a data-path=\"{address}\">"),
        Address::Refused => "<a>".to_owned(),
    }
}

/// The first word after the fence, without anything but the characters of a name.
fn language_of(kind: &CodeBlockKind<'_>) -> String {
    match kind {
        CodeBlockKind::Fenced(words) => words
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || "+-_#".contains(*c))
            .take(20)
            .collect(),
        CodeBlockKind::Indented => String::new(),
    }
}

/// The level of a heading on the page. The page itself has the first two.
fn page_level(level: HeadingLevel) -> usize {
    (level as usize + 2).min(6)
}

fn raw<'source>(html: String) -> Event<'source> {
    Event::Html(CowStr::from(html))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn markup_in_the_source_is_shown_and_not_used() {
        assert_eq!(
            to_html("a <b onclick=x>b</b>"),
            "<p>a &lt;b onclick=x&gt;b&lt;/b&gt;</p>\n"
        );
        assert_eq!(
            to_html("<script>alert(1)</script>\n"),
            "<p>&lt;script&gt;alert(1)&lt;/script&gt;\n</p>\n"
        );
    }

    #[test]
    fn only_web_addresses_become_links() {
        assert_eq!(
            to_html(
                "[a](https://example.org/?a=1&b=\"2) [b](javascript:alert(1)) [c](data:text/html,x) [d](out.csv)"
            ),
            "<p><a href=\"https://example.org/?a=1&amp;b=&quot;2\" target=\"_blank\" rel=\"noopener noreferrer nofollow\">a</a> \
             <a>b</a> <a>c</a> <a data-path=\"out.csv\">d</a></p>\n"
        );
        assert!(to_html("<https://example.org>").contains("href=\"https://example.org\""));
        assert!(to_html("[x](JaVaScript:alert(1))").contains("<a>x</a>"));
    }

    #[test]
    fn a_remote_image_is_a_link_and_a_local_one_a_file() {
        assert!(!to_html("![p](https://example.org/p.png)").contains("<img"));
        assert_eq!(
            to_html("![a \"plot\"](plots/1.png)"),
            "<p><img data-path=\"plots/1.png\" alt=\"a &quot;plot&quot;\"></p>\n"
        );
    }

    #[test]
    fn code_is_highlighted_and_headings_start_below_those_of_the_page() {
        assert_eq!(
            to_html("# T\n```py \"><script>\nif 1\n```"),
            "<h3>T</h3><pre class=\"code\" tabindex=\"0\" data-language=\"py\"><code><span class=\"hl-keyword\">if</span> \
             <span class=\"hl-number\">1</span>\n</code></pre>"
        );
    }

    #[test]
    fn a_table_can_be_scrolled() {
        assert_eq!(
            to_html("|a|b|\n|-|-|\n|1|<i>|"),
            "<div class=\"table-scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">a</th><th scope=\"col\">b</th></tr></thead><tbody><tr><td>1</td>\
             <td>&lt;i&gt;</td></tr></tbody></table></div>"
        );
    }

    proptest! {
        /// Every tag in the HTML is one that this module or the Markdown writer makes, and no attribute can hold a script.
        #[test]
        fn no_source_makes_a_tag_of_its_own(source in "[a-c<>/\"'=!\\[\\]():`#|*_~& \n-]{0,80}|.{0,40}") {
            let html = to_html(&source);
            for (at, _) in html.match_indices('<') {
                let name: String = html[at + 1..].trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
                let known = ["p", "a", "img", "pre", "code", "span", "div", "table", "thead", "tbody", "tr", "td", "th", "ul", "ol",
                    "li", "em", "strong", "del", "blockquote", "hr", "br", "h3", "h4", "h5", "h6", "input", "sup", "dl", "dt", "dd"];
                prop_assert!(known.contains(&name.as_str()), "{name} in {html}");
            }
            prop_assert!(!html.to_ascii_lowercase().contains("href=\"javascript"));
        }
    }
}
