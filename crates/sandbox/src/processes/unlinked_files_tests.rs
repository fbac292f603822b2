use super::*;

use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::time::Duration;

/// The path of a session's workspace inside.
const WORKSPACE: &str = "/workspace";

fn own() -> SessionProcesses {
    SessionProcesses::below(std::process::id())
}

#[test]
fn what_is_not_there_holds_nothing() {
    let no_process = SessionProcesses::below(u32::MAX);
    assert_eq!(
        no_process.unlinked_files(&[], Path::new(WORKSPACE), &[], |_| false),
        UnlinkedFiles::default()
    );
    assert_eq!(no_process.written(), []);
    no_process.kill_all_but(&[]);
}

#[test]
fn a_file_without_a_name_counts_for_the_process_that_has_it_open() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[1; 100_000]).unwrap();
    let metadata = file.metadata().unwrap();
    let size = || {
        own()
            .unlinked_files(&[metadata.dev()], Path::new(WORKSPACE), &[], |_| false)
            .unlinked
            .get(&metadata.ino())
            .copied()
    };
    assert!(size().unwrap().known() >= 100_000);
    drop(file);
    // A child that another test is just starting has it open too, for a moment.
    let is_gone = || size().is_none();
    assert!((0..100).any(|_| is_gone() || {
        std::thread::sleep(Duration::from_millis(20));
        false
    }));
}

#[test]
fn a_file_whose_size_is_told_by_its_length_alone_counts_in_full() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(1 << 30).unwrap();
    let metadata = file.metadata().unwrap();
    let unlinked_files =
        own().unlinked_files(&[metadata.dev()], Path::new(WORKSPACE), &[], |_| false);
    assert_eq!(
        unlinked_files.unlinked[&metadata.ino()],
        Size::Exactly(1 << 30)
    );
}

#[test]
fn a_descriptor_that_waits_in_a_socket_is_counted_unless_the_host_put_it_there() {
    let (near, far) = crate::stream_pair().unwrap();
    let file = tempfile::tempfile().unwrap();
    crate::send_bytes(&near, b"x", Some(rustix::fd::AsFd::as_fd(&file))).unwrap();
    let inode = rustix::fs::fstat(&far).unwrap().st_ino;
    assert_eq!(descriptors_waiting_in(far.as_raw_fd()), 1);
    assert_eq!(descriptors_waiting_in(near.as_raw_fd()), 0);
    // This process stands for init, whose own sockets do not count.
    let mut holder = Command::new("/bin/sleep")
        .arg("60")
        .stdin(far.try_clone().unwrap())
        .spawn()
        .unwrap();
    let all = own()
        .unlinked_files(&[], Path::new(WORKSPACE), &[], |_| false)
        .in_flight;
    let others = own()
        .unlinked_files(&[], Path::new(WORKSPACE), &[inode], |_| false)
        .in_flight;
    // Other tests have sockets as well.
    assert!(
        all > others
            || (0..50).any(|_| {
                std::thread::sleep(Duration::from_millis(20));
                own()
                    .unlinked_files(&[], Path::new(WORKSPACE), &[], |_| false)
                    .in_flight
                    > own()
                        .unlinked_files(&[], Path::new(WORKSPACE), &[inode], |_| false)
                        .in_flight
            })
    );
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn threads_that_share_their_open_files_are_looked_at_once() {
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || stopped.recv());
    assert_eq!(tables_of(std::process::id()).len(), 1);
    drop(stop);
    let _ = thread.join();
}

#[test]
fn what_a_process_writes_is_counted() {
    let before = own().written();
    let of = |list: &[Written]| {
        let me = std::process::id();
        list.iter()
            .find(|one| one.process.0 == me)
            .copied()
            .unwrap()
    };
    let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    file.write_all(&[1; 1 << 20]).unwrap();
    let after = own().written();
    assert!(of(&after).bytes >= of(&before).bytes.map(|bytes| bytes + (1 << 20)));
}

#[test]
fn a_mapping_of_a_file_without_a_name_counts_as_far_as_it_reaches() {
    let line = "7f0000000000-7f0000003000 rw-s 00001000 fd:01 4711                       /elsewhere/x (deleted)";
    let device = makedev(0xFD, 1);
    let mapping = Mapping {
        range: "7f0000000000-7f0000003000".to_owned(),
        inode: 4711,
        reach: 0x4000,
    };
    assert_eq!(
        deleted_mapping(line, &[device], Path::new(WORKSPACE)),
        Some(mapping)
    );
    assert_eq!(
        deleted_mapping(line, &[device + 1], Path::new(WORKSPACE)),
        None
    );
    let in_workspace = line.replace("/elsewhere", WORKSPACE);
    assert!(deleted_mapping(&in_workspace, &[device + 1], Path::new(WORKSPACE)).is_some());
    assert_eq!(
        deleted_mapping(
            line.trim_end_matches(" (deleted)"),
            &[device],
            Path::new(WORKSPACE)
        ),
        None
    );
}
