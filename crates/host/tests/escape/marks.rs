//! What code can do to a file of the host's without opening it, and how the host sees that it did.

use super::common::{permissions_of, token};
use rustix::fs::{XattrFlags, getxattr, setxattr};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// As the host made it.
const PERMISSIONS: u32 = 0o666;
const MODIFIED: Duration = Duration::from_secs(1_000_000_000);

/// One file, with marks that everyone may change who finds it, and a directory beside it.
pub(crate) struct Marked {
    pub(crate) file: PathBuf,
    /// In which files are made while a snippet runs.
    pub(crate) directory: PathBuf,
    /// What these files are called.
    pub(crate) name: String,
    /// An attribute of the file.
    pub(crate) secret: String,
    owner: u32,
}

/// The canaries that are such a file.
pub(crate) const OF_FILES: [&str; 6] = [
    "permissions",
    "owner",
    "times",
    "attribute",
    "attribute_secret",
    "name",
];

impl Marked {
    pub(crate) fn new(place: &Path, mark: &str) -> Marked {
        let file = place.join(format!("marked-{mark}"));
        let directory = place.join(format!("names-{mark}"));
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, mode(0o777)).unwrap();
        let secret = token();
        File::create(&file)
            .unwrap()
            .set_modified(SystemTime::UNIX_EPOCH + MODIFIED)
            .unwrap();
        fs::set_permissions(&file, mode(PERMISSIONS)).unwrap();
        // Where the file system has no attributes, nobody can read one.
        let _ = setxattr(&file, "user.secret", secret.as_bytes(), XattrFlags::empty());
        let owner = owner_of(&file);
        Marked {
            file,
            directory,
            name: token(),
            secret,
            owner,
        }
    }

    /// Makes a file with a secret name, again and again for a while.
    pub(crate) fn make_names(directory: &Path, name: &str) {
        for _ in 0..40 {
            let path = directory.join(name);
            let _ = File::create(&path);
            let _ = fs::remove_file(&path);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Whether this canary was reached. `said` is what the snippet printed.
    pub(crate) fn is_reached(&self, canary: &str, said: &str) -> bool {
        match canary {
            "permissions" => permissions_of(&self.file) != PERMISSIONS,
            "owner" => owner_of(&self.file) != self.owner,
            "times" => {
                fs::metadata(&self.file).unwrap().modified().unwrap()
                    != SystemTime::UNIX_EPOCH + MODIFIED
            }
            "attribute" => getxattr(&self.file, "user.mark", &mut [0; 64]).is_ok(),
            "attribute_secret" => said.contains(&format!("CANARY:{}", self.secret)),
            "name" => said.contains(&format!("CANARY:{}", self.name)),
            other => panic!("no canary is called {other}"),
        }
    }

    pub(crate) fn clean_up(&self) {
        let _ = fs::remove_file(&self.file);
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Whether files have attributes here.
pub(crate) fn has_attributes(place: &Path) -> bool {
    let file = tempfile::NamedTempFile::new_in(place).unwrap();
    setxattr(file.path(), "user.mark", b"1", XattrFlags::empty()).is_ok()
}

fn owner_of(file: &Path) -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(file).unwrap().uid()
}

fn mode(bits: u32) -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(bits)
}
