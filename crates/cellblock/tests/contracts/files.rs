//! D7 and the files of a result: the workspace, what is in it, what a cell did to it, and that nothing leads out.

use crate::support::{Python, builder, open, session, wait};
use cellblock::{FileChange, FileChanges, Rung, mime_of};
use std::fs;

fn changes(created: &[(&str, u64)], changed: &[(&str, u64)], deleted: &[(&str, u64)]) -> FileChanges {
    let list = |files: &[(&str, u64)]| {
        let change = |(path, bytes): &(&str, u64)| FileChange { path: (*path).into(), bytes: *bytes, mime: mime_of(path).into() };
        files.iter().map(change).collect()
    };
    FileChanges { created: list(created), changed: list(changed), deleted: list(deleted) }
}

fn put(session: &Python, path: &str, contents: &[u8]) {
    wait(session.put_file(path, contents.to_vec())).unwrap();
}

fn get(session: &Python, path: &str) -> Result<Vec<u8>, String> {
    wait(session.get_file(path)).map_err(|error| error.to_string())
}

mod workspace {
    use super::*;

    #[test]
    fn d7_the_working_directory_is_the_workspace() {
        let session = session();
        let expected = match session.rung() {
            Rung::Full => "/workspace".into(),
            _ => session.workspace().display().to_string(),
        };
        assert_eq!(session.stdout("import os\nprint(os.getcwd(), end='', flush=True)"), expected);
    }

    #[test]
    fn d7_host_and_cells_see_the_same_files() {
        let session = session();
        session.good("open('from_the_cell.txt', 'w').write('cell')");
        assert_eq!(fs::read(session.workspace().join("from_the_cell.txt")).unwrap(), b"cell");
        fs::write(session.workspace().join("from_the_host.txt"), "host").unwrap();
        assert_eq!(session.value("open('from_the_host.txt').read()"), "'host'");
    }

    #[test]
    fn d7_a_directory_of_the_users_is_used_and_stays_as_it_was_left() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("given.txt"), "given").unwrap();
        let session = open(builder().workspace(directory.path()));
        assert_eq!(session.workspace(), directory.path().canonicalize().unwrap());
        assert_eq!(session.value("text = open('given.txt').read()\nopen('made.txt', 'w').write(text * 2)\ntext"), "'given'");
        wait(session.close());
        assert_eq!(fs::read_to_string(directory.path().join("made.txt")).unwrap(), "givengiven");
        fs::remove_file(directory.path().join("made.txt")).expect("it belongs to the user who runs this test");
    }

    #[test]
    fn d7_a_fresh_workspace_survives_its_session_unless_it_is_empty() {
        let (kept, empty) = (session(), session());
        kept.good("open('answer.txt', 'w').write('42')");
        let (kept_path, empty_path) = (kept.workspace().to_owned(), empty.workspace().to_owned());
        wait(kept.close());
        wait(empty.close());
        drop((kept, empty));
        assert_eq!(fs::read_to_string(kept_path.join("answer.txt")).unwrap(), "42");
        crate::support::eventually("the empty workspace is gone", || !empty_path.exists());
        fs::remove_dir_all(kept_path).unwrap();
    }

    #[test]
    fn d7_two_sessions_have_two_workspaces() {
        let (one, other) = (session(), session());
        one.good("open('mine.txt', 'w').write('1')");
        assert_eq!(other.value("import os\nos.listdir()"), "[]");
    }

    #[test]
    fn d7_the_same_name_twice_is_two_workspaces() {
        let (one, other) = (open(builder().name("twin")), open(builder().name("twin")));
        assert_ne!(one.workspace(), other.workspace());
    }

    #[test]
    fn a_module_in_the_workspace_can_be_imported() {
        let session = session();
        put(&session, "helper.py", b"def f():\n    return 1/0\n");
        let error = session.run("import helper\nhelper.f()").error.unwrap();
        assert_eq!(error.repr, "ZeroDivisionError('division by zero')");
        let frames: Vec<_> = error.frames.iter().map(|frame| (frame.function.as_str(), frame.source.as_str())).collect();
        assert_eq!(frames, [("<module>", "helper.f()"), ("f", "return 1/0")]);
    }

    #[test]
    fn the_temporary_directory_is_the_sessions_own() {
        let (one, other) = (session(), session());
        assert_eq!(one.value("import os, tempfile\nopen('/tmp/secret', 'w').write('x')\nos.path.dirname(tempfile.mkdtemp())"), "'/tmp'");
        assert_eq!(other.value("import os\nos.path.exists('/tmp/secret')"), "False");
        assert!(!std::path::Path::new("/tmp/secret").exists());
        assert!(one.good("open('/tmp/more', 'w').write('x')").files.is_empty(), "it is no file of the workspace");
    }
}

