//! A workspace as hostile code leaves it.

use super::*;
use crate::{Budget, Closed, Step};
use rustix::fs::FileType;
use std::ffi::OsString;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use tempfile::TempDir;

/// A host directory with a secret, and a workspace beside it.
struct Scene {
    host: TempDir,
    confined: Confined,
}

impl Scene {
    fn new() -> Scene {
        let host = tempfile::tempdir().unwrap();
        fs::write(host.path().join("secret"), "secret").unwrap();
        fs::create_dir(host.path().join("workspace")).unwrap();
        let confined = Confined::open(&host.path().join("workspace")).unwrap();
        Scene { host, confined }
    }

    fn inside(&self, name: &str) -> PathBuf {
        self.host.path().join("workspace").join(name)
    }

    fn read(&self, path: &str) -> io::Result<String> {
        let mut text = String::new();
        self.confined
            .read(Path::new(path))?
            .read_to_string(&mut text)?;
        Ok(text)
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        self.confined
            .write(Path::new(path))?
            .write_all(text.as_bytes())
    }

    fn listed(&self, path: &str) -> Vec<(OsString, FileType)> {
        let mut budget = Budget {
            entries: 100,
            text: 1000,
            closed: Closed::Stays,
        };
        let mut found = Vec::new();
        self.confined
            .walk(Path::new(path), &mut budget, &mut |step| {
                if let Step::Finds(path, stat) = step {
                    found.push((
                        path.as_os_str().to_owned(),
                        FileType::from_raw_mode(stat.st_mode),
                    ));
                }
            });
        found.sort_by(|(left, _), (right, _)| left.cmp(right));
        found
    }

    fn secret(&self) -> String {
        fs::read_to_string(self.host.path().join("secret")).unwrap()
    }
}

#[test]
fn plain_files_are_read_and_written_with_the_directories_above_them() {
    let scene = Scene::new();
    scene.write("a/b/c.txt", "long text").unwrap();
    scene.write("a/b/c.txt", "short").unwrap();
    assert_eq!(scene.read("./a/b/c.txt").unwrap(), "short");
}

#[test]
fn a_path_that_leaves_is_refused_before_it_is_tried() {
    let scene = Scene::new();
    for path in ["../secret", "a/../../secret", "/etc/passwd", ".."] {
        assert_eq!(
            scene.read(path).unwrap_err().kind(),
            io::ErrorKind::InvalidInput,
            "{path}"
        );
        assert_eq!(
            scene.write(path, "x").unwrap_err().kind(),
            io::ErrorKind::InvalidInput,
            "{path}"
        );
    }
    assert_eq!(scene.secret(), "secret");
}

#[test]
fn a_link_that_leads_out_is_neither_read_nor_written() {
    let scene = Scene::new();
    symlink("../secret", scene.inside("relative")).unwrap();
    symlink(scene.host.path().join("secret"), scene.inside("absolute")).unwrap();
    symlink("..", scene.inside("up")).unwrap();
    symlink("/proc/self/root/etc", scene.inside("magic")).unwrap();
    for path in ["relative", "absolute", "up/secret", "magic/passwd"] {
        scene.read(path).unwrap_err();
        scene.write(path, "changed").unwrap_err();
        scene
            .confined
            .make_directories(&Path::new(path).join("deeper"))
            .unwrap_err();
    }
    assert_eq!(scene.secret(), "secret");
    assert!(!scene.host.path().join("deeper").exists());
}

#[test]
fn a_link_that_stays_inside_is_followed() {
    let scene = Scene::new();
    scene.write("real", "text").unwrap();
    symlink("real", scene.inside("link")).unwrap();
    assert_eq!(scene.read("link").unwrap(), "text");
}

#[test]
fn a_link_to_a_directory_outside_is_listed_as_a_link_and_not_entered() {
    let scene = Scene::new();
    symlink(scene.host.path(), scene.inside("link")).unwrap();
    assert_eq!(
        scene.listed(""),
        [(OsString::from("link"), FileType::Symlink)]
    );
    assert_eq!(scene.listed("link"), []);
    scene.confined.stat(Path::new("link/secret")).unwrap_err();
}

#[test]
fn what_is_no_plain_file_does_not_block() {
    let scene = Scene::new();
    rustix::fs::mknodat(
        CWD,
        scene.inside("pipe"),
        FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let _listener = UnixListener::bind(scene.inside("socket")).unwrap();
    fs::create_dir(scene.inside("directory")).unwrap();
    for path in ["pipe", "socket", "directory"] {
        scene.read(path).unwrap_err();
        scene.write(path, "x").unwrap_err();
    }
    let kinds = ["directory", "pipe", "socket"]
        .map(OsString::from)
        .into_iter()
        .zip([FileType::Directory, FileType::Fifo, FileType::Socket]);
    assert!(scene.listed("").into_iter().eq(kinds));
}

#[test]
fn removing_and_renaming_act_on_a_link_and_not_on_its_target() {
    let scene = Scene::new();
    symlink("../secret", scene.inside("link")).unwrap();
    scene
        .confined
        .rename(Path::new("link"), Path::new("other"))
        .unwrap();
    scene.confined.remove(Path::new("other")).unwrap();
    assert_eq!(scene.secret(), "secret");
    symlink("..", scene.inside("up")).unwrap();
    scene.confined.remove(Path::new("up/secret")).unwrap_err();
    assert_eq!(scene.secret(), "secret");
}

#[test]
fn a_name_that_is_no_text_is_listed_as_it_is() {
    let scene = Scene::new();
    let name = OsStr::from_bytes(b"\xff\xfe");
    fs::write(scene.host.path().join("workspace").join(name), "x").unwrap();
    assert_eq!(scene.listed(""), [(name.to_owned(), FileType::RegularFile)]);
    assert_eq!(scene.confined.stat(Path::new(name)).unwrap().st_size, 1);
}
