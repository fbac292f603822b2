//! The configuration file.

use crate::support::{Ended, Place};
use std::fs;

/// What `cellblock tools` says with this configuration.
fn tools_with(config: &str) -> (Place, Ended) {
    let place = Place::new();
    fs::write(place.path().join("config.toml"), config).unwrap();
    let ended = place.run(["tools", "--config", "config.toml"]);
    (place, ended)
}

fn complaint(config: &str) -> String {
    let (_, ended) = tools_with(config);
    assert_eq!(
        (ended.status, &ended.stdout[..]),
        (2, ""),
        "{}",
        ended.stderr
    );
    ended.stderr
}

#[test]
fn a_mistake_is_named_with_its_line_and_what_was_probably_meant() {
    assert_eq!(
        complaint("[mcp.servers.web]\ncomand = \"x\"\n"),
        "error: config.toml:2: [mcp.servers.web]: there is no key `comand` here\nhint: did you mean `command`?\n"
    );
    assert_eq!(
        complaint("# mine\n\n[tool]\nfolders = []\n"),
        "error: config.toml:3: [tool]: there is no key `tool` here\nhint: did you mean `tools`?\n"
    );
    assert_eq!(
        complaint("[approval]\nzebra = 1\n"),
        "error: config.toml:2: [approval]: there is no key `zebra` here\nhint: the keys are mode, rules\n"
    );
    assert_eq!(
        complaint("[tools]\nfolders = \"here\"\n"),
        "error: config.toml:2: [tools]: invalid type: string \"here\", expected a sequence\n"
    );
    let broken = complaint("[tools\n");
    assert!(
        broken.starts_with("error: config.toml:1: [tools: "),
        "{broken}"
    );
    let mode = complaint("[approval]\nmode = \"sometimes\"\n");
    assert!(
        mode.contains(
            "config.toml:2: [approval]: unknown variant `sometimes`, expected one of `never`"
        ),
        "{mode}"
    );
}

#[test]
fn a_server_that_makes_no_sense_is_named() {
    for (lines, problem) in [
        ("", "it needs `command` or `url`"),
        (
            "command = \"a\"\nurl = \"http://b\"",
            "it has both `command` and `url`: leave one out",
        ),
        (
            "command = \"a\"\ntoken = \"t\"",
            "`token` belongs to `url`, which is not there",
        ),
        (
            "url = \"http://b\"\nargs = [\"x\"]",
            "`args` belongs to `command`, which is not there",
        ),
        (
            "url = \"ftp://b\"",
            "`url` must begin with http:// or https://",
        ),
        (
            "command = \"a\"\ntimeout = -1",
            "`timeout` must be a positive number of seconds",
        ),
    ] {
        assert_eq!(
            complaint(&format!("[mcp.servers.web]\n{lines}\n")),
            format!("error: config.toml: [mcp.servers.web]: {problem}\n")
        );
    }
    assert_eq!(
        complaint("[mcp.servers.web]\nurl = \"http://b\"\ntoken_env = \"NO_SUCH_VARIABLE\"\n"),
        "error: the MCP server `web`: there is no variable NO_SUCH_VARIABLE in the environment\n"
    );
}

const CROOKED: &str = include_str!("../../../mcp/tests/it/peers/crooked.py");

#[test]
fn tools_of_servers_and_folders_are_offered_with_ours() {
    let place = Place::new();
    fs::create_dir_all(place.path().join("config/cellblock/mine")).unwrap();
    let write = |name: &str, text: &str| {
        fs::write(place.path().join("config/cellblock").join(name), text).unwrap();
    };
    write("crooked.py", CROOKED);
    write(
        "mine/sums.py",
        "def double(n: int) -> int:\n    \"\"\"Twice a number.\"\"\"\n    return 2 * n\n",
    );
    write(
        "config.toml",
        "[tools]\nfolders = [\"mine\"]\n\n\
         [mcp.servers.peer]\ncommand = \"python3\"\nargs = [\"crooked.py\", \"none\"]\ndirectory = \".\"\n\n\
         [mcp.servers.ghost]\ncommand = \"/no/such/program\"\n\n\
         [mcp.servers.later]\ncommand = \"/no/such/program\"\ndisabled = true\n\n\
         [approval.rules]\nexecute_python_code = \"deny\"\n",
    );
    let call = |name: &str, arguments: &str, more: &[&str]| {
        let first = ["tools", "call", name, arguments, "--stdlib"];
        place.run(first.iter().chain(more))
    };
    let warning = "warning: the MCP server `ghost`: `/no/such/program` cannot be started: No such file or directory (os error 2)\n";
    let done = call("peer_work", "{}", &[]);
    assert_eq!(
        (done.status, &done.stdout[..], &done.stderr[..]),
        (0, "done\n", warning)
    );
    assert_eq!(call("double", "{\"n\": 21}", &[]).stdout, "42\n");
    let denied = call(
        "execute_python_code",
        "{\"python_code_snippet\": \"1\"}",
        &["--approve", "code"],
    );
    assert_eq!(denied.status, 1);
    assert!(
        denied
            .stderr
            .ends_with("`execute_python_code` was not run: the configuration forbids it\n"),
        "{}",
        denied.stderr
    );
}

#[test]
fn a_file_that_was_named_must_be_there() {
    let place = Place::new();
    let missing = "error: nowhere.toml cannot be read: No such file or directory (os error 2)\n";
    assert_eq!(
        place.run(["tools", "--config", "nowhere.toml"]).stderr,
        missing
    );
    let mut command = place.command(["tools"]);
    let output = command
        .env("CELLBLOCK_CONFIG", "nowhere.toml")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), missing);
    // The usual file need not be.
    assert_eq!(place.run(["tools"]).status, 0);
}

#[test]
fn the_example_of_the_page_is_understood() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = fs::read_to_string(page).unwrap();
    let example = page.split("```toml\n").nth(1).unwrap();
    let example = example.split("```").next().unwrap();
    // Everything in it is known; only the variable is not there.
    assert_eq!(
        complaint(example),
        "error: tools.secrets in the configuration: API_KEY: there is no such variable in the environment\n"
    );
}
