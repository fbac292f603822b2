//! The host's ends of the sockets to init, the launcher and the head, and the messages on them.

mod control;
mod packet;
mod readiness;

pub use control::{
    Change, Changing, Death, Exit, FromInit, FromLauncher, HowMuch, Made, Moment, Over, ToInit,
    Unprepared, fork_request, mount_request,
};
pub use packet::{
    Packet, packet_pair, receive_bytes, receive_packet, send_bytes, send_packet, stream_pair,
};
pub use readiness::readiness;
