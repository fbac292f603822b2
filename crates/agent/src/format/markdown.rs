//! The format `markdown`: code in fenced blocks.

use super::{
    Action, ActionFormat, Format, FormatContext, MalformedReply, PartialReply, PartialTurn, Turn,
    code_instructions,
};
use crate::prompt::PromptPart;
use crate::repair::{Repair, ReplyEnd, code_blocks, split_thinking};
use cellblock_model::{Reply, Request};

/// The format `markdown`: fenced blocks marked as Python, or `<code>`.
#[derive(Clone, Copy, Debug)]
pub struct MarkdownFormat;

impl ActionFormat for MarkdownFormat {
    fn format(&self) -> Format {
        Format::Markdown
    }

    fn instructions(&self, context: &FormatContext) -> String {
        code_instructions(PromptPart::Format(Format::Markdown), context)
    }

    fn prepare_request(&self, _: &mut Request, _: &FormatContext) {}

    fn parse(&self, reply: &Reply, _: &FormatContext) -> Result<Turn, MalformedReply> {
        let end = ReplyEnd::of(reply);
        let (thinking, text) = split_thinking(&reply.text);
        let mut repairs: Vec<Repair> = thinking.map(|_| Repair::Thinking).into_iter().collect();
        let blocks = code_blocks(text);
        if end == ReplyEnd::CutOff && blocks.last().is_none_or(|block| !block.is_closed) {
            return Err(MalformedReply::cut_off());
        }
        let Some(first) = blocks.first() else {
            return match text.trim() {
                "" => Err(MalformedReply::empty()),
                answer => Ok(Turn::answer_only(answer, repairs)),
            };
        };
        if blocks.iter().any(|block| !block.is_closed) {
            repairs.push(Repair::Unclosed);
        }
        if blocks.iter().any(|block| block.is_single_line) {
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

    fn preview(&self, partial: &PartialReply) -> PartialTurn {
        let (_, text) = split_thinking(&partial.text);
        let blocks = code_blocks(text);
        let end = blocks.first().map_or(text.len(), |block| block.start);
        let code: Vec<&str> = blocks.iter().map(|block| block.code.as_str()).collect();
        PartialTurn {
            thought: text[..end].trim().to_owned(),
            code: code.join("\n"),
        }
    }
}
