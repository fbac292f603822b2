//! A Jupyter kernel on a Cellblock session.
//!
//! [`Kernel`] answers the messages of the protocol, whichever way they travel: [`serve`] brings them over ZeroMQ, the server's
//! Jupyter API over a WebSocket.
#![forbid(unsafe_code)]

mod connection;
mod kernel;
pub mod kernelspec;
mod message;
mod notebook;
mod notebook_outputs;
mod received;
mod wire;
mod zeromq_server;

pub use connection::{ConnectionError, ConnectionFile, Ports};
pub use kernel::{
    Advice, Kernel, KernelAbout, KernelEnd, Outgoing, OutgoingQueues, SessionOpener,
    outgoing_queues,
};
pub use message::{Channel, Message, PROTOCOL_VERSION, fresh_id, now};
pub use notebook::{Notebook, NotebookEnd, NotebookError};
pub use wire::{Wire, WireError};
pub use zeromq_server::{ServeError, serve};
