//! What depends on the kind of processor: one module for each, with the same names in it.
//!
//! | name | what it is |
//! | --- | --- |
//! | `numbers` | numbers of system calls; a call that a processor does not have has a number that the filter refuses |
//! | `AUDIT_ARCHITECTURE`, `open_flags` | constants of the kernel's that differ |
//! | `StatWords`, `EpollEvent` | structures of the kernel's that differ |
//! | `enter_kernel`, `clone_arguments` | how a system call is made |
//! | `thread_pointer`, `page_bytes`, `own_image` | what a process can ask its processor, and the kernel, for |
//! | `clone_onto_stack`, `start_thread`, `return_from_signal`, `resume_context` | processes and threads that begin on another stack |
//! | `registers` | what a tracer sees of a stopped process |
//! | `restart_code` | instructions that make a system call of libc's again |
//! | `start`, `memory` | the entry of the executed file, and what the compiler expects of a C library |

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub use aarch64::*;
#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;
