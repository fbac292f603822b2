//! What a cell does, while it does it; and answers to what it asks: `cargo run --example live_events`.

use cellblock::{Error, Event, SessionBuilder};

const CODE: &str = "
name = input('Who is there? ')
for n in range(3):
    print('working', n)
display({'name': name})
";

#[tokio::main]
pub(crate) async fn main() -> Result<(), Error> {
    let session = SessionBuilder::new().start().await?;
    let mut running = session.start(CODE)?;
    let mut printed = String::new();
    while let Some(event) = running.next().await {
        match event {
            Event::InputRequest { call, prompt, .. } => {
                println!("asked: {prompt}");
                running.input(&call, Ok("Ada".to_owned()));
            }
            Event::Stdout { text } => {
                print!("{text}");
                printed.push_str(&text);
            }
            Event::Display(display) => println!("shown: {:?}", display.mime.text("text/plain")),
            Event::Result { result } => {
                println!(
                    "ended with {} after {:.1?}",
                    result.status, result.usage.wall
                );
                assert_eq!(result.stdout, printed);
            }
            other => println!("{other:?}"),
        }
    }
    Ok(())
}
