//! Bad input and bad luck: each gets a clear error or status, and nothing is lost.

use crate::support::{builder, is_root, open, refusal, session, tool, wait};
use cellblock::{Cell, Error, Host, Limits, Preload, Session, SessionOptions, Status};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a program and what a person is told.
fn words(error: Error) -> (&'static str, String) {
    (error.code(), error.to_string())
}

mod code {
    use super::*;

    #[test]
    fn nul_bytes_are_a_syntax_error_and_the_session_lives() {
        let session = session();
        for code in ["x = 1\0", "\0", "'a\0b'", "# \0\nx = 1"] {
            let result = session.run(code);
            assert_eq!((result.status, result.error.unwrap().type_.as_str()), (Status::Failure, "SyntaxError"), "{code:?}");
        }
        assert_eq!(session.value("'x' in globals()"), "False");
    }

    #[test]
    fn ten_megabytes_of_code_run() {
        let text = format!("x = '{}'\n{}len(x)", "a".repeat(5_000_000), "# nothing\n".repeat(500_000));
        assert_eq!(session().value(&text), "5000000");
    }

    #[test]
    fn ten_megabytes_of_nonsense_are_a_syntax_error() {
        let session = session();
        for code in ["(".repeat(10_000_000), "%&".repeat(5_000_000), format!("x = {}", "[".repeat(10_000_000))] {
            let result = session.run(Cell::new(code).timeout(60.0));
            assert_eq!((result.status, result.error.unwrap().type_.as_str()), (Status::Failure, "SyntaxError"));
        }
        assert_eq!(session.value("1"), "1");
    }

    #[test]
    fn deeply_nested_code_is_a_failure_and_no_crash() {
        let session = session();
        for code in [format!("{}1{}", "(".repeat(5000), ")".repeat(5000)), format!("{}1", "-".repeat(100_000)), format!("x{}", ".a".repeat(100_000)), format!("1{}", " + 1".repeat(100_000))] {
            let result = session.run(code.as_str());
            assert_eq!(result.status, Status::Failure, "{}…", &code[..20]);
        }
        assert_eq!(session.value("1"), "1");
    }

    #[test]
    fn code_over_the_limit_is_refused_before_anything_runs() {
        let session = session();
        let error = session.attempt("#".repeat(16_000_001)).unwrap_err();
        assert_eq!(
            (error.code(), error.to_string().as_str()),
            ("invalid", "`code`: expected at most 16000000 bytes, got 16000001 bytes")
        );
        assert_eq!(session.run("1").cell, 1);
    }

    #[test]
    fn line_ends_of_other_systems_are_line_ends() {
        assert_eq!(session().value("x = 1\r\nif x:\r\n    y = 2\r\ny"), "2");
    }

    #[test]
    fn a_file_that_is_no_utf_8_is_a_syntax_error_of_the_import() {
        let session = session();
        wait(session.put_file("latin.py", b"x = '\xe9\xff'\n".to_vec())).unwrap();
        let result = session.run("import sys\nsys.path.insert(0, '.')\nimport latin");
        assert_eq!((result.status, result.error.unwrap().type_.as_str()), (Status::Failure, "SyntaxError"));
        let result = session.run("open('latin.py').read()");
        assert_eq!((result.status, result.error.unwrap().type_.as_str()), (Status::Failure, "UnicodeDecodeError"));
    }
}

mod options {
    use super::*;

