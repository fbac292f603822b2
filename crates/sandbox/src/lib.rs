//! Linux isolation: what stands between a session's code and the machine.
//!
//! The walls themselves are built by native code inside the processes they surround (`native/`); this crate is the host's side
//! of it. It starts the launcher, says what a session may see, speaks with init, keeps cgroups, and probes what the machine
//! can enforce. All `unsafe` code of the project lives in this folder.

mod error;
mod files;
mod launch;
mod processes;
mod wire;

pub use cellblock_native::arch::page_bytes;
pub use error::Error;
pub use files::{
    Access, Budget, Closed, Confined, EntryHandle, FileSystem, Identity, Links, Listed, Reach,
    SET_ID_BITS, WalkStep, claim_directory, in_view_of, private_directory, private_file,
    remove_directory, unguessable_name,
};
pub use launch::{
    GUEST_DIRECTORY, LaunchPlan, Launched, Mechanism, Probe, SessionIds, SpawnRequest, Verdict,
    View, is_session_id, native_walls, reachable_rung,
};
pub use processes::{
    Cgroup, CgroupLimits, Cgroups, Mappings, MemoryAllowance, OpenFile, Paused, ProcEntry,
    ProcStat, ProcStatus, SessionProcesses, SharedMapping, Size, TerminalSize, UnlinkedFiles,
    Written, descriptors_waiting_in, end_with_parent, ignore_file_size_signal, open_terminal,
    resize_terminal, run_before_sessions,
};
pub use rustix::fs::Stat;
pub use wire::{
    BootTime, Change, ExceededLimit, Exit, ForkFailure, ForkFinding, FromInit, FromLauncher,
    FromSpawner, HeadExit, KeptScope, MAX_PROCESS_REQUEST_BYTES, MAX_PROCESS_STRINGS, Packet,
    PendingChange, ProcessRequest, SpawnFailure, SpawnStep, StandbyOrigin, ToInit, async_fd,
    end_request, fork_request, mount_request, packet_pair, receive_bytes, receive_packet,
    send_bytes, send_packet, signal_request, spawner_request, stream_pair,
};