mod from_the_host {
    use super::*;

    #[test]
    fn files_go_in_and_out() {
        let session = session();
        let every_byte: Vec<u8> = (0..=255).cycle().take(5_000_000).collect();
        put(&session, "in/deep/data.bin", &every_byte);
        assert_eq!(session.value("data = open('in/deep/data.bin', 'rb').read()\nlen(data), data[:256] == bytes(range(256))"), "(5000000, True)");
        session.good("open('in/out.bin', 'wb').write(data[::-1])");
        assert!(get(&session, "in/out.bin").unwrap().iter().eq(every_byte.iter().rev()));
    }

    #[test]
    fn putting_a_file_replaces_the_one_that_was_there() {
        let session = session();
        put(&session, "a.txt", b"a long text");
        put(&session, "a.txt", b"short");
        assert_eq!(session.value("open('a.txt').read()"), "'short'");
        session.good("open('a.txt', 'a').write(' and longer')");
        assert_eq!(get(&session, "a.txt").unwrap(), b"short and longer");
    }

    #[test]
    fn files_are_listed_with_size_type_and_time() {
        let session = session();
        put(&session, "b/table.csv", b"1,2");
        session.good("import os\nopen('a.png', 'wb').write(b'png')\nos.mkdir('empty')\nos.symlink('a.png', 'link.png')\nos.mkfifo('pipe')");
        let files = wait(session.list_files()).unwrap();
        let listed: Vec<_> = files.iter().map(|file| (file.path.as_str(), file.bytes, file.mime.as_str())).collect();
        assert_eq!(listed, [("a.png", 3, "image/png"), ("b/table.csv", 3, "text/csv")]);
        assert!(files.iter().all(|file| file.modified.is_some_and(|time| time > 1.6e9)));
    }

    #[test]
    fn a_file_that_is_not_there_is_a_clear_error() {
        let session = session();
        session.good("import os\nos.mkdir('directory')");
        assert_eq!(get(&session, "none.txt").unwrap_err(), "the file `none.txt` in the workspace: No such file or directory (os error 2)");
        let error = wait(session.get_file("directory")).unwrap_err();
        assert_eq!(error.code(), "file");
    }

    #[test]
    fn odd_names_are_names_too() {
        let session = session();
        for name in ["a b.txt", "new\nline.txt", "世界.txt", "-rf", "..dots", "quote'\".txt"] {
            put(&session, name, b"x");
            assert_eq!(get(&session, name).unwrap(), b"x");
        }
        assert_eq!(wait(session.list_files()).unwrap().len(), 6);
    }

    #[test]
    fn a_name_that_is_no_utf_8_does_no_harm() {
        let session = session();
        let result = session.good("open(b'bad\\xff.txt', 'w').write('x')\nopen('good.txt', 'w').write('y')");
        let paths: Vec<_> = result.files.created.into_iter().map(|file| file.path).collect();
        assert_eq!(paths, ["bad\u{fffd}.txt", "good.txt"]);
        assert_eq!(wait(session.list_files()).unwrap().len(), 2);
    }

    #[test]
    fn what_the_host_changes_between_cells_is_not_the_next_cells_doing() {
        let session = session();
        session.good("open('a.txt', 'w').write('a')");
        put(&session, "b.txt", b"b");
        fs::write(session.workspace().join("a.txt"), "changed").unwrap();
        assert!(session.good("open('a.txt').read()").files.is_empty());
        assert_eq!(session.good("open('b.txt', 'a').write('!')").files, changes(&[], &[("b.txt", 2)], &[]));
    }
}

mod confined {
    use super::*;

