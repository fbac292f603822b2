//! A workspace as hostile code leaves it.

use super::*;
use crate::Budget;
use crate::Closed;
use crate::WalkStep;
use rustix::fs::FileType;
use std::ffi::OsString;
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
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

    /// As a caller of the library has it: links inside are followed.
    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let (path, links) = (Path::new(path), Links::AreFollowedInside);
        let mut file = match self.confined.find(path, links) {
            Ok(found) => found.write()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.confined.create(path, links)?
            }
            Err(error) => return Err(error),
        };
        file.set_len(0)?;
        file.write_all(text.as_bytes())
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
                if let WalkStep::Finds(path, stat) = step {
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
            .make_directories(&Path::new(path).join("deeper"), Links::AreFollowedInside)
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

#[test]
fn a_recorded_path_leads_through_no_link_not_even_to_what_is_inside() {
    let scene = Scene::new();
    scene.write("real/file", "text").unwrap();
    symlink("real", scene.inside("link")).unwrap();
    symlink("real/file", scene.inside("end")).unwrap();
    let (confined, below) = (&scene.confined, Path::new("link/file"));
    let strict = Links::AreNotFollowed;
    confined.find(below, strict).unwrap_err();
    confined.stat(below).unwrap_err();
    confined.remove(below).unwrap_err();
    confined.remove_tree(Path::new("link")).unwrap_err();
    confined
        .make_link(Path::new("link/new"), below)
        .unwrap_err();
    confined.rename(below, Path::new("moved")).unwrap_err();
    confined.rename(Path::new("real/file"), below).unwrap_err();
    confined.create(Path::new("link/new"), strict).unwrap_err();
    confined
        .make_directories(Path::new("link/new"), strict)
        .unwrap_err();
    assert_eq!(scene.listed("link"), []);
    let end = confined.find(Path::new("end"), strict).unwrap();
    assert_eq!(end.read_link().unwrap(), Path::new("real/file"));
    end.read().unwrap_err();
    assert_eq!(scene.read("link/file").unwrap(), "text");
    assert_eq!(fs::read_dir(scene.inside("real")).unwrap().count(), 1);
}

#[test]
fn what_was_found_stays_the_same_file_whatever_becomes_of_its_name() {
    let scene = Scene::new();
    scene.write("file", "text").unwrap();
    let path = Path::new("file");
    let found = scene.confined.find(path, Links::AreNotFollowed).unwrap();
    fs::rename(scene.inside("file"), scene.inside("moved")).unwrap();
    symlink("../secret", scene.inside("file")).unwrap();
    found.write().unwrap().write_all(b"T").unwrap();
    let access = Access {
        mode: 0o6750,
        ..Access::of(found.stat())
    };
    found.set_access(access).unwrap();
    found.link_out(&scene.host.path().join("kept")).unwrap();
    assert_eq!(scene.secret(), "secret");
    let kept = fs::metadata(scene.host.path().join("kept")).unwrap();
    assert_eq!(scene.read("moved").unwrap(), "Text");
    // The bits that make a program run as its owner are not set.
    assert_eq!(
        (kept.ino(), kept.mode() & 0o7777),
        (found.stat().st_ino, 0o750)
    );
}

#[test]
fn nothing_that_is_there_is_renamed_over() {
    let scene = Scene::new();
    scene.write("one", "1").unwrap();
    scene.write("two", "2").unwrap();
    let [one, two] = ["one", "two"].map(Path::new);
    scene.confined.rename(one, two).unwrap_err();
    assert_eq!(scene.read("two").unwrap(), "2");
}

#[test]
fn whether_a_directory_can_be_written_is_tried_without_a_name() {
    let scene = Scene::new();
    scene.confined.check_writable().unwrap();
    assert_eq!(scene.listed(""), []);
    if !geteuid().is_root() {
        fs::set_permissions(scene.inside(""), fs::Permissions::from_mode(0o500)).unwrap();
        let error = scene.confined.check_writable().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}

#[test]
fn a_part_of_a_real_path_that_became_a_link_is_refused() {
    let scene = Scene::new();
    let real = scene.inside("").canonicalize().unwrap();
    Confined::open_real(&real).unwrap();
    fs::rename(&real, real.with_file_name("moved")).unwrap();
    symlink("moved", real.with_file_name("workspace")).unwrap();
    Confined::open_real(&real).unwrap_err();
}

/// Code of the session exchanges the names all the time: what root has just made, and what was there and is closed to code.
#[test]
fn a_directory_of_another_user_is_not_given_away_when_names_are_exchanged() {
    use rustix::fs::RenameFlags;
    const USER: u32 = 4711;
    const ROUNDS: usize = 20_000;
    if !geteuid().is_root() {
        eprintln!("skipped: only root gives files to others");
        return;
    }
    let scene = Scene::new();
    scene.confined.give_to(USER, USER).unwrap();
    let (closed, new) = (scene.inside("closed"), scene.inside("new"));
    fs::create_dir(&closed).unwrap();
    fs::write(closed.join("file"), "precious").unwrap();
    let secret = fs::File::open(&closed).unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let over = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(over) {
                let _ = renameat_with(CWD, &closed, CWD, &new, RenameFlags::EXCHANGE);
            }
        });
        for _ in 0..ROUNDS {
            let _ = scene
                .confined
                .make_directories(Path::new("new"), Links::AreNotFollowed);
            // One of the two is empty.
            let _ = fs::remove_dir(&new).or_else(|_| fs::remove_dir(&closed));
            if secret.metadata().unwrap().uid() == USER {
                break;
            }
        }
        is_over.store(true, over);
    });
    assert_eq!(secret.metadata().unwrap().uid(), 0);
    let made = scene
        .confined
        .make_directories(Path::new("a/b"), Links::AreNotFollowed);
    made.unwrap();
    assert_eq!(fs::metadata(scene.inside("a/b")).unwrap().uid(), USER);
}

