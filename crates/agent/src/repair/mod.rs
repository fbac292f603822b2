//! Reading replies that are not quite in the form that was asked for.
//!
//! Valid text is never changed. Other text is repaired only where the meaning is certain: no letter and no digit is added or lost,
//! and the result has the form that was asked for. Everything else is an error, with a text for the model.

mod json;
mod json_fixes;
mod markup;

use serde::{Deserialize, Serialize};

pub use json::{ReadJsonError, Repaired, ReplyEnd, read_object, read_value};
pub(crate) use markup::lines;
pub use markup::{
    CodeBlock, Fenced, SplitReply, TaggedText, code_blocks, fenced_blocks, find_tags,
    split_thinking,
};

/// Something that was wrong with a reply, and was repaired.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    thiserror::Error,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Repair {
    /// There was text before or after the JSON.
    #[error("text around it was left out")]
    TextAround,
    /// The JSON or the code was in a code fence.
    #[error("the code fence around it was taken off")]
    CodeFence,
    /// Typographic quotes stood in place of plain ones.
    #[error("typographic quotes were replaced")]
    SmartQuotes,
    /// A text had line breaks or tabs that were not escaped.
    #[error("line breaks inside a text were escaped")]
    RawLineBreaks,
    /// A text had a backslash escape that JSON does not have.
    #[error("backslashes inside a text were escaped")]
    Backslashes,
    /// There was a comma after the last entry.
    #[error("a comma after the last entry was taken out")]
    TrailingComma,
    /// `True`, `False` or `None` stood in place of `true`, `false` or `null`.
    #[error("Python's words for true, false and null were replaced")]
    PythonWords,
    /// The last bracket, fence or tag was not closed.
    #[error("what was open at the end was closed")]
    Unclosed,
    /// Quotes or commas were missing or too many.
    #[error("missing or wrong quotes and commas were mended")]
    Punctuation,
    /// The reasoning of the model was part of its text.
    #[error("the thoughts were taken apart from the reply")]
    Thinking,
    /// A field was missing or in another form, and the other fields say what was meant.
    #[error("a field was put into the form that was asked for")]
    Shape,
    /// A tool call was written as text.
    #[error("a call that was written as text was taken as a call")]
    CallInText,
    /// There was a comment in the JSON.
    #[error("a comment was left out")]
    Comment,
    /// A tool was called by another name, such as `functions.lookup` or `python`.
    #[error("the name of a tool was put right")]
    CallName,
    /// The action was in a form that another family of models uses.
    #[error("an action in another form was taken as an action")]
    Dialect,
    /// The model wrote text after its own code, such as the output that it expected.
    #[error("what followed the code was cut off: the code had not run yet")]
    InventedOutput,
}
