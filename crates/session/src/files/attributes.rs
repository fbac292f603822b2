//! Extended attributes of a file that code may change: those of the user, and access lists.

use cellblock_sandbox::Entry;
use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;

/// The most bytes of names and values of one file that are recorded.
const MAX_BYTES: usize = 256 << 10;
/// The kernel's own limits for the list of names and for one value.
const MAX_LIST_BYTES: usize = 64 << 10;
const MAX_VALUE_BYTES: usize = 64 << 10;

/// The attributes of one file, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    values: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Attributes {
    /// Reads the attributes of a plain file.
    pub(crate) fn of(entry: &Entry) -> io::Result<Attributes> {
        Attributes::read(&entry.read()?)
    }

    fn read(file: &File) -> io::Result<Attributes> {
        let mut attributes = Attributes::default();
        let mut left = MAX_BYTES;
        for name in names(file)? {
            let mut value = Vec::with_capacity(256);
            match fgetxattr(
                file,
                name.as_slice(),
                rustix::buffer::spare_capacity(&mut value),
            ) {
                Err(Errno::RANGE) => {
                    value.reserve(MAX_VALUE_BYTES);
                    fgetxattr(
                        file,
                        name.as_slice(),
                        rustix::buffer::spare_capacity(&mut value),
                    )?;
                }
                // Removed meanwhile.
                Err(Errno::NODATA) => continue,
                read => _ = read?,
            }
            let taken = name.len() + value.len();
            left = left.checked_sub(taken).ok_or_else(|| {
                io::Error::other("it has more extended attributes than are recorded")
            })?;
            attributes.values.insert(name, value);
        }
        Ok(attributes)
    }

    /// Gives a plain file these attributes and no others. Before its permissions are set: an access list changes them.
    pub(crate) fn put_back(&self, entry: &Entry) -> io::Result<()> {
        let file = entry.read()?;
        let now = Attributes::read(&file)?;
        for name in now.values.keys() {
            if !self.values.contains_key(name) {
                fremovexattr(&file, name.as_slice())?;
            }
        }
        for (name, value) in &self.values {
            if now.values.get(name) != Some(value) {
                fsetxattr(&file, name.as_slice(), value, XattrFlags::empty())?;
            }
        }
        Ok(())
    }
}

/// The names of the attributes that code may change.
fn names(file: &File) -> io::Result<Vec<Vec<u8>>> {
    let mut list = Vec::with_capacity(256);
    let read = match flistxattr(file, rustix::buffer::spare_capacity(&mut list)) {
        Err(Errno::RANGE) => {
            list.reserve(MAX_LIST_BYTES);
            flistxattr(file, rustix::buffer::spare_capacity(&mut list))
        }
        read => read,
    };
    match read {
        // A file system without attributes.
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        read => _ = read?,
    }
    let is_of_code =
        |name: &&[u8]| name.starts_with(b"user.") || *name == b"system.posix_acl_access";
    let names = list.split(|byte| *byte == 0).filter(is_of_code);
    Ok(names.map(<[u8]>::to_vec).collect())
}
