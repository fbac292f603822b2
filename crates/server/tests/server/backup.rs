//! Backup of a running server, and restore into another directory.

use crate::common::{Caller, TestServer, host};
use cellblock_server::{Server, ServerOptions, backup, restore};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_running_server_brings_users_and_sessions_back() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let session = admin.open().await;
    admin.run(&session, "kept = 'still here'").await;
    let archive = server.data.path().join("backup.tar");
    backup(&server.data.path().join("data"), &archive).expect("a backup");
    admin.run(&session, "kept = 'changed later'").await;
    assert!(
        backup(&server.data.path().join("data"), &archive).is_err(),
        "an archive is never written over"
    );

    let other = tempfile::tempdir().expect("a directory");
    let data = other.path().join("data");
    restore(&archive, &data).expect("restored");
    assert!(
        restore(&archive, &data).is_err(),
        "a store is never written over"
    );
    let restored = Server::open(host(other.path()), ServerOptions::new(&data))
        .await
        .expect("a server");
    let restored = TestServer {
        router: restored.router(),
        server: restored,
        data: other,
    };
    let login = json!({"name": "ada", "password": "a long password"});
    let answer = restored.anyone().post("/v1/login", login).await;
    let ada: Caller<'_> = restored.anyone().logged_in_by(&answer);
    let told = ada.run(&session, "kept").await;
    assert_eq!(told["value"]["repr"], "'still here'", "{told}");
}

#[test]
fn an_archive_with_anything_else_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let archive = directory.path().join("bad.tar");
    let mut builder = tar::Builder::new(std::fs::File::create(&archive).expect("a file"));
    let mut header = tar::Header::new_gnu();
    header.set_size(1);
    builder
        .append_data(&mut header, "authorized_keys", &b"x"[..])
        .expect("an entry");
    builder.finish().expect("an archive");
    let data = directory.path().join("data");
    assert!(restore(&archive, &data).is_err());
    assert!(!data.join("authorized_keys").exists());
}

/// A file with holes has a size in its header that is far beyond what the archive holds.
#[test]
fn an_archive_that_would_become_larger_than_it_is_is_refused() {
    const TERABYTE: u64 = 1 << 40;
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    for (kind, real_size) in [
        (tar::EntryType::GNUSparse, TERABYTE),
        (tar::EntryType::Regular, 0),
    ] {
        let archive = directory.path().join("bad.tar");
        let mut header = tar::Header::new_gnu();
        header.set_path("journals/large").expect("a path");
        header.set_entry_type(kind);
        header.set_mode(0o600);
        if let Some(gnu) = header.as_gnu_mut() {
            gnu.set_real_size(real_size);
        }
        // The archive ends long before this size.
        header.set_size(TERABYTE);
        header.set_cksum();
        std::fs::write(&archive, header.as_bytes()).expect("written");
        assert!(restore(&archive, &data).is_err(), "{kind:?}");
        let large = fs::metadata(data.join("journals/large"));
        assert!(large.is_err() || large.is_ok_and(|file| file.len() < 1 << 20));
    }
}

/// The permissions of a file that are not its owner's.
fn open_to_others(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").permissions().mode() & 0o077
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_and_its_backup_are_for_their_owner_alone() {
    let server = TestServer::new().await;
    let data = server.data.path().join("data");
    let archive = server.data.path().join("backup.tar");
    backup(&data, &archive).expect("a backup");
    let store = ["cellblock.db", "cellblock.db-wal"].map(|name| open_to_others(&data.join(name)));
    assert_eq!((open_to_others(&archive), store), (0, [0, 0]));
    // A copy of the store beside the archive would have a name that others can guess.
    let beside = fs::read_dir(server.data.path()).expect("a directory");
    let names: Vec<_> = beside.flatten().map(|entry| entry.file_name()).collect();
    assert!(!names.contains(&"backup.tar.store".into()), "{names:?}");
}
