//! What a person is asked, and what they can answer.

use crate::{Caller, Effects};
use serde_json::{Map, Value};
use std::pin::Pin;

/// A call that waits for a person.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The tool.
    pub tool: String,
    /// Why it is called, where the caller said so.
    pub purpose: Option<String>,
    /// What it is given.
    pub arguments: Map<String, Value>,
    /// What it does to the world.
    pub effects: Effects,
    /// Who calls.
    pub caller: Caller,
}

impl Question {
    /// The code that is to be run, where it is about code: the name of its argument, and the text.
    pub fn code(&self) -> Option<(&'static str, &str)> {
        let Effects::Code { argument } = self.effects else {
            return None;
        };
        Some((argument, self.arguments.get(argument)?.as_str()?))
    }
}

/// What a person answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Run it.
    Accept,
    /// Run it, and do not ask again for this tool in this run.
    Always,
    /// Run it with these arguments. The model is told.
    Edit(Map<String, Value>),
    /// Do not run it; tell the model this instead.
    Respond(String),
    /// Do not run it, perhaps for this reason.
    Reject(Option<String>),
}

/// A question that is being asked.
pub type Asking = Pin<Box<dyn Future<Output = Decision> + Send>>;

/// Someone who can be asked. It may take as long as it takes: no clock runs meanwhile.
pub trait Asker: Send + Sync {
    /// Asks, and waits for the answer. When the future is dropped the question has become moot.
    fn ask(&self, question: Question) -> Asking;
}
