//! Unix sockets between our processes: whole messages, with descriptors.

use crate::Error;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use tokio::io::unix::AsyncFd;

const MAX_DESCRIPTORS: usize = cellblock_native::sys::MAX_DESCRIPTORS;

/// One message with its descriptors. Empty bytes mean that the other side has gone.
#[derive(Debug, Default)]
pub struct Packet {
    /// The message.
    pub bytes: Vec<u8>,
    /// The descriptors that came with the message.
    pub descriptors: Vec<OwnedFd>,
}

/// A connected pair of packet sockets; the first is for the host and does not block.
pub fn packet_pair() -> Result<(OwnedFd, OwnedFd), Error> {
    pair(SocketType::SEQPACKET)
}

/// A connected pair of stream sockets; the first is for the host and does not block.
pub fn stream_pair() -> Result<(OwnedFd, OwnedFd), Error> {
    pair(SocketType::STREAM)
}

fn pair(kind: SocketType) -> Result<(OwnedFd, OwnedFd), Error> {
    let made = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
    let (near, far) = made.map_err(|error| Error::system("making a pair of sockets", error))?;
    rustix::io::ioctl_fionbio(&near, true)
        .map_err(|error| Error::system("making a socket non-blocking", error))?;
    Ok((near, far))
}

/// Sends one message with descriptors. `WouldBlock` when the socket is full.
pub fn send_packet(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> std::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Reads from a stream socket; descriptors that come along are dropped. It never waits, whatever the socket's own mode is: the
/// code inside may hold the same socket and change it.
pub fn receive_bytes(socket: impl AsFd, buffer: &mut [u8]) -> std::io::Result<usize> {
    let (read, _) = rustix::net::recv(socket, buffer, RecvFlags::DONTWAIT)?;
    Ok(read)
}

/// Writes to a stream socket as much as it takes now, with a descriptor if there is one. It never waits either.
pub fn send_bytes(
    socket: impl AsFd,
    bytes: &[u8],
    enclosed: Option<BorrowedFd<'_>>,
) -> std::io::Result<usize> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let Some(descriptor) = enclosed else {
        return Ok(rustix::net::send(socket, bytes, flags)?);
    };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(
        &descriptor,
    )));
    Ok(sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut control,
        flags,
    )?)
}

/// Receives one message of at most `most` bytes. `WouldBlock` when there is none yet.
pub fn receive_packet(socket: impl AsFd, most: usize) -> std::io::Result<Packet> {
    let mut bytes = vec![0; most];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    bytes.truncate(received.bytes);
    let descriptors = descriptors_of(&mut control);
    Ok(Packet { bytes, descriptors })
}

fn descriptors_of(control: &mut RecvAncillaryBuffer<'_>) -> Vec<OwnedFd> {
    control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect()
}

/// Registers a non-blocking descriptor with the runtime that this is called in.
pub fn async_fd(descriptor: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` keeps its descriptor open, and the same one, until it is dropped with the `AsyncFd`.
    Ok(unsafe { AsyncFd::register(descriptor) }?)
}