    #[test]
    fn an_absurd_limit_is_refused_and_named() {
        let good = Limits::default();
        let zero = std::time::Duration::ZERO;
        let bad = [
            (Limits { memory: 0, ..good.clone() }, "`limits.memory`: expected 33554432 to 17592186044416 bytes, got 0"),
            (Limits { memory: u64::MAX, ..good.clone() }, "`limits.memory`: expected 33554432 to 17592186044416 bytes, got 18446744073709551615"),
            (Limits { wall: zero, ..good.clone() }, "`limits.wall`: expected a positive number of seconds, at most 604800 (7 days), got 0"),
            (Limits { idle: zero, ..good.clone() }, "`limits.idle`: expected a positive number of seconds, at most 604800 (7 days), got 0"),
            (Limits { processes: 0, ..good.clone() }, "`limits.processes`: expected 1 to 65536, got 0"),
            (Limits { processes: u64::MAX, ..good.clone() }, "`limits.processes`: expected 1 to 65536, got 18446744073709551615"),
            (Limits { open_files: 1, ..good.clone() }, "`limits.open_files`: expected 16 to 1048576, got 1"),
            (Limits { disk: 0, ..good.clone() }, "`limits.disk`: expected 1 to 17592186044416 bytes, got 0"),
            (Limits { output_kept: 0, ..good.clone() }, "`limits.output_kept`: expected 1 to 268435456 bytes, got 0"),
            (Limits { output_spilled: 0, ..good.clone() }, "`limits.output_spilled`: expected 1 to 17592186044416 bytes, got 0"),
            (Limits { checkpoints: 0, ..good.clone() }, "`limits.checkpoints`: expected 1 to 1000, got 0"),
        ];
        for (limits, message) in bad {
            assert_eq!(words(refusal(builder().limits(limits))), ("invalid", message.to_owned()));
        }
    }

    #[test]
    fn a_negative_limit_is_refused_where_options_come_as_json() {
        for (json, message) in [
            (json!({"limits": {"memory": -1}}), "`limits.memory`: expected a positive number of bytes, or a text such as \"512MB\" or \"2GiB\", got -1"),
            (json!({"limits": {"wall": -0.5}}), "`limits.wall`: expected a positive number of seconds, at most 604800 (7 days), got -0.5"),
            (json!({"limits": {"processes": 2.5}}), "`limits.processes`: expected a positive whole number, got 2.5"),
            (json!({"limit": {}}), "unknown field `limit`; the fields are session, workspace, env, strategy, atomic, arming, isolation, limits, imports, seed, setup"),
        ] {
            assert_eq!(serde_json::from_value::<SessionOptions>(json).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn the_smallest_limits_still_give_a_session() {
        let limits = Limits { memory: 32 << 20, processes: 1, open_files: 16, disk: 1, output_kept: 1, output_spilled: 1, checkpoints: 1, ..Limits::default() };
        let result = open(builder().limits(limits)).run("print('ab')\n1 + 1");
        assert_eq!((result.status, result.stdout.as_str()), (Status::Success, "a"));
    }

    #[test]
    fn the_largest_limits_still_give_a_session() {
        let limits = Limits { memory: 16 << 40, processes: 65_536, open_files: 1 << 20, disk: 16 << 40, output_kept: 256 << 20, output_spilled: 16 << 40, checkpoints: 1000, ..Limits::default() };
        assert_eq!(open(builder().limits(limits)).value("1 + 1"), "2");
    }

    #[test]
    fn a_name_that_is_no_name_is_refused() {
        let expected = "`session`: expected 1 to 64 of the characters A-Z a-z 0-9 . _ -, not starting with a dot, got ";
        for name in ["", "a/b", "..", "a b", "é", "a\0"] {
            assert_eq!(words(refusal(builder().name(name))), ("invalid", format!("{expected}{name:?}")));
        }
    }

    #[test]
    fn a_seed_that_cannot_be_a_variable_is_refused() {
        for (name, message) in [
            ("no name", "`seed`: expected names that are Python identifiers, got \"no name\""),
            ("1st", "`seed`: expected names that are Python identifiers, got \"1st\""),
            ("class", "`seed`: expected names that are not Python keywords, got \"class\""),
        ] {
            assert_eq!(words(refusal(builder().variable(name, 1))), ("invalid", message.to_owned()));
        }
        let message = "`seed.blob`: expected `{\"$bytes\": base64}` with valid, padded base64, got something else";
        assert_eq!(words(refusal(builder().variable("blob", json!({"$bytes": "!"})))), ("invalid", message.to_owned()));
        let error = refusal(builder().variable("__builtins__", json!({})));
        assert!(error.to_string().contains("__builtins__"), "{error}");
    }

    #[test]
    fn an_import_that_is_none_is_refused() {
        let expected = "`imports`: expected a module such as \"math\", \"numpy as np\" or \"from x import y\", got ";
        for import in ["", "math; print(1)", "from x", "a b", "import", "math as"] {
            assert_eq!(words(refusal(builder().import(import))), ("invalid", format!("{expected}{import:?}")));
        }
    }

    #[test]
    fn an_import_that_is_not_installed_is_an_error_that_names_it() {
        let (code, message) = words(refusal(builder().import("no_such_module")));
        assert_eq!(code, "refused");
        assert!(message.contains("No module named 'no_such_module'"), "{message}");
    }

    #[test]
    fn setup_code_that_fails_is_an_error_with_its_traceback() {
        assert_eq!(
            words(refusal(builder().setup("x = 1\n1/0"))),
            (
                "refused",
                "the setup code ended with failure:\nTraceback (most recent call last):\n  File \"<cell 0>\", line 2, in <module>\n    1/0\nZeroDivisionError: division by zero\n".to_owned()
            )
        );
        assert_eq!(words(refusal(builder().setup("import os\nos._exit(1)"))).0, "refused");
    }

    #[test]
    fn a_tool_that_cannot_be_a_function_is_refused() {
        let session = session();
        let error = wait(session.set_tools(vec![tool("no name", "", &[])])).unwrap_err();
        assert_eq!((error.code(), error.to_string().as_str()), ("invalid", "`name`: expected 1 to 64 letters, digits, `_`, `-` or `.`, got \"no name\""));
        let error = wait(session.set_tools(vec![tool("a-b", "", &[]), tool("a_b", "", &[])])).unwrap_err();
        assert_eq!((error.code(), error.to_string().as_str()), ("refused", "two tools would both be called 'a_b' in Python"));
    }

    #[test]
    fn looking_for_what_is_not_there_is_an_error_that_names_it() {
        let session = session();
        let error = wait(session.inspect("nothing")).unwrap_err();
        assert_eq!((error.code(), error.to_string().as_str()), ("refused", "there is no variable 'nothing' in this session"));
        let error = wait(session.read_output(7, cellblock::Stream::Stdout, 0, 10)).unwrap_err();
        assert_eq!(error.code(), "not_found");
        assert!(error.to_string().contains("cell 7"), "{error}");
    }
}

mod workspaces {
    use super::*;

    fn refused(path: &Path, problem: &str) {
        let message = format!("the workspace {} cannot be used: {problem}", path.display());
        assert_eq!(words(refusal(builder().workspace(path))), ("workspace", message));
    }

    #[test]
    fn one_that_does_not_exist_is_refused() {
        refused(Path::new("/nowhere/at/all"), "it does not exist; create it first");
    }

    #[test]
    fn one_that_is_a_file_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        refused(file.path(), "it is not a directory");
    }

    #[test]
    fn the_root_directory_is_refused() {
        refused(Path::new("/"), "the root directory is no workspace");
    }

    #[test]
    fn one_that_this_user_cannot_write_is_refused() {
        if is_root() {
            return println!("skipped: root can write everywhere; the test with a read-only file system stands for it");
        }
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o555)).unwrap();
        refused(directory.path(), "it cannot be written by this user");
    }

