//! Code blocks of Markdown, known tags, and reasoning in `<think>` tags.

/// A block of code in a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeBlock {
    /// The code.
    pub code: String,
    /// The byte at which the block begins in the reply.
    pub start: usize,
    /// The byte after the block in the reply.
    pub end: usize,
    /// Whether the end of the block was marked.
    pub is_closed: bool,
    /// Whether the code stood on one line with its fence.
    pub is_single_line: bool,
}

/// Finds the Python blocks of a reply, in order: fences that are marked as Python, and `<code>` at the beginning of a line.
pub fn code_blocks(text: &str) -> Vec<CodeBlock> {
    let mut found = Vec::new();
    let mut lines = lines(text);
    // A `<code>` block is not searched for fences.
    let mut skip_until = 0;
    while let Some((start, line)) = lines.next() {
        if start < skip_until {
            continue;
        }
        if line
            .trim_start()
            .get(..5)
            .is_some_and(|tag| tag.eq_ignore_ascii_case("<code"))
            && let Some(tag) = find_tags(&text[start..], &["code"]).first()
            && text[start..start + tag.start].trim().is_empty()
        {
            let body = tag.body;
            let body_end = body.as_ptr() as usize - text.as_ptr() as usize + body.len();
            found.push(CodeBlock {
                code: unfenced(body).unwrap_or_else(|| trimmed(body).to_owned()),
                start,
                end: start + tag.end,
                is_closed: tag.is_closed,
                is_single_line: false,
            });
            skip_until = body_end;
            continue;
        }
        let Some(fence) = Fence::open(line) else {
            continue;
        };
        if let Some(code) = fence.on_one_line() {
            found.push(CodeBlock {
                code: code.to_owned(),
                start,
                end: start + line.len(),
                is_closed: true,
                is_single_line: true,
            });
            continue;
        }
        let block = fence.read_block(start, line, &mut lines);
        if fence.is_python() {
            found.push(CodeBlock {
                code: block.body,
                start,
                end: block.end,
                is_closed: block.is_closed,
                is_single_line: false,
            });
        }
    }
    found.retain(|block| !block.code.trim().is_empty());
    found
}

/// A fenced block of any language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fenced {
    /// The first word after the opening fence, in lower case. Empty where the fence is not marked.
    pub language: String,
    /// The lines between the fences.
    pub body: String,
    /// The byte at which the opening fence begins.
    pub start: usize,
    /// The byte after the closing fence.
    pub end: usize,
    /// Whether there is a closing fence.
    pub is_closed: bool,
}

/// Finds the fenced blocks of a text, in order, whatever their language.
pub fn fenced_blocks(text: &str) -> Vec<Fenced> {
    let mut found = Vec::new();
    let mut lines = lines(text);
    while let Some((start, line)) = lines.next() {
        if let Some(fence) = Fence::open(line)
            && fence.on_one_line().is_none()
        {
            found.push(fence.read_block(start, line, &mut lines));
        }
    }
    found
}

/// The content of a fence, if the text is nothing but one fence.
pub(super) fn unfenced(text: &str) -> Option<String> {
    let text = text.trim();
    let (first, rest) = text.split_once('\n')?;
    let fence = Fence::open(first)?;
    if fence.info.contains(' ') {
        return None;
    }
    let body = match rest.rsplit_once('\n') {
        Some((body, last)) if fence.is_closed_by(last) => body,
        None if fence.is_closed_by(rest) => "",
        _ => rest,
    };
    let inner_closes = body.lines().any(|line| fence.is_closed_by(line));
    (!inner_closes).then(|| body.to_owned())
}

/// A text without the empty lines around it. Its first line keeps its indentation.
fn trimmed(text: &str) -> &str {
    let text = text.trim_end();
    match text.find(|c: char| !c.is_whitespace()) {
        Some(first) => match text[..first].rfind('\n') {
            Some(newline) => &text[newline + 1..],
            // Spaces on the line of the tag itself are no indentation.
            None => &text[first..],
        },
        None => "",
    }
}

/// The opening line of a Markdown fence.
struct Fence<'a> {
    mark: char,
    length: usize,
    indent: usize,
    info: &'a str,
}

