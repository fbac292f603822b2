//! Functions of the host, called from inside the code: `cargo run --example tools`.

use cellblock::{Error, Event, SessionBuilder, ToolSpec};
use serde_json::{Map, Value, json};

#[tokio::main]
pub(crate) async fn main() -> Result<(), Error> {
    let session = SessionBuilder::new().start().await?;
    let schema = json!({
        "type": "object",
        "properties": {"city": {"type": "string", "description": "Where."}},
        "required": ["city"],
    });
    let weather = ToolSpec {
        name: "weather".to_owned(),
        description: "The temperature in a city, in degrees.".to_owned(),
        parameters: schema.as_object().cloned().unwrap_or_default(),
    };
    session.set_tools(vec![weather]).await?;

    let code = "
found = {}
for city in ('Oslo', 'Rome', 'Atlantis'):
    try:
        found[city] = weather(city)
    except ToolError as error:
        print(error)
max(found, key=found.get)
";
    let mut running = session.start(code)?;
    while let Some(event) = running.next().await {
        match event {
            Event::ToolCall {
                call, arguments, ..
            } => running.tool_result(&call, answer(&arguments.to_map())),
            Event::Stdout { text } => print!("{text}"),
            Event::Result { result } => {
                println!(
                    "{} calls; the warmest is {:?}",
                    result.tool_calls.len(),
                    result.value
                );
                assert_eq!(result.stdout, "there is no city \"Atlantis\"\n");
                assert_eq!(
                    result.value.map(|value| value.repr).as_deref(),
                    Some("'Rome'")
                );
            }
            _ => {}
        }
    }
    Ok(())
}

/// The host decides what is done with the arguments; the code in the session never sees how.
fn answer(arguments: &Map<String, Value>) -> Result<Value, String> {
    match arguments.get("city").and_then(Value::as_str) {
        Some("Oslo") => Ok(json!(4)),
        Some("Rome") => Ok(json!(19)),
        Some(other) => Err(format!("there is no city {other:?}")),
        None => Err("`city`: expected a text".to_owned()),
    }
}
