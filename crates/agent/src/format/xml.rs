//! Code between tags.

use super::{
    Action, ActionFormat, Facts, Format, Glimpse, Growing, Malformed, Turn, code_instructions,
};
use crate::prompt::Part;
use crate::repair::{Repair, code_blocks, split_thinking, tagged};
use cellblock_model::{FinishReason, Reply, Request};

/// `<pip-dependencies-to-install>` and `<execution-code>`.
#[derive(Clone, Copy, Debug)]
pub struct XmlFormat;

const CODE: &str = "execution-code";
const DEPENDENCIES: &str = "pip-dependencies-to-install";

impl ActionFormat for XmlFormat {
    fn format(&self) -> Format {
        Format::Xml
    }

    fn instructions(&self, facts: &Facts) -> String {
        code_instructions(Part::Format(Format::Xml), facts)
    }

    fn shape(&self, _: &mut Request, _: &Facts) {}

    fn read(&self, reply: &Reply, _: &Facts) -> Result<Turn, Malformed> {
        let cut_off = reply.finish == FinishReason::Length;
        let (inner, text) = split_thinking(&reply.text);
        let mut repairs: Vec<Repair> = inner.map(|_| Repair::Thinking).into_iter().collect();
        let tags = tagged(text, &[DEPENDENCIES, CODE]);
        if cut_off && tags.last().is_none_or(|tag| !tag.closed) {
            return Err(Malformed::cut_off());
        }
        let Some(first) = tags.first() else {
            return match text.trim() {
                "" => Err(Malformed::empty()),
                answer => Ok(Turn::answered(answer, repairs)),
            };
        };
        let mut actions = Vec::new();
        for tag in &tags {
            if !tag.closed {
                repairs.push(Repair::Unclosed);
            }
            if tag.name == DEPENDENCIES {
                let names = package_names(tag.body);
                actions.extend((!names.is_empty()).then_some(Action::Dependencies(names)));
            } else {
                let (code, repair) = code_in(tag.body);
                repairs.extend(repair);
                actions.extend((!code.trim().is_empty()).then_some(Action::Code(code)));
            }
        }
        if actions.is_empty() {
            return Err(Malformed(format!(
                "there is nothing between the tags <{CODE}> and </{CODE}>"
            )));
        }
        Ok(Turn {
            thought: text[..first.start].trim().to_owned(),
            actions,
            repairs,
        })
    }

    fn glimpse(&self, growing: &Growing) -> Glimpse {
        let (_, text) = split_thinking(&growing.text);
        let tags = tagged(text, &[DEPENDENCIES, CODE]);
        let code: Vec<&str> = tags
            .iter()
            .filter(|tag| tag.name == CODE)
            .map(|tag| tag.body.trim())
            .collect();
        Glimpse {
            thought: text[..tags.first().map_or(text.len(), |tag| tag.start)]
                .trim()
                .to_owned(),
            code: code.join("\n"),
        }
    }
}

/// The code of a tag: as it is, or what is in the fence or the CDATA section that fills it.
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

/// Names with versions, separated by commas, spaces or lines.
fn package_names(body: &str) -> Vec<String> {
    let names = body.split([',', '\n', ' ', '\t', '\r']).map(str::trim);
    names
        .filter(|name| !name.is_empty())
        .take(100)
        .map(str::to_owned)
        .collect()
}