#[test]
fn an_absolute_link_is_followed_below_the_name_that_code_knows_and_nowhere_else() {
    let scene = Scene::new();
    fs::create_dir(scene.inside("real")).unwrap();
    fs::write(scene.inside("real/file"), "text").unwrap();
    symlink("/place/real", scene.inside("inside")).unwrap();
    symlink("/place/../place/real", scene.inside("around")).unwrap();
    symlink(scene.host.path(), scene.inside("outside")).unwrap();
    symlink("/place/loop", scene.inside("loop")).unwrap();
    assert!(scene.read("inside/file").is_err());

    scene.confined.set_name(Path::new("/place"));
    assert_eq!(scene.read("inside/file").unwrap(), "text");
    for refused in ["outside/secret", "loop", "around/file"] {
        assert!(scene.read(refused).is_err(), "{refused}");
    }
    assert!(scene.write("outside/secret", "changed").is_err());
    assert_eq!(scene.secret(), "secret");
}

#[test]
fn a_way_through_absolute_links_that_is_too_long_is_refused() {
    let scene = Scene::new();
    scene.confined.set_name(Path::new("/place"));
    let deep = vec!["d"; 200].join("/");
    fs::create_dir_all(scene.inside(&deep)).unwrap();
    for number in 0..30 {
        let next = format!("/place/{deep}/link{}", number + 1);
        let place = match number {
            0 => "link0".to_owned(),
            number => format!("{deep}/link{number}"),
        };
        symlink(next, scene.inside(&place)).unwrap();
    }
    fs::write(scene.inside(&format!("{deep}/link30")), "text").unwrap();
    assert_eq!(scene.read(&format!("{deep}/link29")).unwrap(), "text");
    let error = scene.read("link0").unwrap_err();
    assert_eq!(
        error.raw_os_error(),
        Some(Errno::NAMETOOLONG.raw_os_error())
    );
}
