//! Reading what a model wrote, although it is not quite what was asked for.
//!
//! Valid text is never changed. What is not valid is repaired only where the meaning is certain: no letter and no digit is added
//! or lost, and the result fits the shape that was asked for. Everything else is an error in words for the model.

mod fences;
mod json;
mod mend;
mod tags;
mod thinking;

use serde::{Deserialize, Serialize};

pub use fences::{Block, code_blocks};
pub use json::{Read, read_object, read_value};
pub use tags::{Tagged, tagged};
pub use thinking::split_thinking;

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
    /// There was text before or after it.
    #[error("text around it was left out")]
    TextAround,
    /// It stood in a code fence.
    #[error("the code fence around it was taken off")]
    CodeFence,
    /// Typographic quotes stood in place of plain ones.
    #[error("typographic quotes were replaced")]
    SmartQuotes,
    /// A text had line breaks or tabs that were not escaped.
    #[error("line breaks inside a text were escaped")]
    RawLineBreaks,
    /// A text had a backslash that JSON does not know.
    #[error("backslashes inside a text were escaped")]
    Backslashes,
    /// There was a comma after the last entry.
    #[error("a comma after the last entry was taken out")]
    TrailingComma,
    /// `True`, `False` or `None` stood in place of JSON's words.
    #[error("Python's words for true, false and null were replaced")]
    PythonWords,
    /// The last bracket, fence or tag was not closed.
    #[error("what was open at the end was closed")]
    Unclosed,
    /// Quotes or commas were missing or too many.
    #[error("missing or wrong quotes and commas were mended")]
    Punctuation,
    /// The thoughts of the model stood in its answer.
    #[error("the thoughts were taken apart from the reply")]
    Thinking,
    /// A field was missing or in another form, and what was meant follows from the others.
    #[error("a field was put into the form that was asked for")]
    Shape,
    /// A call was written into the text.
    #[error("a call that was written as text was taken as a call")]
    CallInText,
}
