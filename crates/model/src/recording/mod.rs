//! Exchanges with a model in a file, and a file as a model.

mod difference;
mod file;
mod normal;
mod recorder;
mod replay;

pub use file::Header;
pub use recorder::Recorder;
pub use replay::{Compared, Replay};
