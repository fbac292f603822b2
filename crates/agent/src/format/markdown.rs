//! Code in fenced blocks.

use super::{
    Action, ActionFormat, Facts, Format, Glimpse, Growing, Malformed, Turn, code_instructions,
};
use crate::prompt::Part;
use crate::repair::{Repair, code_blocks, split_thinking};
use cellblock_model::{FinishReason, Reply, Request};

/// Fenced blocks marked as Python, or `<code>`.
#[derive(Clone, Copy, Debug)]
pub struct MarkdownFormat;

impl ActionFormat for MarkdownFormat {
    fn format(&self) -> Format {
        Format::Markdown
    }

    fn instructions(&self, facts: &Facts) -> String {
        code_instructions(Part::Format(Format::Markdown), facts)
    }

    fn shape(&self, _: &mut Request, _: &Facts) {}

    fn read(&self, reply: &Reply, _: &Facts) -> Result<Turn, Malformed> {
        let cut_off = reply.finish == FinishReason::Length;
        let (inner, text) = split_thinking(&reply.text);
        let mut repairs: Vec<Repair> = inner.map(|_| Repair::Thinking).into_iter().collect();
        let blocks = code_blocks(text);
        if cut_off && blocks.last().is_none_or(|block| !block.closed) {
            return Err(Malformed::cut_off());
        }
        let Some(first) = blocks.first() else {
            return match text.trim() {
                "" => Err(Malformed::empty()),
                answer => Ok(Turn::answered(answer, repairs)),
            };
        };
        if blocks.iter().any(|block| !block.closed) {
            repairs.push(Repair::Unclosed);
        }
        if blocks.iter().any(|block| block.squeezed) {
            repairs.push(Repair::CodeFence);
        }
        Ok(Turn {
            thought: text[..first.start].trim().to_owned(),
            actions: blocks
                .into_iter()
                .map(|block| Action::Code(block.code))
                .collect(),
            repairs,
        })
    }

    fn glimpse(&self, growing: &Growing) -> Glimpse {
        let (_, text) = split_thinking(&growing.text);
        let blocks = code_blocks(text);
        let end = blocks.first().map_or(text.len(), |block| block.start);
        let code: Vec<&str> = blocks.iter().map(|block| block.code.as_str()).collect();
        Glimpse {
            thought: text[..end].trim().to_owned(),
            code: code.join("\n"),
        }
    }
}
