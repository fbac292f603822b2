//! Linux isolation: what stands between a session's code and the machine.
//!
//! The walls themselves are built by native code inside the processes they surround (`native/`); this crate is the host's side
//! of it. It starts the launcher, says what a session may see, speaks with init, keeps cgroups, and probes what the machine
//! can enforce. All `unsafe` code of the project lives in this folder.

mod birth;
mod cgroup;
mod control;
mod draft;
mod entry;
mod error;
mod files;
mod holdings;
mod launch;
mod leash;
mod library;
mod outside;
mod own_copy;
mod packet;
mod private;
mod probe;
mod readiness;
mod removal;
mod signals;
mod space;
mod view;
mod walk;
mod walls;

pub use birth::Birth;
pub use cgroup::{Cgroup, Cgroups, Loan};
pub use control::{
    Change, Changing, Death, Exit, FromInit, FromLauncher, HowMuch, Made, Moment, Over, ToInit,
    Unprepared, fork_request, mount_request,
};
pub use entry::{Entry, Identity, SET_ID_BITS};
pub use error::Error;
pub use files::{Access, Confined, Links, unguessable_name};
pub use holdings::{Holdings, Size, Written, descriptors_waiting_in};
pub use launch::{LaunchPlan, Launched, first_id, is_session_id};
pub use leash::end_with_parent;
pub use outside::SessionProcesses;
pub use packet::{
    Packet, packet_pair, receive_bytes, receive_packet, send_bytes, send_packet, stream_pair,
};
pub use private::{Reach, claim_directory, private_directory, private_file};
pub use probe::{Mechanism, Probe, Verdict};
pub use readiness::readiness;
pub use removal::remove_directory;
pub use rustix::fs::Stat;
pub use signals::ignore_file_size_signal;
pub use space::FileSystem;
pub use view::{GUEST_DIRECTORY, View};
pub use walk::{Budget, Closed, Step};
pub use walls::{native_walls, reachable_rung};
