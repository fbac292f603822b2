//! Commands about the session.

use crate::client::Client;

#[tokio::test(flavor = "multi_thread")]
async fn undo_takes_a_cell_back() {
    let mut client = Client::start();
    client.run("x = 1").await;
    client.run("x = 2; y = 3").await;
    let undone = client.run("%undo").await;
    let text = undone.text("stdout");
    assert!(text.contains("after In [1]"), "{text}");
    let given = client.run("x, 'y' in globals()").await;
    let value = &given.of("execute_result")[0]["data"]["text/plain"];
    assert_eq!(value, "(1, False)");
    let list = client.run("%checkpoints").await.text("stdout");
    assert!(list.contains("the next cell's checkpoint"), "{list}");
    let refused = client.run("%undo none").await;
    assert_eq!(refused.reply["status"], "error");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_has_variables_of_its_own() {
    let mut client = Client::start();
    client.run("x = 1").await;
    client.run("%fork other").await;
    client.run("x = 2").await;
    client.run("%switch other").await;
    let value =
        |given: &crate::client::Given| given.of("execute_result")[0]["data"]["text/plain"].clone();
    assert_eq!(value(&client.run("x").await), "1");
    client.run("x = 3").await;
    assert_eq!(
        client.run("%switch").await.text("stdout"),
        "  main\n* other\n"
    );
    client.run("%switch main").await;
    assert_eq!(value(&client.run("x").await), "2");
    assert_eq!(client.run("%switch nowhere").await.reply["status"], "error");
}
