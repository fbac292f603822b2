//! Extended attributes and access lists of files go back with the files.

use crate::support::{builder, open, session, wait};
use rustix::fs::{XattrFlags, setxattr};
use std::fs;

const DIE: &str = "os.kill(os.getpid(), 9)";
/// For the user of the session: `user::rw-, user:ID:r--, group::r--, mask::r--, other::---`
const ACCESS_LIST: &str = "__import__('struct').pack('<I' + 'HHI' * 5, 2, 1, 6, 0xffffffff, 2, 4, os.getuid(), 4, 4, 0xffffffff, 16, 4, 0xffffffff, 32, 0, 0xffffffff)";
const LOOK: &str = "sorted((name, os.getxattr('f', name)) for name in os.listxattr('f')), oct(os.stat('f').st_mode & 0o777)";

fn changes() -> [String; 5] {
    [
        "os.setxattr('f', 'user.mark', b'changed')".to_owned(),
        "os.removexattr('f', 'user.mark')".to_owned(),
        "os.setxattr('f', 'user.new', b'1'); open('f', 'w').write('other')".to_owned(),
        format!("os.setxattr('f', 'system.posix_acl_access', {ACCESS_LIST})"),
        "os.remove('f'); open('f', 'w').write('another')".to_owned(),
    ]
}

#[test]
fn attributes_of_a_file_are_put_back() {
    let session = session();
    session.good("import os; open('f', 'w').write('text'); os.setxattr('f', 'user.mark', b'1')");
    let before = session.value(LOOK);
    assert!(before.contains("user.mark"), "{before}");
    for change in changes() {
        let result = session.run(format!("{change}\n{DIE}"));
        assert_eq!(result.state.not_restored, [""; 0], "{change}");
        assert_eq!(session.value(LOOK), before, "{change}");
        session.good(&change);
        let undone = wait(session.undo(1)).unwrap();
        assert_eq!(undone.not_restored, [""; 0], "{change}");
        assert_eq!(session.value(LOOK), before, "{change}");
    }
}

#[test]
fn an_access_list_is_put_back() {
    let session = session();
    session.good(&format!("import os; open('f', 'w').write('text'); os.setxattr('f', 'system.posix_acl_access', {ACCESS_LIST})"));
    let before = session.value(LOOK);
    assert!(before.contains("posix_acl"), "{before}");
    for change in [
        "os.removexattr('f', 'system.posix_acl_access')",
        "os.chmod('f', 0o600)",
    ] {
        session.good(change);
        let undone = wait(session.undo(1)).unwrap();
        assert_eq!(undone.not_restored, [""; 0], "{change}");
        assert_eq!(session.value(LOOK), before, "{change}");
    }
}

#[test]
fn attributes_of_a_file_of_the_user_s_are_put_back() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f");
    fs::write(&file, "text").unwrap();
    setxattr(&file, "user.mark", b"1", XattrFlags::empty()).unwrap();
    let session = open(builder().workspace(directory.path()));
    session.good("import os");
    let before = session.value(LOOK);
    for change in changes() {
        session.good(&change);
        let undone = wait(session.undo(1)).unwrap();
        assert_eq!(undone.not_restored, [""; 0], "{change}");
        assert_eq!(session.value(LOOK), before, "{change}");
    }
}

#[test]
fn in_a_large_directory_attributes_that_were_not_recorded_are_named() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..1000 {
        fs::write(directory.path().join(format!("{number}")), "text").unwrap();
    }
    let file = directory.path().join("7");
    setxattr(&file, "user.mark", b"1", XattrFlags::empty()).unwrap();
    let session = open(builder().workspace(directory.path()));
    session.good("import os; os.setxattr('8', 'user.mark', b'1'); open('9', 'w').write('!')");
    session.good("os.removexattr('7', 'user.mark')");
    for name in ["7", "8"] {
        let undone = wait(session.undo(1)).unwrap();
        let told: Vec<&String> = undone.not_restored.iter().collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with(&format!("{name}: ")), "{told:?}");
    }
}
