//! Files that a person names, as on a command line, where code of a session may have made some of the names.
//!
//! A person who writes `--out plots` in the workspace of a session means a directory. Code can have put a link there that leads to the person's
//! home, and a pipe where a file is expected. So a path that leads into a workspace is followed only below it, and what the host writes never goes
//! through a link at the end of a path.

use cellblock_sandbox::{Confined, EntryHandle, Links};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Directories in which code of sessions can have made names.
#[derive(Debug, Default)]
pub struct UntrustedDirectories {
    /// Each with its real path.
    directories: Vec<(PathBuf, Confined)>,
}

/// A file that is replaced after code has run, by a new one under the same name.
#[derive(Debug)]
pub struct ReplacedFile {
    directory: Confined,
    name: PathBuf,
    /// Its permissions, without the bits that run a program as its owner.
    mode: u32,
    contents: fs::File,
}

/// A directory into which files are copied that code made, under names that code chose.
#[derive(Debug)]
pub struct OutputDirectory {
    directory: Confined,
}

impl UntrustedDirectories {
    /// Makes the list from those of the paths that exist.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> UntrustedDirectories {
        let open = |path: PathBuf| {
            let real = path.canonicalize().ok()?;
            let directory = Confined::open_real(&real).ok()?;
            Some((real, directory))
        };
        UntrustedDirectories {
            directories: paths.into_iter().filter_map(open).collect(),
        }
    }

    /// Reads a file. In an untrusted directory it must be a plain file, and no link may lead out of the directory.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match self.find(path)? {
            PathOrigin::Trusted => fs::read(path),
            PathOrigin::Untrusted(directory, below) => {
                let mut contents = Vec::new();
                directory.read(&below)?.read_to_end(&mut contents)?;
                Ok(contents)
            }
        }
    }

    /// Writes a file: a new one, or over what is in a plain file.
    pub fn write(&self, path: &Path, contents: &[u8]) -> io::Result<()> {
        // What the system has there is no file of a session's: `/dev/stdout`, or what a shell opened.
        if path.starts_with("/dev") || path.starts_with("/proc") {
            return fs::write(path, contents);
        }
        if let PathOrigin::Untrusted(directory, below) = self.find(path)? {
            return write_below(directory, &below, contents);
        }
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        write_below(&Confined::open(parent_of(path))?, Path::new(name), contents)
    }

    /// Opens a directory for output, and makes it if it is not there. Before code runs: from then on it is this directory, whatever becomes of
    /// its name.
    pub fn output_directory(&self, path: &Path) -> io::Result<OutputDirectory> {
        let directory = match self.find(path)? {
            PathOrigin::Trusted => {
                fs::create_dir_all(path)?;
                Confined::open(path)?
            }
            PathOrigin::Untrusted(directory, below) => {
                directory.make_directories(&below, Links::AreNotFollowed)?;
                directory.below(&below)?
            }
        };
        Ok(OutputDirectory { directory })
    }

    /// Whether a path leads into one of the directories, and which way it goes on from there.
    fn find(&self, path: &Path) -> io::Result<PathOrigin<'_>> {
        let whole = std::path::absolute(path)?;
        let mut before = PathBuf::new();
        let mut parts = whole.components();
        while let Some(part) = parts.next() {
            before.push(part);
            // From the top: nothing above the first untrusted directory was made by code.
            let Ok(real) = before.canonicalize() else {
                break;
            };
            for (root, directory) in &self.directories {
                if let Ok(inside) = real.strip_prefix(root) {
                    return Ok(PathOrigin::Untrusted(
                        directory,
                        inside.join(parts.as_path()),
                    ));
                }
            }
        }
        Ok(PathOrigin::Trusted)
    }
}

