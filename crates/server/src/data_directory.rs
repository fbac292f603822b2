//! The directory with everything that outlives the server: no other user may read it, or put something into it.

use crate::error::ServerError;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// Makes the directory, or closes one that is there. Refuses one that another user could change.
pub(crate) fn claim(data: &Path) -> Result<(), ServerError> {
    let failed = |source: io::Error| ServerError::Directory {
        path: data.to_owned(),
        source,
    };
    let mut builder = DirBuilder::new();
    builder
        .recursive(true)
        .mode(0o700)
        .create(data)
        .map_err(failed)?;
    let found = fs::metadata(data).map_err(failed)?;
    let user = rustix::process::geteuid().as_raw();
    if found.uid() == user {
        if found.mode() & 0o077 != 0 {
            fs::set_permissions(data, Permissions::from_mode(0o700)).map_err(failed)?;
        }
    } else if found.uid() != 0 || found.mode() & 0o002 != 0 {
        // A volume of a container may be root's, and open to the group of the server.
        return Err(ServerError::Options(format!(
            "other users can change {}: it must belong to the user of the server, or to root and be closed to others",
            data.display()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::chown;

    #[test]
    fn a_directory_that_was_open_is_closed() {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        fs::create_dir(&data).unwrap();
        fs::set_permissions(&data, Permissions::from_mode(0o777)).unwrap();
        claim(&data).unwrap();
        assert_eq!(fs::metadata(&data).unwrap().mode() & 0o7777, 0o700);
        fs::remove_dir(&data).unwrap();
        claim(&data).unwrap();
        assert_eq!(fs::metadata(&data).unwrap().mode() & 0o7777, 0o700);
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let place = tempfile::tempdir().unwrap();
        chown(place.path(), Some(4711), Some(4711)).unwrap();
        let refused = claim(place.path()).unwrap_err().to_string();
        assert!(refused.contains("other users can change"), "{refused}");
    }
}
