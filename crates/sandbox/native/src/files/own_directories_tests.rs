//! Init acts in the session's own directories, and a path leads from one to the other and nowhere else.

use super::*;
use crate::walls::mounts::open_proc;
use LastLink::{IsFollowed, IsMeant};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{fs, string::String};

/// A workspace and a temporary directory beside something that is neither.
struct Scene {
    top: PathBuf,
    own_directories: &'static OwnDirectories,
}

impl Scene {
    fn new(name: &str, bounds: Bounds) -> Scene {
        let top = std::env::temp_dir().join(std::format!(
            "own_directories-{name}-{}",
            std::process::id()
        ));
        for directory in ["home/d", "tmp", "outside"] {
            fs::create_dir_all(top.join(directory)).unwrap();
        }
        for file in ["home/d/file", "tmp/file", "outside/file"] {
            fs::write(top.join(file), file).unwrap();
        }
        for (link, target) in [
            ("absolute", top.join("home/d/file")),
            ("relative", "d/../d".into()),
            ("circle", "circle".into()),
            ("temporary", top.join("tmp/file")),
            ("outside", top.join("outside/file")),
            ("up", "../outside/file".into()),
            ("process", "/proc/self/comm".into()),
        ] {
            symlink(target, top.join("home").join(link)).unwrap();
        }
        let paths = ["home", "tmp"].map(|name| c_string(&top.join(name)));
        let paths = paths.iter().map(CString::as_c_str);
        let own_directories = OwnDirectories::new(paths, bounds, open_proc().unwrap()).unwrap();
        Scene {
            top,
            own_directories,
        }
    }

    /// What is in the file that a path leads to from here, if init may act on it.
    fn read(&self, start: &str, path: &str, last_link: LastLink) -> Result<String> {
        let start = open(&c_string(&self.top.join(start)), open_flags::PATH, 0).unwrap();
        let found = self
            .own_directories
            .open(start, &c_string(Path::new(path)), last_link);
        close(start);
        let found = found?;
        let outcome = self
            .own_directories
            .check(found, Purpose::Changing)
            .map(|()| {
                fs::read_to_string(std::format!("/proc/self/fd/{found}")).unwrap_or_default()
            });
        close(found);
        outcome
    }

    fn absolute(&self, path: &str) -> String {
        self.top.join(path).to_str().unwrap().into()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.own_directories.close();
        fs::remove_dir_all(&self.top).unwrap();
    }
}

fn c_string(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

#[test]
fn paths_lead_from_place_to_place() {
    // All of it is on one mount, so here nothing but the directories can tell.
    let scene = Scene::new("lead", Bounds::Directories);
    let home = |path: &str| scene.read("home", path, IsFollowed);
    for path in ["d/file", "absolute", "relative/file", "./d/.././d//file"] {
        assert_eq!(home(path).as_deref(), Ok("home/d/file"), "{path}");
    }
    for path in ["temporary", "../tmp/file", "d/../../tmp/file"] {
        assert_eq!(home(path).as_deref(), Ok("tmp/file"), "{path}");
    }
    for path in ["home/d/file", "home//d/file", "outside/../home/d/file"] {
        let path = scene.absolute(path);
        let found = scene.read("outside", &path, IsFollowed);
        assert_eq!(found.as_deref(), Ok("home/d/file"), "{path}");
    }
    assert_eq!(scene.read("home", "absolute", IsMeant).as_deref(), Ok(""));
    assert_eq!(
        scene
            .read("outside", "../home/d/file", IsFollowed)
            .as_deref(),
        Ok("home/d/file")
    );
}

#[test]
fn paths_lead_nowhere_else() {
    for (name, bounds) in [
        ("mounts", Bounds::Mounts),
        ("directories", Bounds::Directories),
    ] {
        let scene = Scene::new(name, bounds);
        let refused = |start: &str, path: &str| {
            let found = scene.read(start, path, IsFollowed);
            // On one mount with the workspace, so as a mount of the session's own it would be one.
            let is_same_mount = bounds == Bounds::Mounts && found.as_deref() == Ok("outside/file");
            assert!(
                found == Err(Errno::ACCES) || is_same_mount,
                "{start} {path} {found:?}"
            );
        };
        for path in ["outside", "up", "process", "/etc/passwd", "../outside/file"] {
            refused("home", path);
        }
        refused("outside", "file");
        refused("home", &scene.absolute("outside/file"));
        refused("home", "/proc/self/comm");
        for directory in ["/proc", "/proc/self", "/proc/self/fd"] {
            for path in ["self/comm", "comm", "1/mem", "0", "..", "."] {
                refused(directory, path);
            }
        }
        assert_eq!(scene.read("home", "circle", IsFollowed), Err(Errno::LOOP));
        assert_eq!(scene.read("home", "d/none", IsFollowed), Err(Errno::NOENT));
    }
}

#[test]
fn a_descriptor_is_judged_by_where_its_file_is() {
    let scene = Scene::new("descriptor", Bounds::Directories);
    let check = |path: &str| {
        let file = open(&c_string(&scene.top.join(path)), open_flags::PATH, 0).unwrap();
        let outcome = scene.own_directories.check(file, Purpose::Changing);
        close(file);
        outcome
    };
    assert_eq!(check("home/d/file"), Ok(()));
    assert_eq!(check("home"), Ok(()));
    assert_eq!(check("tmp/file"), Ok(()));
    assert_eq!(check("outside/file"), Err(Errno::ACCES));
    assert_eq!(check("outside"), Err(Errno::ACCES));
    assert_eq!(check("/proc/self/comm"), Err(Errno::ACCES));
    assert_eq!(check("/dev/null"), Err(Errno::ACCES));
    let nameless = fs::File::create(scene.top.join("home/nameless")).unwrap();
    fs::remove_file(scene.top.join("home/nameless")).unwrap();
    let nameless = std::os::fd::AsRawFd::as_raw_fd(&nameless);
    assert_eq!(
        scene.own_directories.check(nameless, Purpose::Changing),
        Ok(())
    );
    // A name that begins alike is another directory.
    fs::create_dir(scene.top.join("home2")).unwrap();
    assert_eq!(check("home2"), Err(Errno::ACCES));
}

#[test]
fn mounts_of_others_are_closed_but_devices_and_pipes_can_be_opened() {
    let scene = Scene::new("devices", Bounds::Mounts);
    let check = |path: &CStr, purpose| {
        let file = open(path, open_flags::PATH, 0).unwrap();
        let outcome = scene.own_directories.check(file, purpose);
        close(file);
        outcome
    };
    assert_eq!(check(c"/dev/null", Purpose::Opening), Ok(()));
    assert_eq!(check(c"/dev/null", Purpose::Changing), Err(Errno::ACCES));
    for path in [c"/proc/self/comm", c"/proc/self/mem", c"/proc", c"/sys"] {
        assert_eq!(check(path, Purpose::Opening), Err(Errno::ACCES), "{path:?}");
    }
    let (reader, _writer) = std::io::pipe().unwrap();
    let reader = std::os::fd::AsRawFd::as_raw_fd(&reader);
    assert_eq!(
        scene.own_directories.check(reader, Purpose::Opening),
        Ok(())
    );
    assert_eq!(
        scene.own_directories.check(reader, Purpose::Changing),
        Err(Errno::ACCES)
    );
}