impl ReplacedFile {
    /// Finds a file, before code runs. From then on its directory is this one, whatever becomes of the names on the way to it. Code of an
    /// earlier session may have put a link or a pipe under the name: it must be a plain file.
    pub fn find(path: &Path) -> io::Result<ReplacedFile> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let directory = Confined::open_real(&parent_of(path).canonicalize()?)?;
        let found = directory.find(Path::new(name), Links::AreNotFollowed)?;
        refuse_link(&found)?;
        let contents = found.read()?;
        Ok(ReplacedFile {
            directory,
            name: name.into(),
            mode: found.stat().st_mode & 0o777,
            contents,
        })
    }

    /// Reads the file that was found. One that is longer than `max_bytes` is an error.
    pub fn read(&self, max_bytes: u64) -> io::Result<Vec<u8>> {
        let mut contents = Vec::new();
        (&self.contents)
            .take(max_bytes.saturating_add(1))
            .read_to_end(&mut contents)?;
        if contents.len() as u64 > max_bytes {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("it is longer than {} MB", max_bytes >> 20),
            ));
        }
        Ok(contents)
    }

    /// Puts a new file in its place, as a whole: a reader never finds half of it. What code has put under the name, such as a link, is replaced and
    /// not followed.
    pub fn replace(&self, contents: &[u8]) -> io::Result<()> {
        self.directory.replace(&self.name, contents, self.mode)
    }
}

enum PathOrigin<'a> {
    Trusted,
    /// Below this directory, at this path.
    Untrusted(&'a Confined, PathBuf),
}

impl OutputDirectory {
    /// Writes a file at a path below it, with the directories above it. No link is followed.
    pub fn write(&self, path: &Path, contents: impl Read) -> io::Result<()> {
        write_below(&self.directory, path, contents)
    }
}

fn write_below(directory: &Confined, path: &Path, mut contents: impl Read) -> io::Result<()> {
    let found = match directory.find(path, Links::AreNotFollowed) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut file = directory.create(path, Links::AreNotFollowed)?;
            return io::copy(&mut contents, &mut file).map(drop);
        }
        found => found?,
    };
    refuse_link(&found)?;
    let mut file = found.write()?;
    file.set_len(0)?;
    io::copy(&mut contents, &mut file).map(drop)
}

fn refuse_link(found: &EntryHandle) -> io::Result<()> {
    match found.read_link() {
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a link; name the file that it leads to",
        )),
        Err(_) => Ok(()),
    }
}

