//! How the parts of a text share the characters that the text may have.

use std::borrow::Cow;

use super::words::Words;

/// A heading and what stands under it.
pub(super) struct TextPart<'a> {
    heading: Cow<'static, str>,
    whole: Cow<'a, str>,
    /// The shortened text; `None` when the whole text is kept.
    cut: Option<String>,
    kind: PartKind,
}

/// The kind of a part, which decides how it is cut.
pub(super) enum PartKind {
    /// A single line that stays.
    Line,
    /// `skipped` bytes of the stream stand before the text.
    Output {
        words: &'static Words,
        cell: u64,
        skipped: usize,
    },
    List {
        words: &'static Words,
    },
    Code {
        words: &'static Words,
    },
    Value {
        words: &'static Words,
    },
    /// From byte `summary` on stands `Type: message`.
    Traceback {
        words: &'static Words,
        summary: usize,
    },
}

impl<'a> TextPart<'a> {
    pub(super) fn line(line: String) -> Self {
        Self {
            heading: line.into(),
            whole: "".into(),
            cut: None,
            kind: PartKind::Line,
        }
    }

    pub(super) fn block(
        heading: &'static str,
        body: impl Into<Cow<'a, str>>,
        kind: PartKind,
    ) -> Self {
        Self {
            heading: heading.into(),
            whole: body.into(),
            cut: None,
            kind,
        }
    }

    fn body(&self) -> &str {
        self.cut.as_deref().unwrap_or(&self.whole)
    }

    /// Brings the body down to at most `target` characters.
    fn shrink(&mut self, target: usize) {
        let whole = &*self.whole;
        self.cut = Some(match self.kind {
            PartKind::Line => return,
            PartKind::Output {
                words,
                cell,
                skipped,
            } => cut_middle(whole, target, |left_out, at| {
                words.output_cut(left_out, cell, skipped + at)
            }),
            PartKind::List { words } | PartKind::Code { words } | PartKind::Value { words } => {
                cut_middle(whole, target, |left_out, _| words.cut(left_out))
            }
            PartKind::Traceback { words, summary } => cut_traceback(whole, summary, target, words),
        });
    }

    /// The order in which parts give way, and the share of the budget (in percent) that each keeps while others can still give.
    fn patience(&self) -> Option<(u8, usize)> {
        match self.kind {
            PartKind::Line => None,
            PartKind::Output { .. } => Some((0, 40)),
            PartKind::List { .. } => Some((1, 10)),
            PartKind::Code { .. } => Some((2, 20)),
            PartKind::Value { .. } => Some((3, 30)),
            PartKind::Traceback { .. } => Some((4, 30)),
        }
    }
}

/// Joins the parts with one newline each, and cuts until they fit.
pub(super) fn fit(mut parts: Vec<TextPart<'_>>, budget: usize) -> String {
    for fairness in [Fairness::KeepShares, Fairness::GiveAll] {
        for order in 0..=4 {
            for at in 0..parts.len() {
                let Some((mine, share)) = parts[at].patience() else {
                    continue;
                };
                let excess = length(&parts).saturating_sub(budget);
                if mine != order || excess == 0 {
                    continue;
                }
                let floor = match fairness {
                    Fairness::KeepShares => budget / 100 * share,
                    Fairness::GiveAll => 0,
                };
                let now = characters(parts[at].body());
                if now > floor {
                    parts[at].shrink(now.saturating_sub(excess).max(floor));
                }
            }
        }
    }
    if length(&parts) <= budget {
        join(&parts)
    } else {
        last_resort(&parts, budget)
    }
}

enum Fairness {
    KeepShares,
    GiveAll,
}

