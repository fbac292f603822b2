//! Tool calls in all the forms in which endpoints send them, and conversations that endpoints accept.

use crate::server::{Answer, Server, call_chunk, finish_chunk};
use crate::streaming::{events, question};
use cellblock_model::{
    AssistantMessage, FinishReason, FunctionCall, HistoryRepair, Message, RepairedHistory, Reply,
    ReplyEvent, ReplyRepair, ToolCall, complete, repair_history,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
    }
}

async fn reply_to(chunks: impl IntoIterator<Item = Value>) -> Reply {
    let chunks = chunks.into_iter().chain([finish_chunk("tool_calls")]);
    let server = Server::start([Answer::stream(chunks)]).await;
    complete(&server.model(), question()).await.unwrap()
}

#[tokio::test]
async fn arguments_grow_while_they_come() {
    let server = Server::start([Answer::stream([
        call_chunk(json!([{"index": 0, "id": "a", "type": "function", "function": {"name": "add", "arguments": ""}}])),
        call_chunk(json!([{"index": 0, "function": {"arguments": "{\"x\":"}}])),
        call_chunk(json!([{"index": 1, "id": "b", "function": {"name": "sub", "arguments": "{}"}}])),
        call_chunk(json!([{"index": 0, "function": {"arguments": "1}"}}])),
        finish_chunk("tool_calls"),
    ])])
    .await;
    let begun = |index, name: &str| {
        Ok(ReplyEvent::CallBegun {
            index,
            name: name.into(),
        })
    };
    let more = |index, text: &str| {
        Ok(ReplyEvent::CallArguments {
            index,
            text: text.into(),
        })
    };
    let mut seen = events(&server.model(), question()).await;
    let Some(Ok(ReplyEvent::Finished { reply })) = seen.pop() else {
        panic!("no reply");
    };
    assert_eq!(
        seen,
        [
            begun(0, "add"),
            more(0, "{\"x\":"),
            begun(1, "sub"),
            more(1, "{}"),
            more(0, "1}")
        ]
    );
    assert_eq!(
        reply.tool_calls,
        [call("a", "add", "{\"x\":1}"), call("b", "sub", "{}")]
    );
    assert_eq!(
        (reply.finish, reply.repairs),
        (FinishReason::ToolCalls, vec![])
    );
}

#[tokio::test]
async fn missing_and_duplicate_ids_are_replaced() {
    let reply = reply_to([call_chunk(json!([
        {"index": 0, "id": "same", "function": {"name": "a", "arguments": "{}"}},
        {"index": 1, "id": "same", "function": {"name": "b", "arguments": "{}"}},
        {"index": 2, "function": {"name": "c", "arguments": "{}"}},
    ]))])
    .await;
    let calls = [
        call("same", "a", "{}"),
        call("call_1", "b", "{}"),
        call("call_2", "c", "{}"),
    ];
    assert_eq!(reply.tool_calls, calls);
    assert_eq!(
        reply.repairs,
        [
            ReplyRepair::DuplicateCallId {
                id: "same".into(),
                new: "call_1".into()
            },
            ReplyRepair::MissingCallId {
                name: "c".into(),
                id: "call_2".into()
            },
        ]
    );
}

#[tokio::test]
async fn calls_that_all_say_index_0_are_told_apart_by_their_ids() {
    let reply = reply_to([
        call_chunk(json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}])),
        call_chunk(json!([{"index": 0, "id": "b", "function": {"name": "f", "arguments": "{}"}}])),
    ])
    .await;
    assert_eq!(
        reply.tool_calls,
        [call("a", "f", "{}"), call("b", "f", "{}")]
    );
}

#[tokio::test]
async fn calls_without_an_index_are_told_apart_too() {
    let reply = reply_to([
        call_chunk(json!([{"id": "a", "function": {"name": "f", "arguments": "{\"x\""}}])),
        call_chunk(json!([{"function": {"arguments": ":1}"}}])),
        call_chunk(json!([{"id": "b", "function": {"name": "g", "arguments": "{}"}}])),
    ])
    .await;
    assert_eq!(
        reply.tool_calls,
        [call("a", "f", "{\"x\":1}"), call("b", "g", "{}")]
    );
}

#[tokio::test]
async fn arguments_may_be_an_object_or_missing() {
    let reply = reply_to([call_chunk(json!([
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": {"x": 1}}},
        {"index": 1, "id": "b", "function": {"name": "g"}},
    ]))])
    .await;
    assert_eq!(
        reply.tool_calls,
        [call("a", "f", "{\"x\":1}"), call("b", "g", "{}")]
    );
}

#[tokio::test]
async fn a_call_without_a_name_is_left_out_and_noted() {
    let reply = reply_to([call_chunk(
        json!([{"index": 0, "id": "a", "function": {"arguments": "{}"}}]),
    )])
    .await;
    assert_eq!(reply.tool_calls, []);
    assert_eq!(
        reply.repairs,
        [ReplyRepair::NamelessCall {
            arguments: "{}".into()
        }]
    );
}

