//! Calls in all the forms in which endpoints send them.

use crate::server::{Answer, Server, call_chunk, finish_chunk};
use crate::streaming::{events, question};
use cellblock_model::{Event, FinishReason, FunctionCall, Repair, Reply, ToolCall, complete};
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
        Ok(Event::CallBegun {
            index,
            name: name.into(),
        })
    };
    let more = |index, text: &str| {
        Ok(Event::CallArguments {
            index,
            text: text.into(),
        })
    };
    let mut seen = events(&server.model(), question()).await;
    let Some(Ok(Event::Finished { reply })) = seen.pop() else {
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
            Repair::DuplicateCallId {
                id: "same".into(),
                new: "call_1".into()
            },
            Repair::MissingCallId {
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
        [Repair::NamelessCall {
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