impl<'a> Fence<'a> {
    fn open(line: &'a str) -> Option<Fence<'a>> {
        let body = line.trim_start_matches(' ');
        let mark = body
            .chars()
            .next()
            .filter(|mark| matches!(mark, '`' | '~'))?;
        let length = body.chars().take_while(|c| *c == mark).count();
        (length >= 3).then(|| Fence {
            mark,
            length,
            indent: line.len() - body.len(),
            info: body[length..].trim(),
        })
    }

    fn is_python(&self) -> bool {
        let word = self.info.split([' ', ',', '{', ':']).next().unwrap_or("");
        is_python_word(word)
    }

    /// Reads the lines up to the closing fence, or to the end. `start` and `line` are the opening line.
    fn read_block<'b>(
        &self,
        start: usize,
        line: &str,
        lines: &mut impl Iterator<Item = (usize, &'b str)>,
    ) -> Fenced {
        let mut body = Vec::new();
        let mut end = start + line.len();
        let mut is_closed = false;
        for (at, line) in lines {
            end = at + line.len();
            if self.is_closed_by(line) {
                is_closed = true;
                break;
            }
            body.push(self.unindented(line));
        }
        let word = self.info.split([' ', ',', '{', ':']).next().unwrap_or("");
        Fenced {
            language: word.to_lowercase(),
            body: body.join("\n"),
            start,
            end,
            is_closed,
        }
    }

    /// The code of a fence on one line, such as ```` ```python print(1)``` ````.
    fn on_one_line(&self) -> Option<&'a str> {
        let body = self.info.strip_suffix("```")?.trim_end_matches('`');
        let (word, code) = body.split_once(' ')?;
        is_python_word(word).then_some(code.trim())
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let line = line.trim();
        line.len() >= self.length && line.chars().all(|c| c == self.mark)
    }

    /// A line without the indentation of its fence: a fence in a list is indented as a whole.
    fn unindented<'b>(&self, line: &'b str) -> &'b str {
        let spaces = line.len() - line.trim_start_matches(' ').len();
        &line[spaces.min(self.indent)..]
    }
}

fn is_python_word(word: &str) -> bool {
    ["python", "py", "python3", "ipython"]
        .iter()
        .any(|name| word.eq_ignore_ascii_case(name))
}

/// The lines of a text, with the byte at which each begins.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').map(move |line| {
        let start = at;
        at += line.len();
        (start, line.trim_end_matches(['\n', '\r']))
    })
}

/// The text between two tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaggedText<'a> {
    /// The name of the tag, as it was searched for.
    pub name: &'static str,
    /// The text between the tags, as it is.
    pub body: &'a str,
    /// The byte at which the opening tag begins.
    pub start: usize,
    /// The byte after the closing tag, or after the text where there is none.
    pub end: usize,
    /// Whether there is a closing tag.
    pub is_closed: bool,
}

/// Finds these tags in a text that is not XML, in order. The text inside a tag is not searched, because code may contain `a < b`.
pub fn find_tags<'a>(text: &'a str, names: &[&'static str]) -> Vec<TaggedText<'a>> {
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
        let close = closing_tag(rest, name);
        let body_length = close.map_or(rest.len(), |(start, _)| start);
        let end = body_start + close.map_or(rest.len(), |(_, end)| end);
        found.push(TaggedText {
            name,
            body: &rest[..body_length],
            start,
            end,
            is_closed: close.is_some(),
        });
        at = end;
    }
    found
}

/// The length of `<name>` at the beginning of this text. Small models add spaces and change the case.
fn opening_end(text: &str, name: &str) -> Option<usize> {
    let rest = text.strip_prefix('<')?;
    tag_end(rest, name).map(|end| end + 1)
}

/// The bytes at which `</name>` begins and ends.
fn closing_tag(text: &str, name: &str) -> Option<(usize, usize)> {
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

/// Splits a reply into the reasoning in `<think>…</think>` at its beginning, and the rest. Code in the reasoning must not run.
///
/// Some endpoints drop the opening tag, so that only the closing tag marks the end of the reasoning.
pub fn split_thinking(text: &str) -> SplitReply<'_> {
    let trimmed = text.trim_start();
    for (open, close) in [("<think>", "</think>"), ("<thinking>", "</thinking>")] {
        let body = trimmed.strip_prefix(open);
        match (body, body.unwrap_or(trimmed).split_once(close)) {
            (Some(_), Some((reasoning, rest))) => {
                return SplitReply::new(reasoning, rest);
            }
            (Some(reasoning), None) => return SplitReply::new(reasoning, ""),
            (None, Some((reasoning, rest)))
                if !reasoning.contains(open) && ends_before_tag_line(reasoning) =>
            {
                return SplitReply::new(reasoning, rest);
            }
            _ => {}
        }
    }
    SplitReply {
        thinking: None,
        text,
    }
}

/// A reply of a model without its reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitReply<'a> {
    /// The reasoning, where there is one.
    pub thinking: Option<&'a str>,
    /// The rest of the reply.
    pub text: &'a str,
}

impl<'a> SplitReply<'a> {
    fn new(reasoning: &'a str, rest: &'a str) -> SplitReply<'a> {
        SplitReply {
            thinking: Some(reasoning.trim()),
            text: rest.trim_start(),
        }
    }
}

/// Whether a tag after this text begins a line outside of code. Inside a JSON text it never does, because line breaks are escaped there.
fn ends_before_tag_line(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    before.contains('\n')
        && line.trim().is_empty()
        && before.matches("```").count().is_multiple_of(2)
}
