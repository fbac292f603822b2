//! The help of every command, as it is printed, and the completions of every shell.

use crate::support::Place;

macro_rules! help {
    ($($name:ident: $arguments:expr;)*) => {$(
        #[test]
        fn $name() {
            let ended = Place::new().run($arguments);
            assert_eq!((ended.status, &ended.stderr[..]), (0, ""));
            insta::assert_snapshot!(ended.stdout);
        }
    )*};
}

help! {
    the_help_of_cellblock: ["--help"];
    the_help_of_ask: ["help", "ask"];
    the_help_of_chat: ["help", "chat"];
    the_help_of_config: ["help", "config"];
    the_help_of_runs: ["help", "runs"];
    the_help_of_eval: ["help", "eval"];
    the_help_of_eval_table: ["eval", "table", "--help"];
    the_help_of_runs_export: ["help", "runs", "export"];
    the_help_of_runs_resume: ["help", "runs", "resume"];
    the_help_of_exec: ["help", "exec"];
    the_help_of_repl: ["repl", "--help"];
    the_help_of_pipe: ["pipe", "--help"];
    the_help_of_doctor: ["doctor", "--help"];
    the_help_of_demo: ["demo", "--help"];
    the_help_of_setup: ["setup", "--help"];
    the_help_of_env: ["env", "--help"];
    the_help_of_env_list: ["env", "list", "--help"];
    the_help_of_env_create: ["env", "create", "--help"];
    the_help_of_env_show: ["env", "show", "--help"];
    the_help_of_env_remove: ["env", "remove", "--help"];
    the_help_of_env_gc: ["env", "gc", "--help"];
    the_help_of_sessions: ["sessions", "--help"];
    the_help_of_sessions_list: ["sessions", "list", "--help"];
    the_help_of_sessions_show: ["sessions", "show", "--help"];
    the_help_of_sessions_restore: ["sessions", "restore", "--help"];
    the_help_of_sessions_export: ["sessions", "export", "--help"];
    the_help_of_sessions_remove: ["sessions", "remove", "--help"];
    the_help_of_tools: ["tools", "--help"];
    the_help_of_tools_call: ["tools", "call", "--help"];
    the_help_of_trace: ["trace", "--help"];
    the_help_of_jupyter: ["jupyter", "--help"];
    the_help_of_jupyter_install: ["jupyter", "install", "--help"];
    the_help_of_mcp: ["mcp", "--help"];
    the_help_of_model: ["model", "--help"];
    the_help_of_model_get: ["model", "get", "--help"];
    the_help_of_serve: ["serve", "--help"];
    the_help_of_nodes: ["nodes", "--help"];
    the_help_of_nodes_drain: ["nodes", "drain", "--help"];
    the_help_of_completions: ["completions", "--help"];
}

#[test]
fn the_version_is_told() {
    let ended = Place::new().run(["--version"]);
    assert_eq!(
        ended.stdout,
        format!("cellblock {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn every_shell_gets_a_script_that_names_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ended = Place::new().run(["completions", shell]);
        assert_eq!((ended.status, &ended.stderr[..]), (0, ""));
        for command in ["doctor", "tools", "call"] {
            assert!(ended.stdout.contains(command), "{shell}: {command}");
        }
    }
}
