//! L: what a session may use, and how it is told when it wanted more.

use crate::support::{Python, builder, is_root, open, session, wait};
use cellblock_protocol::{
    Cell, CellResult, Cut, Isolation, Limits, Rung, Status, Stream, Truncated,
};
use std::time::Duration;

fn limited(limits: Limits) -> Python {
    open(builder().limits(limits))
}

/// How a cell ended that went over a limit: its status, the exception and the hint.
fn told(result: CellResult) -> (Status, String, Option<String>) {
    let error = result.error.unwrap();
    (result.status, error.type_, error.hint)
}

mod disk;
mod memory;
mod output;
mod processes;

mod cpus {
    use super::*;
    use cellblock_session::Cgroups;

    /// Computes for two seconds, and says how much processor time that took.
    const BUSY: &str = "\
import time
begun = time.process_time()
end = time.perf_counter() + 2
while time.perf_counter() < end: pass
time.process_time() - begun";

    #[test]
    fn l_a_session_gets_no_more_processor_time_than_it_may_have() {
        let limits = Limits {
            cpus: Some(0.2),
            ..Limits::default()
        };
        if !Cgroups::detect().is_some_and(|cgroups| cgroups.can_limit_cpus()) {
            let refused = wait(builder().limits(limits).start()).unwrap_err();
            assert!(refused.to_string().contains("`limits.cpus`, --cpus"));
            return;
        }
        let used: f64 = limited(limits).value(BUSY).parse().unwrap();
        assert!(used < 1.2, "{used} s of processor time in 2 s");
    }
}

mod time {
    use super::*;

    #[test]
    fn l_the_sessions_time_holds_for_every_cell_and_a_cell_can_have_its_own() {
        let limits = Limits {
            wall: Duration::from_millis(500),
            ..Limits::default()
        };
        let session = limited(limits.clone());
        let longer =
            session.run(Cell::new("import time\ntime.sleep(0.8)").timeout(Duration::from_secs(20)));
        assert_eq!(longer.status, Status::Success);
        let result = session.run("import time\nprint('begun')\ntime.sleep(20)");
        assert_eq!(
            (
                result.status,
                result.exit_code,
                result.signal,
                result.error,
                result.stdout.as_str()
            ),
            (Status::Timeout, None, Some(9), None, "begun\n")
        );
    }
}

#[test]
fn l_too_many_open_files_are_an_exception_and_the_session_lives() {
    let session = session();
    let result = session.run("files = []\nwhile True: files.append(open('/dev/null'))");
    let hint = "The session's limit of open files (1024) was reached: close files, best with `with open(...)`, or raise the limit `open_files`.";
    assert_eq!(
        told(result),
        (Status::Failure, "OSError".into(), Some(hint.into()))
    );
    let opened: usize = session
        .value("opened = len(files)\nfiles.clear()\nopened")
        .parse()
        .unwrap();
    assert!(
        (1000..=1024).contains(&opened),
        "{opened} files were opened"
    );
}
