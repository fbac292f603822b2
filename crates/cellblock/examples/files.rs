//! Files in, files out, and what a cell did to them: `cargo run --example files`.

use cellblock::{Error, SessionBuilder};

#[tokio::main]
pub(crate) async fn main() -> Result<(), Error> {
    let session = SessionBuilder::new().start().await?;
    session
        .put_file("readings.csv", b"day,value\n1,12\n2,19\n3,23\n".to_vec())
        .await?;

    let code = "
import csv, json, statistics
with open('readings.csv') as file:
    values = [int(row['value']) for row in csv.DictReader(file)]
with open('summary.json', 'w') as file:
    json.dump({'mean': statistics.mean(values), 'most': max(values)}, file)
";
    let result = session.run(code).await?;
    for file in &result.files.created {
        println!("new: {} ({}, {} bytes)", file.path, file.mime, file.bytes);
    }
    let summary = session.get_file("summary.json").await?;
    println!("{}", String::from_utf8_lossy(&summary));
    assert_eq!(summary, br#"{"mean": 18, "most": 23}"#);

    // On the host the workspace is a directory like any other, and it stays when the session has ended.
    println!("everything is in {}", session.workspace().display());
    session.close().await;
    std::fs::remove_dir_all(session.workspace()).ok();
    Ok(())
}
