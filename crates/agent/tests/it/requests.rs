//! What the record of a run keeps of its requests to the model.

use cellblock_agent::{
    Agent, CancellationToken, Format, NoopExecutor, RunEvent, RunStart, RunStore, StoredRun,
};
use cellblock_model::{Image, Message, Reply, Request, ScriptedModel};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

fn asked(step: usize, messages: Vec<Message>) -> RunEvent {
    RunEvent::Asked {
        step,
        tokens: 10,
        request: Some(Arc::new(Request::new(messages))),
    }
}

fn messages(run: &StoredRun, index: usize) -> Vec<Value> {
    let messages = run.requests[index].messages.iter();
    messages.map(|message| Value::clone(message)).collect()
}

#[tokio::test]
async fn every_request_of_a_run_is_kept_as_the_model_got_it() {
    let place = tempfile::tempdir().unwrap();
    let store = RunStore::new(place.path());
    let model = ScriptedModel::new([
        Reply::text("I look.\n```python\nprint(1)\n```"),
        Reply::text("It is 1."),
    ]);
    let model = Arc::new(model);
    let agent = Agent::builder()
        .shared_model(model.clone())
        .executor(NoopExecutor)
        .format(Format::Markdown);
    let agent = agent.build().unwrap();
    let writer = Arc::new(Mutex::new(store.start_run(RunStart::default()).unwrap()));
    let observer = move |event: &RunEvent| writer.lock().unwrap().keep_event(event).unwrap();
    let observed = agent.run_observed("What is 1?", Arc::new(observer), CancellationToken::new());
    observed.await.unwrap();
    let run = store.read("last").unwrap();
    let sent: Vec<_> = model.requests();
    assert_eq!(run.requests.len(), sent.len());
    for (index, request) in sent.iter().enumerate() {
        assert_eq!(json!(messages(&run, index)), json!(request.messages));
        assert_eq!(run.requests[index].step, index + 1);
    }
    // The system prompt stands in the file once, whatever the number of requests.
    let file = std::fs::read_to_string(store.find("last").unwrap().path).unwrap();
    assert_eq!(file.matches("\"role\":\"system\"").count(), 1);
    assert!(sent.len() > 1 && run.requests[1].first_new == 2);
    // What programs follow has not the whole conversation in each event.
    let events = run.events.iter().filter(|e| e.event["event"] == "asked");
    for stored in events {
        assert_eq!(stored.event.as_object().map(serde_json::Map::len), Some(3));
    }
}

#[test]
fn secrets_pictures_and_the_middle_of_long_texts_are_not_kept() {
    let place = tempfile::tempdir().unwrap();
    let store = RunStore::new(place.path());
    let mut writer = store.start_run(RunStart::default()).unwrap();
    let picture = Image::inline("image/png", &"A".repeat(50_000));
    let event = asked(
        1,
        vec![
            Message::system("password = \"correct horse\""),
            Message::user_with_images("look", [picture]),
            Message::user("x".repeat(300_000)),
        ],
    );
    writer.keep_event(&event).unwrap();
    let run = store.read("last").unwrap();
    let kept = messages(&run, 0);
    assert_eq!(kept[0]["content"], "password = \"<hidden>\"");
    assert_eq!(
        kept[1]["content"][1]["image_url"]["url"],
        "data:image/png;base64,… (50000 characters)"
    );
    let long = kept[2]["content"].as_str().unwrap();
    assert!(long.contains("[… 200000 characters left out …]") && long.len() < 101_000);
}

#[test]
fn a_run_with_very_long_messages_keeps_its_other_events() {
    let place = tempfile::tempdir().unwrap();
    let store = RunStore::new(place.path());
    let mut writer = store.start_run(RunStart::default()).unwrap();
    for step in 0..50 {
        let text = format!("{step}{}", "x".repeat(90_000));
        let event = asked(step, vec![Message::user(text)]);
        writer.keep_event(&event).unwrap();
    }
    drop(writer);
    let file = store.find("last").unwrap();
    assert!(file.path.metadata().unwrap().len() < 4_500_000);
    let run = store.read("last").unwrap();
    assert_eq!((run.requests.len(), run.events.len()), (50, 50));
    assert!(messages(&run, 0)[0].is_object());
    assert_eq!(messages(&run, 49), [Value::Null]);
}

#[test]
fn a_resumed_run_goes_on_with_its_requests() {
    let place = tempfile::tempdir().unwrap();
    let store = RunStore::new(place.path());
    let mut writer = store.start_run(RunStart::default()).unwrap();
    let first = vec![Message::system("s"), Message::user("q")];
    let second = [&first[..], &[Message::assistant("a")]].concat();
    writer.keep_event(&asked(1, first.clone())).unwrap();
    drop(writer);
    let mut resumed = store.resume("last").unwrap();
    let nested = RunEvent::Nested {
        name: "helper".to_owned(),
        inner: Box::new(asked(1, first.clone())),
    };
    resumed
        .writer
        .keep_event(&asked(2, second.clone()))
        .unwrap();
    resumed.writer.keep_event(&nested).unwrap();
    let run = store.read("last").unwrap();
    let kept: Vec<Value> = (0..3).map(|index| json!(messages(&run, index))).collect();
    assert_eq!(kept, [json!(first), json!(second), json!(first)]);
    let templates: Vec<_> = run.requests.iter().map(|r| r.template.as_deref()).collect();
    assert_eq!(templates, [None, None, Some("helper")]);
}
