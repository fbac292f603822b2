//! The code that runs inside a session's own processes.
//!
//! One source, three uses. `build.rs` of the sandbox compiles it to a shared object without standard library and without
//! libc; that one file is **executed** as the launcher (`start.rs`) and **loaded** into Python by the guest
//! (`exports.rs`). The host links the same crate as an ordinary library for the layouts that both sides must agree on
//! (`config`, `message`) and for the probe.
//!
//! Every function here may run between `fork` and `exec` or in a process that shares memory with nobody it can ask for
//! help: no allocation, no locks, no panics on purpose.
#![no_std]
#![deny(missing_docs)]

#[cfg(not(target_os = "linux"))]
compile_error!("Cellblock needs Linux: its walls are Linux kernel mechanisms");
#[cfg(not(target_arch = "x86_64"))]
compile_error!("Cellblock's native code knows x86-64 only so far (see docs/limitations.md)");

#[cfg(test)]
extern crate std;

pub mod config;
pub mod lookup;
pub mod message;
pub mod sys;

pub mod landlock;
pub mod limits;
pub mod memory;
pub mod mounts;
pub mod named;
pub mod privileges;
pub mod seccomp;
pub mod text;
pub mod users;

pub mod acting;
pub mod crossing;
pub mod doors;
pub mod entering;
pub mod fork;
pub mod handover;
pub mod harden;
pub mod init;
pub mod keep;
pub mod kernel_memory;
pub mod kin;
pub mod launcher;
pub mod notify;
pub mod offspring;
pub mod own_file;
pub mod ownership;
pub mod pending;
pub mod places;
pub mod probe;
pub mod process_memory;
pub mod processor;
pub mod rest;
pub mod side_fork;
pub mod socket_memory;
pub mod spawn;
pub mod standby;
pub mod stillness;
pub mod sweep;
pub mod threads;
pub mod unborn;
pub mod user_objects;
pub mod waiting;
pub mod waking;
pub mod watchdog;

#[cfg(standalone)]
mod exports;
#[cfg(standalone)]
mod freestanding;
#[cfg(standalone)]
mod start;
