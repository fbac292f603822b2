//! Asks a model one question and shows what comes, as it comes.
//!
//! ```text
//! CELLBLOCK_MODEL=qwen2.5-coder CELLBLOCK_BASE_URL=http://127.0.0.1:8412/v1 \
//!     cargo run -p cellblock-model --example ask -- "What is 2 + 2?" [RECORDING]
//! ```

use cellblock_model::{Message, ModelChoice, ReplyEvent, Request};
use futures_util::StreamExt;
use std::io::Write as _;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let question = arguments.next().ok_or("give a question")?;
    let environment = |name: &str| std::env::var(name).ok();
    let choice = ModelChoice {
        record: arguments.next().map(Into::into),
        ..ModelChoice::default()
    };
    let model = choice.or_from_environment(environment).open(environment)?;
    let request = Request {
        max_tokens: Some(300),
        temperature: Some(0.0),
        ..Request::new(vec![Message::user(question)])
    };
    let mut events = model.stream(request);
    while let Some(event) = events.next().await {
        match event? {
            ReplyEvent::Text { text } | ReplyEvent::CallArguments { text, .. } => print!("{text}"),
            ReplyEvent::Reasoning { text } => eprint!("{text}"),
            ReplyEvent::Finished { reply } => {
                eprintln!("\n[{:?}, {:?}]", reply.finish, reply.usage);
                for repair in &reply.repairs {
                    eprintln!("[{repair}]");
                }
            }
            other => eprintln!("[{other:?}]"),
        }
        std::io::stdout().flush()?;
    }
    Ok(())
}
