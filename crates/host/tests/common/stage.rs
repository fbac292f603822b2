//! A host with secrets that its children would inherit. Nobody may change the environment of a process with threads, so the
//! test binary is started again, by a script that has them.

use super::common::{is_root, python};
use serde_json::Value;
use std::env;
use std::process::Command;

/// What the host of this test has that a session must not.
pub(crate) struct Stage {
    /// The text in the variable `CELLBLOCK_CANARY`.
    pub(crate) variable: String,
    /// An open file, its number and its contents.
    pub(crate) descriptor: (u64, String),
    /// A key in the session keyring, its description and its contents; none where the kernel has no keys.
    pub(crate) key: Option<(String, String)>,
}

/// The stage, when this is the process on it. Otherwise runs `test` there, and returns none.
pub(crate) fn stage(test: &str) -> Option<Stage> {
    let Ok(text) = env::var("CELLBLOCK_STAGE") else {
        let mut command = Command::new(python());
        command
            .args(["-I", "-c", include_str!("stage.py")])
            .arg(env::current_exe().unwrap())
            .arg(test);
        assert!(
            command.status().unwrap().success(),
            "{test} failed on its stage (as root: {})",
            is_root()
        );
        return None;
    };
    let stage: Value = serde_json::from_str(&text).unwrap();
    let secret = |name: &str| stage["tokens"][name].as_str().unwrap().to_owned();
    Some(Stage {
        variable: secret("variable"),
        descriptor: (stage["descriptor"].as_u64().unwrap(), secret("descriptor")),
        key: stage["key"]
            .as_str()
            .map(|description| (description.to_owned(), secret("key"))),
    })
}
