//! Blocks of Python in Markdown.

use super::tags::tagged;

/// A block of code in a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The code.
    pub code: String,
    /// Where the block begins, in bytes.
    pub start: usize,
    /// Whether its end was marked.
    pub closed: bool,
    /// Whether it stood on one line with its fence.
    pub squeezed: bool,
}

/// The Python blocks of a reply in order: fences that are marked as Python, and `<code>` at the beginning of a line.
pub fn code_blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = lines(text);
    // The rest of a `<code>` block is not searched for fences.
    let mut skip_until = 0;
    while let Some((start, line)) = lines.next() {
        if start < skip_until {
            continue;
        }
        if line
            .trim_start()
            .get(..5)
            .is_some_and(|tag| tag.eq_ignore_ascii_case("<code"))
            && let Some(tag) = tagged(&text[start..], &["code"]).first()
            && text[start..start + tag.start].trim().is_empty()
        {
            let body = tag.body;
            let body_end = body.as_ptr() as usize - text.as_ptr() as usize + body.len();
            found.push(Block {
                code: unfenced(body).unwrap_or_else(|| trimmed(body).to_owned()),
                start,
                closed: tag.closed,
                squeezed: false,
            });
            skip_until = body_end;
            continue;
        }
        let Some(fence) = Fence::open(line) else {
            continue;
        };
        if let Some(code) = fence.on_one_line() {
            found.push(Block {
                code: code.to_owned(),
                start,
                closed: true,
                squeezed: true,
            });
            continue;
        }
        let mut body = Vec::new();
        let mut closed = false;
        for (_, line) in lines.by_ref() {
            if fence.is_closed_by(line) {
                closed = true;
                break;
            }
            body.push(fence.unindented(line));
        }
        if fence.is_python() {
            found.push(Block {
                code: body.join("\n"),
                start,
                closed,
                squeezed: false,
            });
        }
    }
    found.retain(|block| !block.code.trim().is_empty());
    found
}

/// What is inside a fence, where a text is nothing but one fence.
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

/// Without the empty lines around it; the first line keeps its indentation.
pub(super) fn trimmed(text: &str) -> &str {
    let text = text.trim_end();
    match text.find(|c: char| !c.is_whitespace()) {
        Some(first) => match text[..first].rfind('\n') {
            Some(newline) => &text[newline + 1..],
            // On the line of the tag itself, spaces are no indentation.
            None => &text[first..],
        },
        None => "",
    }
}

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

    /// The code of ```` ```python print(1)``` ````.
    fn on_one_line(&self) -> Option<&'a str> {
        let body = self.info.strip_suffix("```")?.trim_end_matches('`');
        let (word, code) = body.split_once(' ')?;
        is_python_word(word).then_some(code.trim())
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let line = line.trim();
        line.len() >= self.length && line.chars().all(|c| c == self.mark)
    }

    /// A fence in a list is indented as a whole.
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

/// Lines with where they begin.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').map(move |line| {
        let start = at;
        at += line.len();
        (start, line.trim_end_matches(['\n', '\r']))
    })
}
