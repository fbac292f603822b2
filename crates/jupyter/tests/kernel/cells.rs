//! Cells: output, values, errors, crashes, interrupts, questions.

use crate::client::Client;
use cellblock_jupyter::{Advice, Channel, Outgoing};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_gives_its_output_its_value_and_a_reply() {
    let mut client = Client::start();
    let given = client
        .run("print('a')\nimport sys; print('b', file=sys.stderr)\n6 * 7")
        .await;
    assert_eq!(given.text("stdout"), "a\n");
    assert_eq!(given.text("stderr"), "b\n");
    let result = given.of("execute_result")[0];
    assert_eq!(result["data"]["text/plain"], "42");
    assert_eq!(result["execution_count"], 1);
    assert_eq!(given.reply["status"], "ok");
    let kinds: Vec<&str> = given.shown.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds[..2], ["status", "execute_input"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_told_once_and_the_cells_that_wait_are_aborted() {
    let mut client = Client::start();
    client.run("x = 1").await;
    let failing = client
        .send(
            Channel::Shell,
            "execute_request",
            json!({"code": "import time; time.sleep(2); 1/0"}),
        )
        .await;
    let mut waiting = Vec::new();
    for _ in 0..1000 {
        let code = json!({"code": "x += 1"});
        waiting.push(client.send(Channel::Shell, "execute_request", code).await);
    }
    let question = client
        .send(Channel::Shell, "kernel_info_request", json!({}))
        .await;
    let failed = client.collect(&failing).await;
    assert_eq!(failed.of("error").len(), 1);
    assert_eq!(failed.reply["ename"], "ZeroDivisionError");
    assert!(
        failed.reply["traceback"]
            .to_string()
            .contains("<cell In[2]>"),
        "{}",
        failed.reply
    );
    for id in &waiting {
        assert_eq!(client.collect(id).await.reply["status"], "aborted");
    }
    assert_eq!(client.collect(&question).await.reply["status"], "ok");
    let after = client.run("x").await;
    assert_eq!(after.of("execute_result")[0]["data"]["text/plain"], "1");
    assert_eq!(after.reply["execution_count"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn advice_of_the_place_is_below_the_error_and_in_the_place_of_a_hint_about_packages() {
    let mut client = Client::advised(|result| {
        let error = result.error.as_ref()?;
        let text = format!("advice about {}", error.type_);
        let replaces_hint = error.type_ == "ModuleNotFoundError";
        Some(Advice {
            text,
            replaces_hint,
        })
    });
    let lines = |given: &crate::client::Given| {
        let told = given.reply["traceback"].as_array().unwrap().iter();
        let told = told.filter_map(Value::as_str).map(str::to_owned);
        told.filter(|line| line.starts_with("hint: "))
            .collect::<Vec<String>>()
    };
    let missing = client.run("import nowhere").await;
    assert_eq!(lines(&missing), ["hint: advice about ModuleNotFoundError"]);
    let misspelt = client.run("prnt(1)").await;
    let both = [
        "hint: Did you mean 'print'?",
        "hint: advice about NameError",
    ];
    assert_eq!(lines(&misspelt), both);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_keeps_the_kernel_and_its_variables_and_says_so() {
    let mut client = Client::start();
    client.run("x = 1").await;
    let crashed = client
        .run("x = 2; import os; os.kill(os.getpid(), 11)")
        .await;
    assert_eq!(crashed.reply["status"], "error");
    assert_eq!(crashed.reply["ename"], "Crashed");
    let notice = crashed.text("stderr");
    assert!(
        notice.contains("ended Python (signal 11)") && notice.contains("from before the cell"),
        "{notice}"
    );
    let after = client.run("x").await;
    assert_eq!(after.of("execute_result")[0]["data"]["text/plain"], "1");
    assert_eq!(after.reply["execution_count"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_ends_the_cell_and_keeps_the_variables() {
    let mut client = Client::start();
    client.run("x = 1").await;
    let code = json!({"code": "print('on', flush=True)\nwhile True: pass"});
    let id = client.send(Channel::Shell, "execute_request", code).await;
    loop {
        if client.next().await.message.kind() == "stream" {
            break;
        }
    }
    let reply = client.control("interrupt_request", json!({})).await;
    assert_eq!(reply, json!({"status": "ok"}));
    let ended = client.collect(&id).await;
    assert_eq!(ended.reply["ename"], "KeyboardInterrupt");
    let after = client.run("x").await;
    assert_eq!(after.of("execute_result")[0]["data"]["text/plain"], "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn input_asks_the_client_of_the_cell() {
    let mut client = Client::start();
    let code = json!({"code": "from getpass import getpass\ninput('name? ') + getpass('word? ')"});
    let id = client.send(Channel::Shell, "execute_request", code).await;
    for (prompt, password, answer) in [("name? ", false, "Ada"), ("word? ", true, "x")] {
        let asked = loop {
            let Outgoing { channel, message } = client.next().await;
            if channel == Channel::Stdin {
                break message;
            }
        };
        assert_eq!(asked.kind(), "input_request");
        assert_eq!(asked.identities, [&b"client"[..]]);
        assert_eq!(
            asked.content,
            json!({"prompt": prompt, "password": password})
        );
        client
            .send(Channel::Stdin, "input_reply", json!({"value": answer}))
            .await;
    }
    let given = client.collect(&id).await;
    assert_eq!(
        given.of("execute_result")[0]["data"]["text/plain"],
        "'Adax'"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_cannot_be_asked_gets_an_error_instead() {
    let mut client = Client::start();
    let content = json!({"code": "input()", "allow_stdin": false});
    let given = client.ask("execute_request", content).await;
    assert_eq!(given.reply["status"], "error");
    let value = given.reply["evalue"].as_str().unwrap();
    assert!(value.contains("does not support input requests"), "{value}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_cell_shows_nothing_and_has_no_count() {
    let mut client = Client::start();
    let content = json!({"code": "x = 5\nx", "silent": true});
    let given = client.ask("execute_request", content).await;
    assert_eq!(
        given.of("execute_input").len() + given.of("execute_result").len(),
        0
    );
    assert_eq!(given.reply["execution_count"], 0);
    let content = json!({"code": "x;", "user_expressions": {"y": "x + 1", "bad": "nothing"}});
    let given = client.ask("execute_request", content).await;
    assert_eq!(given.of("execute_result"), Vec::<&Value>::new());
    assert_eq!(given.reply["execution_count"], 1);
    let expressions = &given.reply["user_expressions"];
    assert_eq!(expressions["y"]["data"]["text/plain"], "6");
    assert_eq!(expressions["bad"]["ename"], "NameError");
}

#[tokio::test(flavor = "multi_thread")]
async fn displays_can_be_updated_and_cleared() {
    let mut client = Client::start();
    let code = "h = display('a', display_id='one')\nh.update('b')\nclear_output(wait=True)";
    let given = client.run(code).await;
    let shown = given.of("display_data")[0];
    assert_eq!(shown["transient"]["display_id"], "one");
    let updated = given.of("update_display_data")[0];
    assert_eq!(updated["data"]["text/plain"], "'b'");
    assert_eq!(given.of("clear_output"), [&json!({"wait": true})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn small_pieces_of_output_are_sent_together() {
    let mut client = Client::start();
    let given = client
        .run("for i in range(20000): print(i, flush=True)")
        .await;
    let lines: String = (0..20000).map(|line| format!("{line}\n")).collect();
    assert_eq!(given.text("stdout"), lines);
    let messages = given.of("stream").len();
    assert!(messages < 2000, "{messages} messages");
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_ends_the_kernel_in_the_middle_of_a_cell() {
    let mut client = Client::start();
    client.run("1").await;
    let code = json!({"code": "while True: pass"});
    client.send(Channel::Shell, "execute_request", code).await;
    let reply = client
        .control("shutdown_request", json!({"restart": true}))
        .await;
    assert_eq!(reply, json!({"status": "ok", "restart": true}));
    let ended = tokio::time::timeout(Duration::from_secs(30), client.kernel.ended()).await;
    assert!(ended.unwrap().restart);
}
