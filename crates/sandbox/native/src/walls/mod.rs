//! The walls around the processes of a session: one module for each mechanism of the kernel.

pub mod data_limit;
pub mod harden;
pub mod landlock;
pub mod limits;
pub mod loopback;
pub mod mounts;
pub mod privileges;
pub mod probe;
pub mod seccomp;
pub mod users;
