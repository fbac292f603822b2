//! The host's ends of the sockets to init, the launcher and the head, and the messages on them.

mod messages;
mod packet;
mod spawner;

pub use messages::{
    BootTime, Change, ExceededLimit, Exit, ForkFailure, ForkFinding, FromInit, FromLauncher,
    HeadExit, KeptScope, PendingChange, StandbyOrigin, ToInit, fork_request, mount_request,
};
pub use packet::{
    Packet, async_fd, packet_pair, receive_bytes, receive_packet, send_bytes, send_packet,
    stream_pair,
};
pub use spawner::{
    FromSpawner, MAX_PROCESS_REQUEST_BYTES, MAX_PROCESS_STRINGS, ProcessRequest, SpawnFailure,
    SpawnStep, end_request, signal_request, spawner_request,
};
