//! The file system that a directory is on.

use crate::Confined;
use rustix::fs::fstatfs;
use std::io;

/// What a file system says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    kind: u64,
    /// Bytes that are free.
    pub free: u64,
}

const EXT: u64 = 0xEF53;
const XFS: u64 = 0x5846_5342;
const BTRFS: u64 = 0x9123_683E;

impl FileSystem {
    /// Whether the kernel counts for each process what it writes here. It does not for files in memory, and others are not known.
    pub fn counts_writes(self) -> bool {
        [EXT, XFS, BTRFS].contains(&self.kind)
    }

    /// Whether it reserves blocks by itself for files that grow: about as many again as they have.
    pub fn reserves_ahead(self) -> bool {
        self.kind == XFS
    }
}

impl Confined {
    /// The file system that it is on.
    pub fn file_system(&self) -> io::Result<FileSystem> {
        let found = fstatfs(self.directory())?;
        Ok(FileSystem {
            kind: u64::from(found.f_type as u32),
            free: found
                .f_bfree
                .saturating_mul(u64::try_from(found.f_bsize).unwrap_or(0)),
        })
    }
}
