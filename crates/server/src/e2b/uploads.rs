//! Uploads that are kept aside until they are whole: each user has a share of the server's disk for them.

use super::sandbox::lock;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// The most uploads of one user at the same time.
pub(super) const MAX_UPLOADS: usize = 16;
/// The most bytes that the uploads of one user take together.
const MAX_BYTES: u64 = 2 << 30;

/// The uploads that are on their way.
#[derive(Debug)]
pub(super) struct Uploads {
    users: Mutex<HashMap<String, Share>>,
    max_uploads: usize,
    max_bytes: u64,
}

/// What one user has on the way.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    uploads: usize,
    bytes: u64,
}

impl Default for Uploads {
    fn default() -> Uploads {
        Uploads {
            users: Mutex::default(),
            max_uploads: MAX_UPLOADS,
            max_bytes: MAX_BYTES,
        }
    }
}

impl Uploads {
    /// Begins an upload of a user into a file that has no name. `None`: the user has too many already.
    pub(super) fn begin(self: &Arc<Self>, user: &str) -> Option<UploadPlace> {
        let mut users = lock(&self.users);
        let share = users.entry(user.to_owned()).or_default();
        if share.uploads >= self.max_uploads {
            return None;
        }
        share.uploads += 1;
        Some(UploadPlace {
            uploads: Arc::clone(self),
            user: user.to_owned(),
            bytes: 0,
        })
    }

    /// Takes bytes of a user's share, or refuses when they are not there.
    fn take(&self, user: &str, bytes: u64) -> io::Result<()> {
        let mut users = lock(&self.users);
        let share = users.entry(user.to_owned()).or_default();
        if share.bytes.saturating_add(bytes) > self.max_bytes {
            let problem = format!(
                "the uploads of one user take at most {} MB at the same time",
                self.max_bytes >> 20
            );
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, problem));
        }
        share.bytes += bytes;
        Ok(())
    }
}

/// The place of one upload in the share of its user, until it is dropped.
#[derive(Debug)]
pub(super) struct UploadPlace {
    uploads: Arc<Uploads>,
    user: String,
    bytes: u64,
}

impl UploadPlace {
    /// Writes to a file, and takes what is written from the share of the user.
    pub(super) fn writer<'a>(&'a mut self, file: &'a mut File) -> CountedFile<'a> {
        CountedFile { place: self, file }
    }
}

impl Drop for UploadPlace {
    fn drop(&mut self) {
        let mut users = lock(&self.uploads.users);
        if let Some(share) = users.get_mut(&self.user) {
            share.uploads = share.uploads.saturating_sub(1);
            share.bytes = share.bytes.saturating_sub(self.bytes);
            if share.uploads == 0 {
                users.remove(&self.user);
            }
        }
    }
}

/// A file whose bytes are counted before they are written.
pub(super) struct CountedFile<'a> {
    place: &'a mut UploadPlace,
    file: &'a mut File,
}

impl Write for CountedFile<'_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let bytes = piece.len() as u64;
        self.place.uploads.take(&self.place.user, bytes)?;
        self.place.bytes += bytes;
        self.file.write_all(piece)?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn bounded(max_uploads: usize, max_bytes: u64) -> Arc<Uploads> {
        Arc::new(Uploads {
            users: Mutex::default(),
            max_uploads,
            max_bytes,
        })
    }

    #[test]
    fn the_uploads_of_one_user_have_a_number_and_leave_those_of_others_alone() {
        let uploads = bounded(2, 100);
        let kept = [uploads.begin("eve"), uploads.begin("eve")];
        assert!(kept.iter().all(Option::is_some));
        assert!(uploads.begin("eve").is_none());
        assert!(uploads.begin("bob").is_some());
        drop(kept);
        assert!(uploads.begin("eve").is_some());
        assert!(lock(&uploads.users).is_empty(), "nothing is remembered");
    }

    #[test]
    fn the_bytes_of_all_uploads_of_one_user_count_together() {
        let uploads = bounded(10, 100);
        let mut file = tempfile::tempfile().unwrap();
        let mut one = uploads.begin("eve").unwrap();
        let mut two = uploads.begin("eve").unwrap();
        one.writer(&mut file).write_all(&[0; 60]).unwrap();
        let refused = two.writer(&mut file).write_all(&[0; 60]).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::QuotaExceeded);
        two.writer(&mut file).write_all(&[0; 40]).unwrap();
        let mut other = uploads.begin("bob").unwrap();
        other.writer(&mut file).write_all(&[0; 60]).unwrap();
        drop(one);
        two.writer(&mut file).write_all(&[0; 60]).unwrap();
        // What was refused was not written.
        assert_eq!(file.metadata().unwrap().len(), 60 + 40 + 60 + 60);
    }
}
