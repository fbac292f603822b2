//! Dialects: the forms in which families of models write actions when they do not keep to the form that was asked for.
//!
//! [`DIALECTS`] is the table of them. An action in a dialect is executed where its meaning is certain. Otherwise the model is told how to
//! act. It is never taken for the final answer.

mod announcement;
mod fences;
mod markers;
mod react;
mod tagged;
mod tokens;

use super::{Action, CallKind, Format, FormatContext, MalformedReply, ToolUse, Turn};
use crate::repair::{Repair, ReplyEnd};
use cellblock_tools::names::{CODE_ARGUMENT, EXECUTE_PYTHON_CODE};
use cellblock_tools::{Arguments, PURPOSE_FIELD, Registry};
use serde_json::{Map, Value, json};

pub(super) use fences::invented_output;

/// A form in which a family of models writes actions.
pub(super) struct Dialect {
    /// The name, for the text that a model reads about its reply.
    pub(super) name: &'static str,
    /// Reads the actions of a text in this dialect. `None` where the text has none.
    read: fn(&str, &FormatContext) -> Option<DialectReply>,
}

/// All dialects, in the order in which they are tried. Each has fixtures in `tests/fixtures/dialect-*.reply`.
pub(super) const DIALECTS: &[Dialect] = &[
    Dialect {
        name: "harmony",
        read: tokens::harmony,
    },
    Dialect {
        name: "deepseek",
        read: tokens::deepseek,
    },
    Dialect {
        name: "kimi",
        read: tokens::kimi,
    },
    Dialect {
        name: "mistral",
        read: tokens::mistral,
    },
    Dialect {
        name: "llama",
        read: tokens::llama,
    },
    Dialect {
        name: "FunctionGemma",
        read: markers::function_gemma,
    },
    Dialect {
        name: "marked JSON calls",
        read: markers::marked_calls,
    },
    Dialect {
        name: "function tags",
        read: tagged::function_tags,
    },
    Dialect {
        name: "tool_call tags",
        read: tagged::tool_call_tags,
    },
    Dialect {
        name: "execution-code tags",
        read: tagged::execution_code,
    },
    Dialect {
        name: "code fence",
        read: fences::fenced_code,
    },
    Dialect {
        name: "ReAct",
        read: react::react,
    },
    Dialect {
        name: "JSON call",
        read: tagged::bare_call,
    },
    Dialect {
        name: "list of calls",
        read: tagged::list_of_calls,
    },
    Dialect {
        name: "bare code",
        read: fences::bare_code,
    },
];

/// What a text says in a dialect.
#[derive(Debug, Default, PartialEq)]
pub(super) struct DialectReply {
    /// The actions, in order. Empty where the text is in the dialect and cannot be read.
    actions: Vec<DialectAction>,
    /// The answer, where the dialect marks one.
    answer: Option<String>,
    /// The byte at which the first action begins. The text before it is the thought.
    start: usize,
    /// Whether the end of the last action is missing.
    is_open: bool,
}

/// An action in a dialect.
#[derive(Debug, PartialEq)]
enum DialectAction {
    /// Python code.
    Code(String),
    /// A call, with its arguments as the model wrote them.
    Call { name: String, arguments: Value },
}

/// Names by which models call a Python interpreter.
const INTERPRETER_NAMES: &[&str] = &[
    "python",
    "code",
    "code_interpreter",
    "python_interpreter",
    "ipython",
    "python_repl",
    "pythonrepl",
    "execute_code",
    "execute_python",
    "run_code",
    "run_python",
    "run_python_code",
    "exec_python",
    "jupyter",
];

/// Names of the argument that has the code, beside ours.
const CODE_ARGUMENT_NAMES: &[&str] = &[
    CODE_ARGUMENT,
    "code",
    "source",
    "script",
    "python",
    "input",
    "query",
    "snippet",
    "__arg1",
];

/// Prefixes that some models put before the name of a tool.
const NAME_PREFIXES: &[&str] = &["functions.", "function.", "tools.", "default_api."];

/// The characters of a thought that become the purpose of a call without one.
const MAX_PURPOSE_CHARS: usize = 300;

/// Tokens that only an action has. A text with one of them that no dialect could read is not an answer.
const ACTION_TOKENS: &[&str] = &[
    "<|python_tag|>",
    "<|channel|>",
    "<|tool_call",
    "<|action_start|>",
    "<\u{ff5c}tool",
    "[TOOL_CALLS]",
    "<tool_call>",
    "<function=",
    "<function_calls>",
    "<invoke name=",
    "<execution-code>",
    "<|START_ACTION|>",
    "<|tools_prefix|>",
    "<|message|>",
    "<start_function_call>",
    "<TOOLCALL>",
    "<functioncall>",
    "<function_call>",
    "<tool_calls>",
    "<tool_use>",
    "<tool_code>",
    "\u{ff5c}DSML\u{ff5c}",
];

