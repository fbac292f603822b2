//! Many sessions at once, each with its own variables: `cargo run --example many_sessions`.

use cellblock::{Error, SessionBuilder};

#[tokio::main]
pub(crate) async fn main() -> Result<(), Error> {
    let work = (1..=8).map(|n: u32| tokio::spawn(sum_of_squares(n)));
    let mut sums = Vec::new();
    for task in work.collect::<Vec<_>>() {
        sums.push(task.await??);
    }
    println!("{sums:?}");
    assert_eq!(sums, ["1", "5", "14", "30", "55", "91", "140", "204"]);
    Ok(())
}

/// A session for one number, gone when its work is done.
async fn sum_of_squares(n: u32) -> Result<String, Error> {
    let session = SessionBuilder::new().variable("n", n).start().await?;
    let result = session.run("sum(i * i for i in range(n + 1))").await?;
    Ok(result.value.map(|value| value.repr).unwrap_or_default())
}