    /// A file system of its own, for root; it goes with the test.
    struct Mount(tempfile::TempDir);

    impl Mount {
        fn new(options: &str) -> Option<Mount> {
            if !is_root() {
                println!("skipped: only root can mount a file system");
                return None;
            }
            let directory = tempfile::tempdir().unwrap();
            let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(directory.path()).status();
            if !mounted.is_ok_and(|status| status.success()) {
                println!("skipped: this root cannot mount a file system");
                return None;
            }
            Some(Mount(directory))
        }

        fn path(&self) -> &Path {
            self.0.path()
        }
    }

    impl Drop for Mount {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg("-l").arg(self.path()).status();
        }
    }

    #[test]
    fn one_on_a_read_only_file_system_is_refused() {
        let Some(mount) = Mount::new("ro") else { return };
        refused(mount.path(), "it is on a read-only file system");
    }

    #[test]
    fn one_on_a_full_disk_is_refused() {
        let Some(mount) = Mount::new("size=64k") else { return };
        let _ = fs::write(mount.path().join("full"), vec![1; 1 << 20]);
        refused(mount.path(), "its disk is full");
    }

    #[test]
    fn a_disk_that_becomes_full_is_an_exception_and_the_session_lives() {
        let Some(mount) = Mount::new("size=1m,mode=777") else { return };
        let session = open(builder().workspace(mount.path()));
        assert_eq!(session.exception("open('big', 'wb').write(bytes(4 << 20))"), "OSError(28, 'No space left on device')");
        let error = wait(session.put_file("more", vec![1; 4 << 20])).unwrap_err();
        assert_eq!(error.code(), "file");
        assert_eq!(session.value("import os\nos.remove('big')\nopen('small', 'w').write('fits')"), "4");
    }

    #[test]
    fn one_that_is_deleted_under_the_session_does_no_harm() {
        let directory = tempfile::tempdir().unwrap();
        let session = open(builder().workspace(directory.path()));
        session.good("x = 1");
        drop(directory);
        assert_eq!(session.value("x"), "1");
        assert_eq!(session.run("open('a', 'w')").status, Status::Failure);
        assert_eq!(wait(session.list_files()).unwrap(), []);
    }
}