/// Tokens that end a message. Some endpoints leave them in the text.
const END_TOKENS: &[&str] = &[
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|endoftext|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<\u{ff5c}end\u{2581}of\u{2581}sentence\u{ff5c}>",
    "</s>",
];

/// Reads a text that has no action in the form of its format: an action in a dialect, or the answer.
///
/// The error tells the model how to act, where the text is an action that cannot be executed.
pub(super) fn read_dialect_or_answer(
    text: &str,
    end: ReplyEnd,
    format: Format,
    context: &FormatContext,
    repairs: Vec<Repair>,
) -> Result<Turn, MalformedReply> {
    if let Some(turn) = read_dialect(text, end, format, context, &repairs)? {
        return Ok(turn);
    }
    if end == ReplyEnd::CutOff {
        return Err(MalformedReply::cut_off());
    }
    let answer = without_end_tokens(text).trim();
    if answer.is_empty() {
        return Err(MalformedReply::empty());
    }
    if announcement::announces_an_action(answer) {
        return Err(explained(
            "the reply says what you will do, and does nothing",
            format,
        ));
    }
    Ok(Turn::answer_only(answer, repairs))
}

/// Reads the actions of a text that is in a dialect. `Ok(None)` where it is in none.
pub(super) fn read_dialect(
    text: &str,
    end: ReplyEnd,
    format: Format,
    context: &FormatContext,
    repairs: &[Repair],
) -> Result<Option<Turn>, MalformedReply> {
    let text = without_end_tokens(text);
    let mut replies = DIALECTS
        .iter()
        .filter_map(|dialect| Some((dialect.name, (dialect.read)(text, context)?)));
    let Some((name, reply)) = replies.next() else {
        return match ACTION_TOKENS.iter().find(|token| text.contains(**token)) {
            Some(token) if end == ReplyEnd::Complete => Err(explained(
                &format!("the reply has {token}, which is not understood here"),
                format,
            )),
            _ => Ok(None),
        };
    };
    if end == ReplyEnd::CutOff && (reply.is_open || reply.actions.is_empty()) {
        return Err(MalformedReply::cut_off());
    }
    let mut repairs = repairs.to_vec();
    repairs.push(Repair::Dialect);
    if let Some(answer) = reply.answer.filter(|_| reply.actions.is_empty()) {
        return Ok(Some(Turn::answer_only(answer.trim(), repairs)));
    }
    if reply.actions.is_empty() {
        return Err(explained(
            &format!(
                "the reply has an action in another form ({name}) that is empty or cannot be read"
            ),
            format,
        ));
    }
    if reply.is_open {
        repairs.push(Repair::Unclosed);
    }
    let thought = text[..reply.start].trim().to_owned();
    let actions = reply.actions.into_iter();
    let actions: Result<Vec<Action>, String> = actions
        .map(|action| action.resolve(format, context))
        .collect();
    let mut actions = actions.map_err(|problem| explained(&problem, format))?;
    for action in &mut actions {
        if let Action::Call(call) = action {
            add_purpose(call, &thought);
        }
    }
    let said = in_own_form(&thought, &actions, format);
    Ok(Some(Turn {
        said: Some(said),
        thought,
        actions,
        repairs,
        ..Turn::default()
    }))
}

/// The error for a reply whose action is in another form, with how to act in this format.
pub(super) fn explained(problem: &str, format: Format) -> MalformedReply {
    let how = match format {
        Format::Tools => "call a tool by a native tool call",
        Format::Json => {
            "reply with one JSON object with the fields thought, action, code and final_answer"
        }
        Format::Xml => "write the code between <execution-code> and </execution-code>",
        Format::Markdown => "write the code in a block that begins with ```python",
        Format::NextStep => "reply with exactly one JSON object that fits the schema",
    };
    let answer = match format {
        Format::Json => ", with the action provide_answer to answer",
        Format::NextStep => ", with report_task_completion to answer",
        _ => ". To answer, reply in plain words",
    };
    MalformedReply(format!("{problem}. To act, {how}{answer}"))
}