#[tokio::test]
async fn an_empty_list_of_calls_means_none() {
    let reply =
        reply_to([json!({"choices": [{"delta": {"content": "4", "tool_calls": []}}]})]).await;
    assert_eq!(
        (reply.tool_calls, reply.finish),
        (vec![], FinishReason::Stop)
    );
}

#[tokio::test]
async fn the_old_form_comes_before_the_new_one() {
    let reply = reply_to([
        json!({"choices": [{"delta": {"content": null, "function_call": {"name": "old", "arguments": "{\"a\""}}}]}),
        json!({"choices": [{"delta": {"function_call": {"arguments": ":1}"}}}]}),
        call_chunk(json!([{"index": 0, "id": "n", "function": {"name": "new", "arguments": "{}"}}])),
    ])
    .await;
    let old = FunctionCall {
        name: "old".into(),
        arguments: "{\"a\":1}".into(),
    };
    assert_eq!(reply.function_call, Some(old));
    assert_eq!(reply.tool_calls, [call("n", "new", "{}")]);
    assert_eq!(reply.text, "");
}

fn calling(ids: &[&str]) -> Message {
    let call = |id: &&str| ToolCall {
        id: (*id).into(),
        name: "add".into(),
        arguments: "{}".into(),
    };
    Message::Assistant(AssistantMessage {
        tool_calls: ids.iter().map(call).collect(),
        ..AssistantMessage::default()
    })
}

#[test]
fn a_sound_history_stays_as_it_is() {
    let sound = vec![
        Message::system("s"),
        Message::user("u"),
        calling(&["a", "b"]),
        Message::tool("a", "1"),
        Message::tool("b", "2"),
        Message::assistant("3"),
        calling(&["a"]),
        Message::tool("a", "4"),
    ];
    let repaired = repair_history(&sound);
    assert_eq!((repaired.messages, repaired.repairs), (sound, vec![]));
}

#[test]
fn a_call_without_an_answer_gets_one() {
    let RepairedHistory {
        messages: repaired,
        repairs,
    } = repair_history(&[calling(&["a", "b"]), Message::tool("b", "2")]);
    assert_eq!(
        repaired,
        [
            calling(&["a", "b"]),
            Message::tool("a", "(there is no result of this call)"),
            Message::tool("b", "2"),
        ]
    );
    let (id, name) = ("a".into(), "add".into());
    assert_eq!(repairs, [HistoryRepair::Unanswered { id, name }]);
}

#[test]
fn answers_stand_directly_after_their_calls() {
    let broken = [
        Message::tool("z", "from nowhere"),
        calling(&["a"]),
        Message::user("and?"),
        Message::tool("a", "1"),
        Message::tool("a", "again"),
    ];
    let RepairedHistory {
        messages: repaired,
        repairs,
    } = repair_history(&broken);
    assert_eq!(
        repaired,
        [
            calling(&["a"]),
            Message::tool("a", "1"),
            Message::user("and?")
        ]
    );
    let stray = |id: &str| HistoryRepair::Stray { id: id.into() };
    let moved = HistoryRepair::Moved { id: "a".into() };
    assert_eq!(repairs, [stray("z"), moved, stray("a")]);
}

#[test]
fn arguments_that_are_no_json_are_quoted() {
    let broken = Message::Assistant(AssistantMessage {
        tool_calls: vec![ToolCall {
            id: "a".into(),
            name: "f".into(),
            arguments: "{x".into(),
        }],
        ..AssistantMessage::default()
    });
    let RepairedHistory {
        messages: repaired, ..
    } = repair_history(&[broken, Message::tool("a", "1")]);
    let Message::Assistant(assistant) = &repaired[0] else {
        panic!()
    };
    assert_eq!(assistant.tool_calls[0].arguments, r#"{"not_json":"{x"}"#);
}

fn any_message() -> impl Strategy<Value = Message> {
    let id = || prop::sample::select(vec!["", "a", "b", "c"]);
    prop_oneof![
        Just(Message::user("u")),
        Just(Message::assistant("t")),
        prop::collection::vec(id(), 0..4).prop_map(|ids| calling(&ids)),
        id().prop_map(|id| Message::tool(id, "answer")),
    ]
}

proptest! {
    #[test]
    fn whatever_came_is_sound_afterwards(messages in prop::collection::vec(any_message(), 0..12)) {
        let RepairedHistory { messages: repaired, .. } = repair_history(&messages);
        let again = repair_history(&repaired);
        prop_assert_eq!((&again.messages, again.repairs), (&repaired, vec![]));
        let mut expected: Vec<String> = Vec::new();
        for message in &repaired {
            match message {
                Message::Tool { tool_call_id, .. } => {
                    prop_assert!(!expected.is_empty(), "an answer without a call");
                    prop_assert_eq!(&expected.remove(0), tool_call_id);
                }
                other => {
                    prop_assert!(expected.is_empty(), "a call without an answer");
                    if let Message::Assistant(assistant) = other {
                        expected = assistant.tool_calls.iter().map(|call| call.id.clone()).collect();
                    }
                }
            }
        }
        prop_assert!(expected.is_empty());
    }
}
