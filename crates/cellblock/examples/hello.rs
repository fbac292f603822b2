//! A session that remembers: `cargo run --example hello`.

use cellblock::{Error, ForModel, SessionBuilder};

#[tokio::main]
pub(crate) async fn main() -> Result<(), Error> {
    let session = SessionBuilder::new()
        .variable("name", "world")
        .start()
        .await?;

    session.run("greeting = f'Hello, {name}!'").await?;
    let result = session.run("print(greeting)\nlen(greeting)").await?;
    println!("it printed {:?}", result.stdout);
    assert_eq!(result.stdout, "Hello, world!\n");
    assert_eq!(result.value.map(|value| value.repr).as_deref(), Some("13"));

    // A cell that fails is a result too, and the session goes on.
    let code = "letters = list(greeting)\nletters[100]";
    let result = session.run(code).await?;
    println!("{}", result.for_model(code, &ForModel::default()));

    // Models miscount letters; this does not.
    let computed = session
        .compute("greeting.count('l')", "counts the letter l")
        .await?;
    assert_eq!(computed.result.as_deref(), Some("3"));

    session.close().await;
    Ok(())
}
