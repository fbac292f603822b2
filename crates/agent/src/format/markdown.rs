//! The format `markdown`: code in fenced blocks.

use super::dialect::{invented_output, read_dialect_or_answer};
use super::{
    Action, ActionFormat, Format, FormatContext, MalformedReply, PartialReply, PartialTurn, Turn,
    code_instructions, invented_result_stops,
};
use crate::prompt::PromptPart;
use crate::repair::{Repair, ReplyEnd, SplitReply, code_blocks, split_thinking};
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

    fn prepare_request(&self, request: &mut Request, context: &FormatContext) {
        request.stop = invented_result_stops(context.locale);
    }

    fn parse(&self, reply: &Reply, context: &FormatContext) -> Result<Turn, MalformedReply> {
        let end = ReplyEnd::of(reply);
        let SplitReply { thinking, text } = split_thinking(&reply.text);
        let mut repairs: Vec<Repair> = thinking.map(|_| Repair::Thinking).into_iter().collect();
        let mut blocks = code_blocks(text);
        let Some(first) = blocks.first().map(|block| block.start) else {
            return read_dialect_or_answer(text, end, Format::Markdown, context, repairs);
        };
        // A block after an output that the model invented was written for that output.
        let gaps = blocks
            .windows(2)
            .map(|pair| &text[pair[0].end..pair[1].start]);
        let invented = gaps.map(invented_output).position(|at| at.is_some());
        if let Some(index) = invented {
            blocks.truncate(index + 1);
        } else if end == ReplyEnd::CutOff && blocks.last().is_none_or(|block| !block.is_closed) {
            return Err(MalformedReply::cut_off());
        }
        let said = text[..blocks.last().map_or(text.len(), |block| block.end)].trim_end();
        let has_more = said.len() < text.trim_end().len();
        if invented_output(&text[said.len()..]).is_some() {
            repairs.push(Repair::InventedOutput);
        }
        if blocks.iter().any(|block| !block.is_closed) {
            repairs.push(Repair::Unclosed);
        }
        if blocks.iter().any(|block| block.is_single_line) {
            repairs.push(Repair::CodeFence);
        }
        Ok(Turn {
            thought: text[..first].trim().to_owned(),
            said: has_more.then(|| said.to_owned()),
            actions: blocks
                .into_iter()
                .map(|block| Action::Code(block.code))
                .collect(),
            repairs,
            ..Turn::default()
        })
    }

    fn preview(&self, partial: &PartialReply) -> PartialTurn {
        let text = split_thinking(&partial.text).text;
        let blocks = code_blocks(text);
        let end = blocks.first().map_or(text.len(), |block| block.start);
        let code: Vec<&str> = blocks.iter().map(|block| block.code.as_str()).collect();
        PartialTurn {
            thought: text[..end].trim().to_owned(),
            code: code.join("\n"),
        }
    }
}