mod pythons {
    use super::*;

    /// A little script that plays an interpreter.
    struct Fake {
        directory: tempfile::TempDir,
    }

    impl Fake {
        fn new(script: &str) -> Fake {
            let fake = Fake { directory: tempfile::tempdir().unwrap() };
            fs::write(fake.path(), format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(fake.path(), fs::Permissions::from_mode(0o755)).unwrap();
            fake
        }

        fn path(&self) -> PathBuf {
            self.directory.path().join("python3")
        }
    }

    /// Why this Python cannot be used, and what to do about it.
    fn refused(path: &Path) -> (&'static str, String) {
        let error = Host::builder().interpreter(path).build().unwrap_err();
        assert!(error.hint().is_some(), "{error}");
        words(error)
    }

    fn sentence(path: &Path, problem: &str) -> (&'static str, String) {
        ("python", format!("the Python that was asked for cannot be used: {}: {problem}", path.display()))
    }

    #[test]
    fn none_at_all() {
        let path = Path::new("/nowhere/python3");
        assert_eq!(refused(path), sentence(path, "there is no such file"));
    }

    #[test]
    fn a_directory() {
        assert_eq!(refused(Path::new("/usr")), sentence(Path::new("/usr"), "it is a directory, not an executable"));
    }

    #[test]
    fn one_that_is_too_old() {
        let fake = Fake::new(r#"echo '{"version": [3, 8, 10], "implementation": "cpython"}'"#);
        assert_eq!(refused(&fake.path()), sentence(&fake.path(), "3.8.10 is too old, 3.10 or newer is needed"));
    }

    #[test]
    fn one_that_fails_to_start() {
        let fake = Fake::new("echo 'libpython3.so: cannot open shared object file' >&2\nexit 127");
        let (code, message) = refused(&fake.path());
        assert_eq!(code, "python");
        assert!(message.contains("did not start") && message.contains("cannot open shared object file"), "{message}");
    }

    #[test]
    fn one_that_may_not_be_executed() {
        let fake = Fake::new("exit 0");
        fs::set_permissions(fake.path(), fs::Permissions::from_mode(0o000)).unwrap();
        let (code, message) = refused(&fake.path());
        assert_eq!(code, "python");
        assert!(message.contains("permission denied"), "{message}");
    }

    #[test]
    fn one_that_answers_and_then_does_not_start_behind_the_walls() {
        let real = Host::builder().build().unwrap().environment().interpreter.clone();
        let fake = Fake::new("echo 'Fatal Python error: no luck today' >&2\nexit 3");
        let mut environment = cellblock::env::Environment::standard_library(&real);
        environment.python = fake.path();
        let host = Host::builder().environment(environment).preload(Preload::None).build().unwrap();
        let (code, message) = words(wait(Session::builder().host(&host).start()).unwrap_err());
        assert_eq!(code, "python");
        let beginning = format!("Python at {} did not start: ", fake.path().display());
        assert!(message.starts_with(&beginning), "{message}");
    }

    #[test]
    fn one_that_ends_while_it_imports_says_what_it_said() {
        let real = Host::builder().build().unwrap().environment().interpreter.clone();
        let mut environment = cellblock::env::Environment::standard_library(&real);
        environment.python = PathBuf::from("/bin/sh");
        let host = Host::builder().environment(environment).preload(Preload::None).build().unwrap();
        let (code, message) = words(wait(Session::builder().host(&host).start()).unwrap_err());
        assert_eq!(code, "python");
        assert!(message.contains("did not start: it ended with exit code 2; it said: "), "{message}");
    }
}
