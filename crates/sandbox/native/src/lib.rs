//! The code that runs inside a session's own processes.
//!
//! One source, three uses. `build.rs` of the sandbox compiles it to a shared object without standard library and without
//! libc; this file is **executed** as the launcher (`launch/start.rs`) and **loaded** into Python by the guest
//! (`launch/exports.rs`). The host links the same crate as an ordinary library for the layouts that both sides must agree on
//! (`wire`) and for the probe.
//!
//! Every function here may run between `fork` and `exec` or in a process without a working libc: no allocation, no locks, no panics on purpose.
#![no_std]
#![deny(missing_docs)]

#[cfg(not(target_os = "linux"))]
compile_error!("Cellblock needs Linux: its walls are Linux kernel mechanisms");
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("Cellblock's native code knows x86-64 and AArch64 only (see docs/limitations.md)");

#[cfg(test)]
extern crate std;

pub mod arch;
pub mod files;
pub mod forks;
pub mod init;
pub mod launch;
pub mod spawner;
pub mod sys;
pub mod walls;
pub mod wire;