    fn refused(session: &Python, path: &str) {
        let read = wait(session.get_file(path)).unwrap_err();
        let written = wait(session.put_file(path, b"x".to_vec())).unwrap_err();
        assert_eq!((read.code(), written.code()), ("file", "file"), "{path:?}");
    }

    #[test]
    fn no_path_leads_out_of_the_workspace() {
        let session = session();
        put(&session, "sub/a.txt", b"a");
        for path in ["/etc/passwd", "../x", "sub/../../x", "..", "", ".", "/", "sub", "a\0b", "sub/a.txt/x", "/workspace/sub/a.txt/../../../x"] {
            refused(&session, path);
        }
        let too_long = "x/".repeat(3000) + "x";
        refused(&session, &too_long);
    }

    #[test]
    fn no_link_leads_out_of_the_workspace() {
        let canary = tempfile::tempdir().unwrap();
        fs::write(canary.path().join("secret"), "secret").unwrap();
        let session = session();
        session.good(&format!(
            "import os\nos.symlink({0:?} + '/secret', 'file')\nos.symlink({0:?}, 'directory')\nos.symlink('/proc/self/root/etc', 'magic')\nos.symlink('loop', 'loop')\nos.symlink('..', 'up')",
            canary.path()
        ));
        for path in ["file", "directory/secret", "directory/new", "magic/passwd", "loop", "up/x"] {
            refused(&session, path);
        }
        assert_eq!(wait(session.list_files()).unwrap(), []);
        assert_eq!(fs::read_to_string(canary.path().join("secret")).unwrap(), "secret");
        assert!(!canary.path().join("new").exists());
    }

    #[test]
    fn a_pipe_or_a_socket_in_the_workspace_does_not_hold_the_host_up() {
        let session = session();
        session.good("import os, socket\nos.mkfifo('pipe')\nserver = socket.socket(socket.AF_UNIX)\nserver.bind('socket')");
        for path in ["pipe", "socket"] {
            let reading = async { tokio::time::timeout(crate::support::MINUTE, session.get_file(path)).await };
            assert_eq!(wait(reading).expect("it waits for ever").unwrap_err().code(), "file", "{path}");
            let writing = async { tokio::time::timeout(crate::support::MINUTE, session.put_file(path, vec![1])).await };
            assert_eq!(wait(writing).expect("it waits for ever").unwrap_err().code(), "file", "{path}");
        }
    }

    #[test]
    fn the_error_says_that_a_link_leads_out() {
        let session = session();
        session.good("import os\nos.symlink('/etc/passwd', 'link')");
        assert_eq!(get(&session, "link").unwrap_err(), "the file `link` in the workspace: it leads out of the workspace");
    }
}

mod differences {
    use super::*;

    #[test]
    fn created_changed_and_deleted_files_are_told_apart() {
        let session = session();
        let made = session.good("for name in ('a.txt', 'b.txt', 'c.txt'): open(name, 'w').write(name)").files;
        assert_eq!(made, changes(&[("a.txt", 5), ("b.txt", 5), ("c.txt", 5)], &[], &[]));
        let worked = session.good("import os\nopen('a.txt', 'a').write('!')\nos.remove('b.txt')\nopen('d.json', 'w').write('{}')").files;
        assert_eq!(worked, changes(&[("d.json", 2)], &[("a.txt", 6)], &[("b.txt", 5)]));
        assert!(session.good("open('c.txt').read(), os.listdir()").files.is_empty());
    }

    #[test]
    fn files_in_directories_that_the_cell_makes_are_seen() {
        let session = session();
        let made = session.good("import os\nos.makedirs('a/b/c')\nopen('a/b/c/deep.txt', 'w').write('x')\nopen('a/top.txt', 'w').write('y')").files;
        assert_eq!(made, changes(&[("a/b/c/deep.txt", 1), ("a/top.txt", 1)], &[], &[]));
        assert_eq!(session.good("open('a/b/c/deep.txt', 'a').write('x')").files, changes(&[], &[("a/b/c/deep.txt", 2)], &[]));
        let gone = session.good("import shutil\nshutil.rmtree('a')").files;
        assert_eq!(gone, changes(&[], &[], &[("a/b/c/deep.txt", 2), ("a/top.txt", 1)]));
    }

