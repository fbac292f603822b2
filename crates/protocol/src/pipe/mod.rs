//! The pipe: newline-delimited JSON on standard input and output, so that any language can hold sessions.
//!
//! A request is one line, `{"id":1,"session":"default","op":"run","code":"1+1"}`. `id` is a number or a text of the
//! caller's choice and comes back with everything that belongs to the request; `session` is `default` when absent.
//!
//! A response is one line too: `id`, `session`, `event`, and what the event carries. A `run` gives events while it runs
//! and ends with `result`:
//!
//! ```text
//! {"id":1,"session":"default","event":"stdout","text":"2\n"}
//! {"id":1,"session":"default","event":"result","result":{"status":"success", …}}
//! ```
//!
//! Every other operation gives exactly one `answer`, or an `error`:
//!
//! ```text
//! {"id":2,"session":"default","event":"answer","answer":{"result":"aQue9ScN","error":null}}
//! {"id":3,"session":"default","event":"answer","answer":[{"name":"x","type":"int","summary":"2","bytes":28}]}
//! {"id":4,"session":"default","event":"answer","answer":{}}
//! {"id":5,"session":"default","event":"error","code":"busy","message":"…"}
//! ```
//!
//! The answer of `read_output` is `{"text": …}`, that of operations with nothing to say is `{}`. `tool_result` and `input`
//! are answered only when they are wrong.

mod agent_operation;
mod file_operation;
mod operation;
mod request;
mod response;

pub use agent_operation::{
    AfterAnswer, AgentOperation, AgentRequest, AgentTask, ApprovalsBy, Approved,
};
pub use file_operation::{FileOperation, OpenFile};
pub use operation::Operation;
pub use request::{MAX_LINE_BYTES, PipeError, Request, RequestId, parse_line};
pub use response::Response;
