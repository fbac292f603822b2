//! System calls, spelled once. Each wrapper is as thin as the kernel's own manual page.

mod call;
mod changes;
mod files;
mod location;
mod mounts;
mod process;
mod sockets;
mod stat;
pub mod text;
pub mod trace;

pub use crate::arch::numbers as nr;
pub use call::{Errno, Result, syscall};
pub use changes::*;
pub use files::*;
pub use location::*;
pub use mounts::*;
pub use process::*;
pub use sockets::*;
pub use stat::*;
