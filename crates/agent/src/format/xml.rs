//! The format `xml`: code between tags.

use super::dialect::{invented_output, read_dialect_or_answer};
use super::{
    Action, ActionFormat, Format, FormatContext, MalformedReply, PartialReply, PartialTurn, Turn,
    code_instructions, invented_result_stops,
};
use crate::prompt::PromptPart;
use crate::repair::{Repair, ReplyEnd, SplitReply, code_blocks, find_tags, split_thinking};
use cellblock_model::{Reply, Request};

/// The format `xml`: packages in `<pip-dependencies-to-install>`, code in `<execution-code>`.
#[derive(Clone, Copy, Debug)]
pub struct XmlFormat;

const CODE_TAG: &str = "execution-code";
const DEPENDENCIES_TAG: &str = "pip-dependencies-to-install";
/// The packages that are read of one tag.
const MAX_PACKAGES: usize = 100;

impl ActionFormat for XmlFormat {
    fn format(&self) -> Format {
        Format::Xml
    }

    fn instructions(&self, context: &FormatContext) -> String {
        code_instructions(PromptPart::Format(Format::Xml), context)
    }

    fn prepare_request(&self, request: &mut Request, context: &FormatContext) {
        request.stop = invented_result_stops(context.locale);
    }

    fn parse(&self, reply: &Reply, context: &FormatContext) -> Result<Turn, MalformedReply> {
        let end = ReplyEnd::of(reply);
        let SplitReply { thinking, text } = split_thinking(&reply.text);
        let mut repairs: Vec<Repair> = thinking.map(|_| Repair::Thinking).into_iter().collect();
        let mut tags = find_tags(text, &[DEPENDENCIES_TAG, CODE_TAG]);
        let Some(first) = tags.first().map(|tag| tag.start) else {
            return read_dialect_or_answer(text, end, Format::Xml, context, repairs);
        };
        // Code after an output that the model invented was written for that output.
        let gaps = tags
            .windows(2)
            .map(|pair| &text[pair[0].end..pair[1].start]);
        let invented = gaps.map(invented_output).position(|at| at.is_some());
        if let Some(index) = invented {
            tags.truncate(index + 1);
        } else if end == ReplyEnd::CutOff && tags.last().is_none_or(|tag| !tag.is_closed) {
            return Err(MalformedReply::cut_off());
        }
        let said = text[..tags.last().map_or(text.len(), |tag| tag.end)].trim_end();
        let has_more = said.len() < text.trim_end().len();
        if invented_output(&text[said.len()..]).is_some() {
            repairs.push(Repair::InventedOutput);
        }
        let mut actions = Vec::new();
        for tag in &tags {
            if !tag.is_closed {
                repairs.push(Repair::Unclosed);
            }
            if tag.name == DEPENDENCIES_TAG {
                let names = package_names(tag.body);
                actions.extend((!names.is_empty()).then_some(Action::Dependencies(names)));
            } else {
                let (code, repair) = code_in(tag.body);
                repairs.extend(repair);
                actions.extend((!code.trim().is_empty()).then_some(Action::Code(code)));
            }
        }
        if actions.is_empty() {
            return Err(MalformedReply(format!(
                "there is nothing between the tags <{CODE_TAG}> and </{CODE_TAG}>"
            )));
        }
        Ok(Turn {
            thought: text[..first].trim().to_owned(),
            said: has_more.then(|| said.to_owned()),
            actions,
            repairs,
            ..Turn::default()
        })
    }

    fn preview(&self, partial: &PartialReply) -> PartialTurn {
        let text = split_thinking(&partial.text).text;
        let tags = find_tags(text, &[DEPENDENCIES_TAG, CODE_TAG]);
        let code: Vec<&str> = tags
            .iter()
            .filter(|tag| tag.name == CODE_TAG)
            .map(|tag| tag.body.trim())
            .collect();
        PartialTurn {
            thought: text[..tags.first().map_or(text.len(), |tag| tag.start)]
                .trim()
                .to_owned(),
            code: code.join("\n"),
        }
    }
}

/// The code of a tag: as it is, or the content of the fence or CDATA section that fills it.
fn code_in(body: &str) -> (String, Option<Repair>) {
    let whole = body.trim();
    if let Some(inner) = whole.strip_prefix("<![CDATA[") {
        return (
            inner
                .strip_suffix("]]>")
                .unwrap_or(inner)
                .trim_matches('\n')
                .to_owned(),
            Some(Repair::CodeFence),
        );
    }
    if whole.starts_with("```")
        && let [only] = code_blocks(whole).as_slice()
    {
        return (only.code.clone(), Some(Repair::CodeFence));
    }
    (body.trim_matches(['\n', '\r']).trim_end().to_owned(), None)
}

/// The packages of a tag: names with versions, separated by commas, spaces or lines. A hundred at most.
fn package_names(body: &str) -> Vec<String> {
    let names = body.split([',', '\n', ' ', '\t', '\r']).map(str::trim);
    names
        .filter(|name| !name.is_empty())
        .take(MAX_PACKAGES)
        .map(str::to_owned)
        .collect()
}
