//! The configuration file.

use crate::fake_model::FakeModel;
use crate::support::{Ended, Place};
use serde_json::Value;
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
    assert_eq!(
        complaint("[tools\n"),
        "error: config.toml:1: unclosed table, expected `]`\n"
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

/// What `cellblock config --json` says about a key: its value, and who said so.
fn said(
    place: &Place,
    arguments: &[&str],
    variables: &[(&str, &str)],
    key: &str,
) -> (Value, Value) {
    let mut command = place.command(["config", "--json"]);
    for name in [
        "CELLBLOCK_MODEL",
        "CELLBLOCK_BASE_URL",
        "OPENAI_MODEL",
        "OPENAI_BASE_URL",
    ] {
        command.env_remove(name);
    }
    let output = command.args(arguments).envs(variables.iter().copied());
    let output = output.output().unwrap();
    let entries: Value = serde_json::from_slice(&output.stdout).unwrap();
    let entries = entries.as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["key"] == key).unwrap();
    (entry["value"].clone(), entry["from"].clone())
}

const FULL: &str = r#"
[model]
name = "small"
key_variable = "MY_KEY"
temperature = 0.5
capabilities = { tools = false, context_tokens = 4096, prices = { input = 1, output = 2.5 } }

[agent]
max_steps = 7
max_time = "5min"
compute = false
format = "markdown"

[session]
memory = "512MB"
timeout = 90
allow_net = ["example.org", "*.example.org:8080"]
stdlib = true
"#;

#[test]
fn a_flag_comes_before_a_variable_before_the_file_before_the_default() {
    let place = Place::new();
    let key = "agent.max_steps";
    let variable = [("CELLBLOCK_AGENT_MAX_STEPS", "9")];
    assert_eq!(said(&place, &[], &[], key), ("20".into(), "default".into()));
    fs::write(place.path().join("mine.toml"), FULL).unwrap();
    let file = ["--config", "mine.toml"];
    assert_eq!(
        said(&place, &file, &[], key),
        (
            "7".into(),
            serde_json::json!({"file": {"path": "mine.toml", "line": 9}})
        )
    );
    assert_eq!(
        said(&place, &file, &variable, key),
        (
            "9".into(),
            serde_json::json!({"variable": "CELLBLOCK_AGENT_MAX_STEPS"})
        )
    );
    let both = ["--config", "mine.toml", "--max-steps", "11"];
    assert_eq!(
        said(&place, &both, &variable, key),
        ("11".into(), serde_json::json!({"flag": "--max-steps"}))
    );
}

#[test]
fn every_kind_of_value_can_stand_in_the_file_and_the_key_is_never_shown() {
    let place = Place::new();
    fs::write(place.path().join("mine.toml"), FULL).unwrap();
    let secret = [("MY_KEY", "sk-very-secret")];
    let value = |key: &str| said(&place, &["--config", "mine.toml"], &secret, key).0;
    for (key, expected) in [
        ("model.name", "small"),
        ("model.temperature", "0.5"),
        ("model.key", "in the variable MY_KEY"),
        ("model.capabilities.tools", "false"),
        ("model.capabilities.context_tokens", "4096"),
        (
            "model.capabilities.prices",
            "1 for input, 2.5 for output, for a million tokens",
        ),
        ("agent.max_time", "300s"),
        ("agent.compute", "false"),
        ("session.memory", "512MB"),
        ("session.timeout", "90s"),
        ("session.allow_net", "example.org, *.example.org:8080"),
        ("session.stdlib", "true"),
        ("session.processes", "64"),
        ("approval.mode", "effects"),
    ] {
        assert_eq!(value(key), expected, "{key}");
    }
    let table = place
        .command(["config", "--config", "mine.toml"])
        .env("MY_KEY", "sk-very-secret")
        .output()
        .unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(!table.contains("very-secret"), "{table}");
    let line = table
        .lines()
        .find(|line| line.starts_with("agent.max_steps"))
        .unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words, ["agent.max_steps", "7", "mine.toml:9"]);
}

#[test]
fn a_value_that_cannot_be_is_named_with_its_place() {
    assert_eq!(
        complaint("[agent]\nmax_step = 3\n"),
        "error: config.toml:2: [agent]: there is no key `max_step` here\nhint: did you mean `max_steps`?\n"
    );
    let told = |config: &str, variables: &[(&str, &str)]| {
        let place = Place::new();
        fs::write(place.path().join("config.toml"), config).unwrap();
        let mut command = place.command(["config", "--config", "config.toml"]);
        let output = command.envs(variables.iter().copied()).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(
        told("[agent]\nmax_steps = \"many\"\n", &[]),
        "error: config.toml:2: agent.max_steps: \"many\": invalid digit found in string\n"
    );
    assert_eq!(
        told("", &[("CELLBLOCK_AGENT_MAX_STEPS", "many")]),
        "error: the variable CELLBLOCK_AGENT_MAX_STEPS: \"many\": invalid digit found in string\n"
    );
    assert_eq!(
        told("[model]\nkey_file = \"a\"\nkey_variable = \"B\"\n", &[]),
        "error: [model] has both `key_variable` and `key_file`: leave one out\n"
    );
}

#[test]
fn ask_and_exec_do_what_the_file_says() {
    let place = Place::new();
    let model = FakeModel::saying(["```python\nprint(6 * 7)\n```", "42"]);
    fs::create_dir_all(place.path().join("config/cellblock")).unwrap();
    fs::write(place.path().join("config/cellblock/key"), "sk-file\n").unwrap();
    let config = format!(
        "[model]\nname = \"fake\"\nbase_url = \"{}\"\nkey_file = \"key\"\n[agent]\nformat = \"markdown\"\n\
         [session]\nstdlib = true\ntimeout = \"1s\"\n",
        model.url
    );
    fs::write(place.path().join("config/cellblock/config.toml"), config).unwrap();
    let asked = place.run(["ask", "?", "--quiet"]);
    assert_eq!(
        (asked.status, &asked.stdout[..]),
        (0, "42\n"),
        "{}",
        asked.stderr
    );
    assert_eq!(model.asked()[0]["model"], "fake");
    assert_eq!(model.keys(), ["Bearer sk-file", "Bearer sk-file"]);
    // The run can be taken up without the file; the key is not in its record.
    let record = place.run(["runs", "show", "last", "--json"]).stdout;
    assert!(!record.contains("sk-file"));
    let slow = place.run(["exec", "-c", "import time; time.sleep(20)"]);
    assert_eq!(slow.status, 124, "{}", slow.stderr);
}
