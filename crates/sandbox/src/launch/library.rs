//! The native code as a file that lives in memory only.

use crate::Error;
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

static NATIVE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cellblock-native.so"));

/// A sealed file in memory with the native code: to be executed as the launcher and loaded by the guest.
pub(crate) fn open() -> Result<OwnedFd, Error> {
    let what = "putting the native code into memory";
    let wrap = |error| Error::system(what, error);
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 do not know EXEC and need not be told.
    let file = memfd_create("cellblock", flags | MemfdFlags::EXEC)
        .or_else(|_| memfd_create("cellblock", flags))
        .map_err(wrap)?;
    let mut rest = NATIVE;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest).map_err(wrap)?;
        rest = &rest[written..];
    }
    // Writers inside must not be able to change what the next session loads.
    fcntl_add_seals(
        &file,
        SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL,
    )
    .map_err(wrap)?;
    Ok(file)
}