/// So little room that only single lines fit: the status and the exception, else the exception, else what there is of it.
fn last_resort(parts: &[TextPart<'_>], budget: usize) -> String {
    let status = parts.first().map_or("", |part| &*part.heading);
    let summary = parts.iter().find_map(|part| match part.kind {
        PartKind::Traceback { summary, .. } => Some(summary_line(&part.whole, summary)),
        _ => None,
    });
    let candidates = match summary {
        Some(summary) => [format!("{status}\n{summary}"), summary.to_owned()],
        None => [status.to_owned(), status.to_owned()],
    };
    let [best, least] = candidates;
    if characters(&best) <= budget {
        best
    } else {
        least.chars().take(budget).collect()
    }
}

fn join(parts: &[TextPart<'_>]) -> String {
    let mut text = String::new();
    for line in lines(parts) {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(line);
    }
    text
}

fn length(parts: &[TextPart<'_>]) -> usize {
    let total: usize = lines(parts).map(|line| characters(line) + 1).sum();
    total.saturating_sub(1)
}

/// Headings and bodies in order. A part that lost its whole body loses its heading too.
fn lines<'p>(parts: &'p [TextPart<'_>]) -> impl Iterator<Item = &'p str> {
    parts.iter().flat_map(|part| {
        let gone = part.cut.as_deref() == Some("");
        let heading = (!gone).then_some(&*part.heading);
        heading
            .into_iter()
            .chain(Some(part.body()).filter(|body| !body.is_empty()))
    })
}

/// The beginning and the end with `mark` between them, on a line of its own: at most `target` characters. `mark` is told how many
/// characters are gone and at which byte the gap begins. Nothing at all when not even the mark fits.
fn cut_middle(text: &str, target: usize, mark: impl Fn(usize, usize) -> String) -> String {
    let total = characters(text);
    if total <= target {
        return text.to_owned();
    }
    // The longest that the mark can become.
    let reserve = characters(&mark(total, text.len())) + 2;
    let Some(room) = target.checked_sub(reserve) else {
        return String::new();
    };
    let head = back_to_line_end(&text[..byte_of(text, room.div_ceil(2))]);
    let tail = on_to_line_start(&text[byte_of(text, total - room / 2)..]);
    let mark = mark(total - characters(head) - characters(tail), head.len());
    [head, &mark, tail]
        .into_iter()
        .filter(|piece| !piece.is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}

/// The summary stays, and of the rest the middle goes.
fn cut_traceback(text: &str, summary: usize, target: usize, words: &Words) -> String {
    let (before, after) = text.split_at(summary);
    let mark = |left_out, _| words.cut(left_out);
    // A message of many lines gives way before the frames do, but not its first line: that one is cut only where it would
    // not fit by itself.
    let line = summary_line(text, summary);
    let first = if characters(after) <= target / 2 {
        after.to_owned()
    } else if characters(line) <= target {
        line.to_owned()
    } else {
        cut_line(line, target / 2)
    };
    let room = target.saturating_sub(characters(&first) + 1);
    match cut_middle(before.trim_end_matches('\n'), room, mark) {
        frames if frames.is_empty() => cut_line(&first, target),
        frames => format!("{frames}\n{first}"),
    }
}

fn summary_line(traceback: &str, summary: usize) -> &str {
    traceback[summary..].lines().next().unwrap_or_default()
}

fn cut_line(line: &str, target: usize) -> String {
    if characters(line) <= target {
        return line.to_owned();
    }
    let mut kept: String = line.chars().take(target.saturating_sub(1)).collect();
    if target > 0 {
        kept.push('…');
    }
    kept
}

/// Whole lines, where that costs less than half of what there is.
fn back_to_line_end(head: &str) -> &str {
    match head.rfind('\n') {
        Some(at) if at >= head.len() / 2 => &head[..at],
        _ => head,
    }
}

fn on_to_line_start(tail: &str) -> &str {
    match tail.find('\n') {
        Some(at) if at <= tail.len() / 2 => &tail[at + 1..],
        _ => tail,
    }
}

fn characters(text: &str) -> usize {
    text.chars().count()
}

fn byte_of(text: &str, character: usize) -> usize {
    text.char_indices()
        .nth(character)
        .map_or(text.len(), |(at, _)| at)
}
