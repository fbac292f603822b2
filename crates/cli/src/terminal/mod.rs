//! What a person sees.

mod approval;
mod color;
mod console;
mod highlight;
mod history;
mod progress;
mod quantity;
mod safety;
mod shown;

pub(crate) use approval::TerminalApprover;
pub(crate) use color::{ColorWish, Style};
pub(crate) use console::Console;
pub(crate) use highlight::highlight;
pub(crate) use history::TypedBefore;
pub(crate) use progress::EnvironmentBar;
pub(crate) use quantity::{milliseconds, plural, size};
pub(crate) use safety::{ToldNet, next_crash, print_restored};
pub(crate) use shown::{Shown, ending, error_text, file_lines};
