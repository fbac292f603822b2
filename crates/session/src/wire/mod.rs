//! Sockets and pipes between the host and the processes of a session.

pub(crate) mod channel;
pub(crate) mod exchange;
pub(crate) mod init_link;
pub(crate) mod packets;
pub(crate) mod pipes;