impl DialectAction {
    /// The action for a format. The error says why it cannot be executed.
    fn resolve(self, format: Format, context: &FormatContext) -> Result<Action, String> {
        let registry = &context.registry;
        let (name, arguments) = match self {
            DialectAction::Code(code) => return code_action(code, format, registry),
            DialectAction::Call { name, arguments } => (name, arguments),
        };
        let name = tool_name(&name, registry);
        let is_complete = format.calls_tools() && arguments.get(CODE_ARGUMENT).is_some();
        if name == EXECUTE_PYTHON_CODE && !is_complete {
            let code = code_in_arguments(&arguments)
                .ok_or_else(|| "the call of the Python interpreter has no code".to_owned())?;
            return code_action(code, format, registry);
        }
        if registry.get(&name).is_none() {
            let shown: String = name.chars().take(80).collect();
            return Err(format!(
                "there is no tool {shown:?}; the tools are {}",
                registry.names().join(", ")
            ));
        }
        let raw = match &arguments {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Ok(Action::Call(ToolUse {
            id: String::new(),
            arguments: match arguments {
                Value::Object(map) => Arguments::Object(map),
                _ => Arguments::Text(raw.clone()),
            },
            name,
            raw,
            kind: CallKind::Tool,
        }))
    }
}

/// Adds the purpose to a call without one, where the arguments are an object: the thought says why the tool is called.
pub(super) fn add_purpose(call: &mut ToolUse, thought: &str) {
    let Arguments::Object(arguments) = &mut call.arguments else {
        return;
    };
    if arguments.get(PURPOSE_FIELD).is_none_or(Value::is_null) {
        let words = match thought.trim() {
            "" => "not given",
            thought => thought,
        };
        let words: String = words.chars().take(MAX_PURPOSE_CHARS).collect();
        arguments.insert(PURPOSE_FIELD.to_owned(), words.into());
    }
}

/// Code as an action of a format: a cell, or a call of the tool that runs code.
fn code_action(code: String, format: Format, registry: &Registry) -> Result<Action, String> {
    if registry.get(EXECUTE_PYTHON_CODE).is_none() {
        return Err("code cannot be run here".to_owned());
    }
    if !format.calls_tools() {
        return Ok(Action::Code(code));
    }
    let mut arguments = Map::new();
    arguments.insert(CODE_ARGUMENT.to_owned(), json!(code));
    Ok(Action::Call(ToolUse {
        id: String::new(),
        name: EXECUTE_PYTHON_CODE.to_owned(),
        raw: Value::Object(arguments.clone()).to_string(),
        arguments: arguments.into(),
        kind: CallKind::Tool,
    }))
}

/// The name of a tool as it is registered: without the prefixes that models add, and with the usual names of an interpreter.
pub(super) fn tool_name(written: &str, registry: &Registry) -> String {
    let written = written.trim().trim_matches(['`', '*', '"']).trim();
    if registry.get(written).is_some() {
        return written.to_owned();
    }
    let bare = NAME_PREFIXES
        .iter()
        .find_map(|prefix| written.strip_prefix(prefix))
        .unwrap_or(written);
    let is_interpreter = INTERPRETER_NAMES
        .iter()
        .any(|name| bare.eq_ignore_ascii_case(name));
    if is_interpreter && registry.get(bare).is_none() && registry.get(EXECUTE_PYTHON_CODE).is_some()
    {
        return EXECUTE_PYTHON_CODE.to_owned();
    }
    bare.to_owned()
}

/// The code in the arguments of a call of an interpreter.
pub(super) fn code_in_arguments(arguments: &Value) -> Option<String> {
    let text = match arguments {
        Value::String(text) => text.clone(),
        Value::Object(map) => {
            let named = CODE_ARGUMENT_NAMES
                .iter()
                .find_map(|name| map.get(*name)?.as_str());
            let mut texts = map.values().filter_map(Value::as_str);
            match (named, texts.next(), texts.next()) {
                (Some(code), ..) => code.to_owned(),
                (None, Some(only), None) if map.len() == 1 => only.to_owned(),
                _ => return None,
            }
        }
        _ => return None,
    };
    let code = fences::unfenced_code(&text);
    (!code.trim().is_empty()).then_some(code)
}

/// The reply as it stands in the conversation: the thought, and the actions in the form of the format.
fn in_own_form(thought: &str, actions: &[Action], format: Format) -> String {
    let mut said = thought.to_owned();
    if format == Format::Json {
        let code = actions.iter().find_map(|action| match action {
            Action::Code(code) => Some(code.as_str()),
            _ => None,
        });
        let action = code.map(|_| "execute_code");
        let object =
            json!({"thought": thought, "action": action, "code": code, "final_answer": null});
        return object.to_string();
    }
    for action in actions {
        let part = match (format, action) {
            (Format::Markdown, Action::Code(code)) => format!("```python\n{code}\n```"),
            (Format::Xml, Action::Code(code)) => {
                format!("<execution-code>\n{code}\n</execution-code>")
            }
            (Format::Markdown | Format::Xml, Action::Call(call)) => {
                format!("{}({})", call.name, call.raw)
            }
            _ => continue,
        };
        if !said.is_empty() {
            said.push('\n');
        }
        said.push_str(&part);
    }
    said
}

/// A text without the tokens that end a message.
fn without_end_tokens(text: &str) -> &str {
    let mut text = text.trim_end();
    while let Some(token) = END_TOKENS.iter().find(|token| text.ends_with(**token)) {
        text = text[..text.len() - token.len()].trim_end();
    }
    text
}
