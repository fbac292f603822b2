//! Options of a session: defaults, every option read from JSON, and how a wrong option is named.

use std::path::PathBuf;

use cellblock_protocol::*;
use serde_json::{Value, json};

fn read(value: Value) -> Result<SessionOptions, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

#[test]
fn everything_has_a_default() {
    assert_eq!(read(json!({})), Ok(SessionOptions::default()));
    assert_eq!(
        read(json!({"session": null, "limits": null, "seed": null})),
        Ok(SessionOptions::default())
    );
}

#[test]
fn a_session_without_checkpoints_cannot_be_atomic() {
    let refused = read(json!({"strategy": "direct", "atomic": true})).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "`atomic`: expected `false` with the strategy `direct`, which makes no checkpoints, got true"
    );
}

#[test]
fn every_option_is_read() {
    let options = read(json!({
        "session": "a.b-c_1", "workspace": "/home/me/data", "workspace_at": "/home/user", "env": "science", "shell": "ipython", "strategy": "thread", "atomic": true,
        "arming": "lazy", "isolation": "landlock", "container": {"image": "own:1"}, "network": ["example.org"], "unlisted_hosts": "ask", "credentials": ["example.org Authorization: Bearer env:TOKEN"], "limits": {"wall": "5s"}, "imports": ["np", "math"],
        "seed": {"größe": 3, "raw": {"$bytes": "AAE="}}, "random_seed": 7, "setup": "import os", "journal": "/home/me/journals", "replay": "5s",
    }));
    let expected = SessionOptions {
        session: Some("a.b-c_1".to_owned()),
        workspace: Some(PathBuf::from("/home/me/data")),
        workspace_at: "/home/user".parse().unwrap(),
        env: Some("science".to_owned()),
        shell: Shell::Ipython,
        strategy: Strategy::Thread,
        atomic: true,
        arming: Arming::Lazy,
        isolation: Isolation::on(Rung::Landlock),
        container: Some(ContainerOptions::image("own:1")),
        network: vec!["example.org".parse().unwrap()],
        unlisted_hosts: UnlistedHosts::Ask,
        credentials: vec![
            "example.org Authorization: Bearer env:TOKEN"
                .parse()
                .unwrap(),
        ],
        limits: Limits {
            wall: std::time::Duration::from_secs(5),
            ..Limits::default()
        },
        imports: vec!["np".to_owned(), "math".to_owned()],
        seed: Seed::from_iter([
            ("größe".to_owned(), json!(3)),
            ("raw".to_owned(), bytes_seed(&[0, 1])),
        ]),
        random_seed: Some(7),
        setup: Some("import os".to_owned()),
        journal: Journaling::In(PathBuf::from("/home/me/journals")),
        replay: Replay::Within(std::time::Duration::from_secs(5)),
    };
    assert_eq!(options, Ok(expected.clone()));
    assert_eq!(read(serde_json::to_value(&expected).unwrap()), Ok(expected));
}

#[test]
fn a_replay_is_on_for_30_seconds_or_for_another_time_or_off() {
    let read = |replay: Value| read(json!({"replay": replay})).map(|options| options.replay);
    assert_eq!(read(json!(null)), Ok(Replay::default()));
    assert_eq!(read(json!(true)), Ok(Replay::Within(Replay::DEFAULT_TIME)));
    assert_eq!(read(json!(false)), Ok(Replay::Off));
    assert_eq!(
        read(json!(0.5)),
        Ok(Replay::Within(std::time::Duration::from_millis(500)))
    );
    for wrong in [json!(0), json!(-1), json!("soon"), json!([])] {
        let text = read(wrong).unwrap_err().to_string();
        assert!(text.contains("`replay`"), "{text}");
    }
}

#[test]
fn a_journal_is_kept_or_not_or_as_the_host_does_it() {
    let read = |journal: Value| read(json!({"journal": journal})).map(|options| options.journal);
    assert_eq!(read(json!(null)), Ok(Journaling::HostsChoice));
    assert_eq!(read(json!(true)), Ok(Journaling::On));
    assert_eq!(read(json!(false)), Ok(Journaling::Off));
    assert_eq!(
        read(json!(1)),
        Err("`journal`: expected true, false or a directory, got 1".to_owned())
    );
}

