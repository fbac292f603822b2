use super::*;
use rustix::fs::{CWD, FallocateFlags, FileType, Mode, fallocate, mknodat};
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use tempfile::TempDir;

struct Scene {
    tracker: Tracker,
    place: PathBuf,
    _directory: TempDir,
}

impl Scene {
    fn new() -> Scene {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Arc::new(Workspace::fresh(directory.path(), "test").unwrap());
        Scene {
            place: workspace.path().to_owned(),
            tracker: Tracker::new(workspace, &Watcher::new()),
            _directory: directory,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    fn added(&mut self) -> (u64, usize) {
        let Added { bytes, files, .. } = self.tracker.added();
        (bytes, files)
    }
}

/// The queue is never empty then.
#[test]
fn a_look_ends_although_events_come_faster_than_they_are_read() {
    const WRITERS: usize = 4;
    const WRITING: Duration = Duration::from_secs(6);
    let mut scene = Scene::new();
    let end = Instant::now() + WRITING;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let files = ["a", "b"].map(|name| scene.path(&format!("{name}{writer}")));
            let files = files.map(|path| File::create(path).unwrap());
            std::thread::spawn(move || {
                // Two events that are alike and come one after the other are one.
                while Instant::now() < end {
                    for _ in 0..100 {
                        for file in &files {
                            file.write_at(b"x", 0).unwrap();
                        }
                    }
                }
            })
        })
        .collect();
    while Instant::now() + WRITING / 2 < end {
        assert_eq!(scene.added().1, 2 * WRITERS);
    }
    let looked = Instant::now();
    assert!(looked < end, "a look took until nothing was written");
    for writer in writers {
        writer.join().unwrap();
    }
    // Nothing was lost on the way.
    std::fs::write(scene.path("last"), "x").unwrap();
    assert_eq!(scene.added().1, 2 * WRITERS + 1);
}

#[test]
fn blocks_beyond_the_end_of_a_file_count() {
    let mut scene = Scene::new();
    let file = File::create(scene.path("x")).unwrap();
    assert_eq!(scene.added(), (0, 1));
    if fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 10 << 20).is_ok() {
        assert!(scene.added().0 >= 10 << 20);
    }
}

#[test]
fn a_file_without_blocks_counts_in_full() {
    let mut scene = Scene::new();
    let file = File::create(scene.path("x")).unwrap();
    file.set_len(1 << 30).unwrap();
    assert_eq!(scene.added(), (1 << 30, 1));
}

#[test]
fn pipes_are_entries_too() {
    let mut scene = Scene::new();
    for name in ["one", "two"] {
        let path = scene.path(name);
        mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    }
    assert_eq!(scene.added(), (0, 2));
    assert!(!scene.tracker.added().vanished);
    fs::remove_file(scene.path("one")).unwrap();
    assert_eq!(scene.added(), (0, 1));
    // A pipe is no file of a result, but a path that going back looks at.
    let expected = Changes {
        paths: vec!["two".into()],
        ..Changes::default()
    };
    assert_eq!(scene.tracker.changes(), expected);
    assert_eq!(scene.added(), (0, 1));
}

#[test]
fn what_is_put_into_a_new_directory_after_a_look_is_seen_by_the_next() {
    let mut scene = Scene::new();
    fs::create_dir_all(scene.path("a/b")).unwrap();
    let (bytes, files) = scene.added();
    assert_eq!(files, 2);
    fs::write(scene.path("a/b/x"), vec![1; 1 << 20]).unwrap();
    let (more, files) = scene.added();
    assert_eq!((more - bytes >= 1 << 20, files), (true, 3));
    // The end of the cell finds all of it.
    let changes = scene.tracker.changes();
    assert_eq!(changes.files.created.len(), 1);
    assert_eq!(changes.paths.len(), 3);
    assert_eq!(scene.added(), (more, 3));
}

#[test]
fn a_directory_that_was_full_counts_as_large_as_it_is() {
    let mut scene = Scene::new();
    fs::create_dir(scene.path("d")).unwrap();
    let (before, _) = scene.added();
    let name = |number: usize| format!("d/{number:0>200}");
    for number in 0..2000 {
        File::create(scene.path(&name(number))).unwrap();
    }
    scene.added();
    for number in 0..2000 {
        fs::remove_file(scene.path(&name(number))).unwrap();
    }
    use std::os::unix::fs::MetadataExt as _;
    let size = fs::metadata(scene.path("d")).unwrap().blocks() * 512;
    let (after, files) = scene.added();
    assert_eq!((after, files), (size, 1));
    assert!(after >= before);
    scene.tracker.changes();
    assert_eq!(scene.added(), (size, 1));
}

#[test]
fn what_was_there_before_the_session_does_not_count() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("x"), vec![1; 1 << 20]).unwrap();
    let workspace = Arc::new(Workspace::in_user_directory(directory.path()).unwrap());
    let mut tracker = Tracker::new(workspace, &Watcher::new());
    assert_eq!(tracker.added(), Added::default());
    fs::write(directory.path().join("x"), vec![1; 3 << 20]).unwrap();
    assert_eq!(tracker.added().bytes, 2 << 20);
}
