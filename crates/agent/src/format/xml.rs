//! The format `xml`: code between tags.

use super::{
    Action, ActionFormat, Format, FormatContext, MalformedReply, PartialReply, PartialTurn, Turn,
    code_instructions,
};
use crate::prompt::PromptPart;
use crate::repair::{Repair, ReplyEnd, code_blocks, find_tags, split_thinking};
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

    fn prepare_request(&self, _: &mut Request, _: &FormatContext) {}

    fn parse(&self, reply: &Reply, _: &FormatContext) -> Result<Turn, MalformedReply> {
        let end = ReplyEnd::of(reply);
        let (thinking, text) = split_thinking(&reply.text);
        let mut repairs: Vec<Repair> = thinking.map(|_| Repair::Thinking).into_iter().collect();
        let tags = find_tags(text, &[DEPENDENCIES_TAG, CODE_TAG]);
        if end == ReplyEnd::CutOff && tags.last().is_none_or(|tag| !tag.is_closed) {
            return Err(MalformedReply::cut_off());
        }
        let Some(first) = tags.first() else {
            return match text.trim() {
                "" => Err(MalformedReply::empty()),
                answer => Ok(Turn::answer_only(answer, repairs)),
            };
        };
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
            thought: text[..first.start].trim().to_owned(),
            actions,
            repairs,
        })
    }

    fn preview(&self, partial: &PartialReply) -> PartialTurn {
        let (_, text) = split_thinking(&partial.text);
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