#[test]
fn a_wrong_option_is_named() {
    let wrong = |value| read(value).unwrap_err();
    assert_eq!(
        wrong(json!({"strategy": "fast"})),
        "`strategy`: expected process, thread or direct, got \"fast\""
    );
    assert_eq!(
        wrong(json!({"limits": {"processes": -1}})),
        "`limits.processes`: expected a positive whole number, got -1"
    );
    assert_eq!(
        wrong(json!({"limits": 5})),
        "`limits`: expected an object of limits, got 5"
    );
    assert_eq!(
        wrong(json!({"imports": ["math", 5]})),
        "`imports[1]`: expected a text, got 5"
    );
    assert_eq!(
        wrong(json!({"atomic": "yes"})),
        "`atomic`: expected true or false, got \"yes\""
    );
    assert_eq!(
        wrong(json!({"root": true})),
        "unknown field `root`; the fields are session, workspace, workspace_at, env, container, shell, strategy, atomic, arming, isolation, network, unlisted_hosts, credentials, limits, imports, seed, random_seed, setup, journal, replay"
    );
}

#[test]
fn an_id_can_be_a_directory() {
    for good in ["a", "default", "run-1.b_C", &"x".repeat(64)] {
        assert_eq!(validate_session_id(good), Ok(()), "{good}");
    }
    for wrong in [
        "",
        ".",
        "..",
        ".hidden",
        "a/b",
        "a b",
        "é",
        "a\n",
        "\0",
        &"x".repeat(65),
    ] {
        assert!(validate_session_id(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn seeds_have_names_that_python_can_bind() {
    for good in ["x", "_private", "名字", "match"] {
        assert_eq!(
            validate_seed(&Seed::from_iter([(good.to_owned(), json!(1))])),
            Ok(()),
            "{good}"
        );
    }
    for wrong in [
        "",
        "1x",
        "a b",
        "a.b",
        "a-b",
        "x;import os",
        "class",
        "None",
        "x\n",
    ] {
        assert!(
            validate_seed(&Seed::from_iter([(wrong.to_owned(), json!(1))])).is_err(),
            "{wrong:?}"
        );
    }
}

#[test]
fn bytes_in_a_seed_are_base64() {
    for wrong in [json!({"$bytes": "%"}), json!({"$bytes": 3})] {
        assert!(validate_seed(&Seed::from_iter([("x".to_owned(), wrong)])).is_err());
    }
    let dictionary = json!({"$bytes": "%", "other": 1});
    assert_eq!(
        validate_seed(&Seed::from_iter([("x".to_owned(), dictionary)])),
        Ok(())
    );
}

#[test]
fn imports_become_statements() {
    for (entry, statement) in [
        ("np", "import numpy as np"),
        (" plt ", "import matplotlib.pyplot as plt"),
        ("math", "import math"),
        ("import os.path", "import os.path"),
        ("numpy  as  np", "import numpy as np"),
        ("from x.y import z", "from x.y import z"),
        ("from  x import y ,z as w", "from x import y, z as w"),
    ] {
        assert_eq!(import_statement(entry), Ok(statement.to_owned()));
    }
}

#[test]
fn an_import_carries_no_code() {
    for wrong in [
        "",
        "import",
        "os; print(1)",
        "os\nprint(1)",
        "os as x; y",
        "os, sys",
        "from x import",
        "from . import x",
        "from x import *",
        "from x import y; z",
        "a.b as c.d",
        "a..b",
        "class",
        "os as in",
        "x as",
        "__import__('os')",
        "from x import (y)",
        "os#",
        "os\\",
        "a b c",
    ] {
        assert!(import_statement(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_tool_has_a_name_that_can_be_called() {
    let read = |value| serde_json::from_value::<ToolSpec>(value).map_err(|error| error.to_string());
    let spec = ToolSpec {
        name: "get-weather".to_owned(),
        description: "w".to_owned(),
        parameters: Seed::new(),
    };
    assert_eq!(
        read(json!({"name": "get-weather", "description": "w", "parameters": {}})),
        Ok(spec)
    );
    assert_eq!(
        read(json!({"name": "a b"})),
        Err("`name`: expected 1 to 64 letters, digits, `_`, `-` or `.`, got \"a b\"".to_owned())
    );
}
