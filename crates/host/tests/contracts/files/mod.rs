//! D7 and the files of a result: the workspace, what is in it, what a cell did to it, and that nothing leads out.

mod confined;
mod differences;
mod from_the_host;
mod workspace;

use crate::support::{Python, wait};
use cellblock_protocol::{FileChange, FileChanges, mime_of};

fn changes(
    created: &[(&str, u64)],
    changed: &[(&str, u64)],
    deleted: &[(&str, u64)],
) -> FileChanges {
    let list = |files: &[(&str, u64)]| {
        let change = |(path, bytes): &(&str, u64)| FileChange {
            path: (*path).into(),
            bytes: *bytes,
            mime: mime_of(path).into(),
        };
        files.iter().map(change).collect()
    };
    FileChanges {
        created: list(created),
        changed: list(changed),
        deleted: list(deleted),
    }
}

fn put(session: &Python, path: &str, contents: &[u8]) {
    wait(session.put_file(path, contents.to_vec())).unwrap();
}

fn get(session: &Python, path: &str) -> Result<Vec<u8>, String> {
    wait(session.get_file(path)).map_err(|error| error.to_string())
}