    #[test]
    fn files_that_were_there_before_the_session_are_known() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("sub")).unwrap();
        fs::write(directory.path().join("sub/old.txt"), "old").unwrap();
        fs::write(directory.path().join("other.txt"), "other").unwrap();
        let session = open(builder().workspace(directory.path()));
        let changed = session.good("import os\nopen('sub/old.txt', 'w').write('newer')\nos.remove('other.txt')").files;
        assert_eq!(changed, changes(&[], &[("sub/old.txt", 5)], &[("other.txt", 5)]));
    }

    #[test]
    fn a_renamed_file_is_gone_here_and_new_there() {
        let session = session();
        session.good("import os\nopen('a.txt', 'w').write('abc')");
        assert_eq!(session.good("os.rename('a.txt', 'b.txt')").files, changes(&[("b.txt", 3)], &[], &[("a.txt", 3)]));
    }

    #[test]
    fn a_renamed_directory_takes_its_files_with_it() {
        let session = session();
        session.good("import os\nos.makedirs('old/sub')\nopen('old/sub/a.txt', 'w').write('abc')");
        let moved = session.good("os.rename('old', 'new')").files;
        assert_eq!(moved, changes(&[("new/sub/a.txt", 3)], &[], &[("old/sub/a.txt", 3)]));
        assert_eq!(session.good("open('new/sub/a.txt', 'a').write('!')").files, changes(&[], &[("new/sub/a.txt", 4)], &[]));
        assert_eq!(session.good("open('new/b.txt', 'w').write('b')").files, changes(&[("new/b.txt", 1)], &[], &[]));
    }

    #[test]
    fn a_name_that_begins_like_a_directory_that_is_gone_stays() {
        let session = session();
        session.good("import os, shutil\nos.mkdir('a')\nopen('a/x', 'w').write('1')\nopen('a-b', 'w').write('2')\nopen('ab', 'w').write('3')");
        assert_eq!(session.good("shutil.rmtree('a')").files, changes(&[], &[], &[("a/x", 1)]));
    }

    #[test]
    fn a_write_through_a_map_is_seen() {
        let session = session();
        session.good("import mmap\nfile = open('mapped.bin', 'w+b')\nfile.write(bytes(8192))\nfile.flush()\nview = mmap.mmap(file.fileno(), 8192)");
        assert_eq!(session.good("view[0] = 1\nview.flush()").files, changes(&[], &[("mapped.bin", 8192)], &[]));
        assert_eq!(session.good("view[4096] = 2").files, changes(&[], &[("mapped.bin", 8192)], &[]));
    }

    #[test]
    fn a_file_that_comes_and_goes_within_a_cell_is_not_told() {
        let session = session();
        assert!(session.good("import os\nopen('x', 'w').write('x')\nos.remove('x')").files.is_empty());
        session.good("open('y', 'w').write('y')");
        let replaced = session.good("os.remove('y')\nopen('y', 'w').write('new')").files;
        assert_eq!(replaced, changes(&[], &[("y", 3)], &[]));
    }

    #[test]
    fn a_cell_that_fails_or_dies_tells_what_it_did_to_files() {
        let session = session();
        let failed = session.run("open('a.txt', 'w').write('a')\n1/0");
        assert_eq!(failed.files, changes(&[("a.txt", 1)], &[], &[]));
    }

    #[test]
    fn what_a_child_process_writes_is_the_cells_doing() {
        let session = session();
        let made = session.good("import subprocess\nsubprocess.run('echo hello > from_the_shell.txt', shell=True).returncode").files;
        assert_eq!(made, changes(&[("from_the_shell.txt", 6)], &[], &[]));
    }

    #[test]
    fn thousands_of_files_at_once_are_all_told() {
        let session = session();
        let made = session.good("import os\nfor d in range(50):\n    os.mkdir(f'd{d}')\n    for f in range(100): open(f'd{d}/f{f}', 'w').close()").files;
        assert_eq!((made.created.len(), made.changed.len(), made.deleted.len()), (5000, 0, 0));
        let gone = session.good("import shutil\nfor d in range(50): shutil.rmtree(f'd{d}')").files;
        assert_eq!(gone.deleted.len(), 5000);
    }
}
