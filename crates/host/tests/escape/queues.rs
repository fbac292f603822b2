//! Queues of System V and POSIX that outlive whoever made them, for snippets that take them away.

use super::common::python;
use std::process::Command;

/// The canaries that are such a queue.
pub(crate) const OF_QUEUES: [&str; 2] = ["queue_gone", "mailbox_gone"];

/// A queue of System V and one of POSIX, made, asked for and removed by Python.
pub(crate) struct Queue {
    pub(crate) number: i64,
    pub(crate) name: String,
}

const QUEUES: &str = r#"
import ctypes, os, sys
libc, librt = ctypes.CDLL(None), ctypes.CDLL("librt.so.1")
action, number, name = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode()
room = ctypes.create_string_buffer(1000)
if action == "make":
    print(libc.msgget(0, 0o1666), librt.mq_open(name, os.O_CREAT | os.O_RDWR, 0o666, None))
elif action == "system_v":
    print(libc.msgctl(number, 2, room))
elif action == "posix":
    print(librt.mq_open(name, os.O_RDONLY))
else:
    print(libc.msgctl(number, 0, None), librt.mq_unlink(name))
"#;

impl Queue {
    pub(crate) fn new(mark: &str) -> Queue {
        let mut queue = Queue {
            number: 0,
            name: format!("/cellblock-{mark}"),
        };
        queue.number = queue.ask("make")[0];
        queue
    }

    fn ask(&self, action: &str) -> Vec<i64> {
        let mut command = Command::new(python());
        command.args([
            "-I",
            "-c",
            QUEUES,
            action,
            &self.number.to_string(),
            &self.name,
        ]);
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        said.split_whitespace()
            .map(|word| word.parse().unwrap())
            .collect()
    }

    /// Whether this canary was reached.
    pub(crate) fn is_reached(&self, canary: &str) -> bool {
        let kind = match canary {
            "queue_gone" => "system_v",
            _ => "posix",
        };
        self.ask(kind)[0] < 0
    }

    pub(crate) fn remove(&self) {
        self.ask("remove");
    }
}
