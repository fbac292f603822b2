//! Cells that were taken back: their checkpoints go too.

use super::alone;
use super::common::{in_process_namespace, new_directory, new_host, run, wait, within};

use std::time::Duration;

#[test]
fn checkpoints_of_cells_that_were_taken_back_are_let_go() {
    let _alone = alone();
    let directory = new_directory();
    let host = new_host(directory.path());
    let session = wait(host.session().start()).unwrap();
    let namespace = "import os; os.readlink('/proc/self/ns/pid')";
    let namespace = run(&session, namespace).value.unwrap().repr;
    run(&session, "x = 0");
    wait(session.checkpoints()).unwrap();
    let processes = || in_process_namespace(namespace.trim_matches('\'')).len();
    let before = processes();
    assert!(before >= 3);
    for n in 1..=8 {
        run(&session, format!("x = {n}").as_str());
        // With it, the state after the cell has a process of its own, which nobody needs any more once it is taken back.
        wait(session.checkpoints()).unwrap();
        wait(session.undo(1)).unwrap();
    }
    let as_before = within(Duration::from_secs(10), || processes() <= before);
    assert!(as_before, "{} processes, and before {before}", processes());
    wait(session.close());
}