/// The directory of a path, also where the path is a name alone.
fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use tempfile::TempDir;

    /// A home with a file, and a workspace in it whose names code made.
    fn scene() -> (TempDir, UntrustedDirectories) {
        let home = tempfile::tempdir().unwrap();
        let place = |name: &str| home.path().join(name);
        fs::write(place("profile"), "precious").unwrap();
        fs::create_dir_all(place("workspace/d")).unwrap();
        fs::write(place("workspace/d/file"), "by code").unwrap();
        symlink(home.path(), place("workspace/out")).unwrap();
        symlink("../profile", place("workspace/link")).unwrap();
        symlink("d/file", place("workspace/inside")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            place("workspace/pipe"),
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        symlink("workspace", place("alias")).unwrap();
        let untrusted = UntrustedDirectories::new([place("workspace"), place("missing")]);
        (home, untrusted)
    }

    #[test]
    fn a_file_is_replaced_where_it_was_found_and_no_link_is_followed() {
        let home = tempfile::tempdir().unwrap();
        let place = |name: &str| home.path().join(name);
        fs::create_dir_all(place("workspace/d")).unwrap();
        fs::write(place("profile"), "precious").unwrap();
        fs::write(place("workspace/d/notebook"), "before").unwrap();
        let mode = fs::Permissions::from_mode(0o640);
        fs::set_permissions(place("workspace/d/notebook"), mode).unwrap();
        let found = ReplacedFile::find(&place("workspace/d/notebook")).unwrap();

        fs::remove_file(place("workspace/d/notebook")).unwrap();
        symlink(place("profile"), place("workspace/d/notebook")).unwrap();
        fs::rename(place("workspace/d"), place("workspace/moved")).unwrap();
        symlink(home.path(), place("workspace/d")).unwrap();
        found.replace(b"after").unwrap();

        let written = place("workspace/moved/notebook");
        let metadata = fs::symlink_metadata(&written).unwrap();
        assert!(metadata.is_file());
        assert_eq!(metadata.permissions().mode() & 0o7777, 0o640);
        assert_eq!(fs::read(written).unwrap(), b"after");
        assert_eq!(fs::read(place("profile")).unwrap(), b"precious");
        assert!(!place("notebook").exists());
        assert_eq!(fs::read_dir(place("workspace/moved")).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_to_be_replaced_is_a_plain_file() {
        let (home, _) = scene();
        let place = |name: &str| home.path().join("workspace").join(name);
        for name in ["pipe", "link", "inside", "d", "missing"] {
            ReplacedFile::find(&place(name)).unwrap_err();
        }
        let found = ReplacedFile::find(&place("d/file")).unwrap();
        assert_eq!(found.read(7).unwrap(), b"by code");
        // Another file under the name is not read.
        let again = ReplacedFile::find(&place("d/file")).unwrap();
        fs::remove_file(place("d/file")).unwrap();
        symlink("../../profile", place("d/file")).unwrap();
        let error = again.read(6).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn a_link_that_code_left_is_neither_read_nor_written_through() {
        let (home, untrusted) = scene();
        for way in [
            "workspace",
            "alias",
            "workspace/d/..",
            "./alias/../workspace",
        ] {
            let place = |name: &str| home.path().join(way).join(name);
            for name in ["link", "out/profile", "pipe", "d"] {
                untrusted.read(&place(name)).unwrap_err();
                untrusted.write(&place(name), b"changed").unwrap_err();
            }
            untrusted.output_directory(&place("out")).unwrap_err();
            untrusted.output_directory(&place("out/new")).unwrap_err();
        }
        let place = |name: &str| home.path().join(name);
        assert_eq!(fs::read(place("profile")).unwrap(), b"precious");
        assert!(!place("new").exists());
        assert_eq!(untrusted.read(&place("alias/inside")).unwrap(), b"by code");
        untrusted.write(&place("alias/d/new"), b"text").unwrap();
        assert_eq!(fs::read(place("workspace/d/new")).unwrap(), b"text");
    }

    #[test]
    fn what_the_user_names_elsewhere_is_written_but_not_through_a_link() {
        let (home, untrusted) = scene();
        let place = |name: &str| home.path().join(name);
        untrusted.write(&place("notes"), b"one").unwrap();
        untrusted.write(&place("notes"), b"2").unwrap();
        assert_eq!(fs::read(place("notes")).unwrap(), b"2");
        symlink("notes", place("by_link")).unwrap();
        let error = untrusted.write(&place("by_link"), b"3").unwrap_err();
        assert_eq!(
            error.to_string(),
            "it is a link; name the file that it leads to"
        );
        assert_eq!(untrusted.read(&place("by_link")).unwrap(), b"2");
    }

    #[test]
    fn output_stays_in_its_directory_whatever_the_names_are() {
        let (home, untrusted) = scene();
        let place = |name: &str| home.path().join(name);
        let output = untrusted.output_directory(&place("results/new")).unwrap();
        output.write(Path::new("a/b.txt"), &b"text"[..]).unwrap();
        assert_eq!(fs::read(place("results/new/a/b.txt")).unwrap(), b"text");
        symlink(home.path(), place("results/new/away")).unwrap();
        for path in ["away/profile", "../profile", "/etc/x", "a", "away"] {
            output.write(Path::new(path), &b"changed"[..]).unwrap_err();
        }
        // The directory that was opened, not the one that has its name later.
        fs::rename(place("results/new"), place("moved")).unwrap();
        symlink(home.path(), place("results/new")).unwrap();
        output.write(Path::new("profile"), &b"changed"[..]).unwrap();
        assert_eq!(fs::read(place("profile")).unwrap(), b"precious");
    }
}
