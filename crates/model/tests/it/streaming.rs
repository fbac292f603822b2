//! Replies as they should be, and as they also come.

use crate::server::{Answer, Server, finish_chunk, text_chunk};
use cellblock_model::openai::{EndpointSettings, OpenAiModel};
use cellblock_model::{
    FinishReason, Message, Model, ModelError, Reply, ReplyEvent, ReplyRepair, Request,
    ResponseFormat, ToolChoice, Usage, complete,
};
use futures_util::StreamExt;
use serde_json::json;

pub(crate) fn question() -> Request {
    Request::new(vec![Message::system("Be short."), Message::user("2 + 2?")])
}

pub(crate) async fn events(
    model: &dyn Model,
    request: Request,
) -> Vec<Result<ReplyEvent, ModelError>> {
    model.stream(request).collect().await
}

#[tokio::test]
async fn a_reply_comes_in_pieces_and_then_whole() {
    let server = Server::start([Answer::stream([
        json!({"model": "test-model-0613", "choices": [{"delta": {"role": "assistant", "content": null}}]}),
        json!({"choices": [{"delta": {"reasoning_content": "Two and two."}}]}),
        text_chunk("It is "),
        text_chunk("4."),
        finish_chunk("stop"),
        json!({"choices": [], "usage": {
            "prompt_tokens": 12, "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 8},
            "completion_tokens_details": {"reasoning_tokens": 3}}}),
    ])])
    .await;
    let reply = Reply {
        text: "It is 4.".into(),
        reasoning: "Two and two.".into(),
        usage: Usage {
            input_tokens: 12,
            cached_input_tokens: 8,
            output_tokens: 5,
            reasoning_tokens: 3,
            estimated: false,
        },
        model: Some("test-model-0613".into()),
        ..Reply::default()
    };
    let text = |text: &str| Ok(ReplyEvent::Text { text: text.into() });
    assert_eq!(
        events(&server.model(), question()).await,
        [
            Ok(ReplyEvent::Reasoning {
                text: "Two and two.".into()
            }),
            text("It is "),
            text("4."),
            Ok(ReplyEvent::Finished { reply }),
        ]
    );
}

#[tokio::test]
async fn the_path_of_the_weights_is_not_kept() {
    for (told, kept) in [
        ("/home/me/models/small.gguf", "small.gguf"),
        ("maker/model", "maker/model"),
    ] {
        let mut chunk = text_chunk("4");
        chunk["model"] = json!(told);
        let server = Server::start([Answer::stream([chunk, finish_chunk("stop")])]).await;
        let reply = complete(&server.model(), question()).await.unwrap();
        assert_eq!(reply.model.as_deref(), Some(kept));
    }
}

#[tokio::test]
async fn the_request_has_what_was_asked_for_and_nothing_else() {
    let server = Server::start([Answer::text(["4"])]).await;
    let mut settings = server.settings();
    settings.capabilities.json_schema = true;
    let model = OpenAiModel::new(settings).unwrap();
    let tool =
        json!({"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}});
    let request = Request {
        tools: vec![tool.clone()],
        tool_choice: ToolChoice::Named("add".into()),
        response_format: ResponseFormat::JsonSchema {
            name: "answer".into(),
            schema: json!({"type": "object"}),
            strict: true,
        },
        stop: vec!["END".into()],
        max_tokens: Some(100),
        temperature: Some(0.0),
        ..question()
    };
    complete(&model, request).await.unwrap();
    complete(&model, question()).await.unwrap();
    let received = server.requests();
    let messages = json!([
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "2 + 2?"},
    ]);
    assert!(received[0].head.starts_with("POST /v1/chat/completions "));
    assert_eq!(
        received[0].body,
        json!({
            "model": "test-model", "messages": messages,
            "stream": true, "stream_options": {"include_usage": true},
            "tools": [tool], "parallel_tool_calls": true,
            "tool_choice": {"type": "function", "function": {"name": "add"}},
            "response_format": {"type": "json_schema",
                "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": true}},
            "stop": ["END"], "max_tokens": 100, "temperature": 0.0,
        })
    );
    assert_eq!(
        received[1].body,
        json!({"model": "test-model", "messages": messages,
            "stream": true, "stream_options": {"include_usage": true}})
    );
}

#[tokio::test]
async fn what_an_endpoint_does_not_take_is_not_sent() {
    let server = Server::start([Answer::text(["ok"])]).await;
    let mut settings = server.settings();
    settings.capabilities.late_system_messages = false;
    let model = OpenAiModel::new(settings).unwrap();
    let mut request = question();
    request.messages.push(Message::assistant("4"));
    request
        .messages
        .push(Message::system("EXECUTION_RESULT: 4"));
    request.response_format = ResponseFormat::JsonObject;
    complete(&model, request).await.unwrap();
    let body = &server.requests()[0].body;
    assert_eq!(body.get("response_format"), None);
    assert_eq!(
        body["messages"][3],
        json!({"role": "user", "content": "EXECUTION_RESULT: 4"})
    );
}

#[tokio::test]
async fn tools_are_sent_to_whom_they_are_meant_for_even_if_it_is_not_known_to_call_them() {
    let server = Server::start([Answer::text(["ok"])]).await;
    let mut settings = server.settings();
    settings.capabilities.tools = false;
    let mut request = question();
    request.tools = vec![json!({"type": "function", "function": {"name": "add"}})];
    let model = OpenAiModel::new(settings).unwrap();
    complete(&model, request.clone()).await.unwrap();
    assert_eq!(server.requests()[0].body["tools"], json!(request.tools));
}

#[tokio::test]
async fn a_character_cut_in_two_by_the_network_is_whole_again() {
    let event = format!("data: {}\n\n", text_chunk("敏捷"));
    let bytes = event.as_bytes();
    let cut = event.find('敏').unwrap() + 1;
    let answer = Answer::unfinished([])
        .send(&bytes[..cut])
        .wait(std::time::Duration::from_millis(30))
        .send(&bytes[cut..])
        .send(format!("data: {}\n\n", finish_chunk("stop")));
    let server = Server::start([answer]).await;
    let reply = complete(&server.model(), question()).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.repairs), ("敏捷", vec![]));
}

#[tokio::test]
async fn half_a_character_is_replaced_and_noted() {
    let mut event = format!("data: {}\n\n", text_chunk("a?b")).into_bytes();
    let place = event.iter().position(|&byte| byte == b'?').unwrap();
    event[place] = 0xe6;
    let answer = Answer::unfinished([]).send(event).send(format!(
        "data: {}\n\ndata: [DONE]\n\n",
        finish_chunk("stop")
    ));
    let server = Server::start([answer]).await;
    let reply = complete(&server.model(), question()).await.unwrap();
    assert_eq!(reply.text, "a\u{fffd}b");
    assert_eq!(reply.repairs, [ReplyRepair::NotUtf8]);
}

#[tokio::test]
async fn an_endpoint_that_does_not_stream_is_understood() {
    let server = Server::start([Answer::json(
        200,
        json!({"choices": [{"message": {"role": "assistant", "content": "4", "tool_calls": []},
            "finish_reason": "stop"}], "usage": {"prompt_tokens": 9, "completion_tokens": 1}}),
    )])
    .await;
    let reply = complete(&server.model(), question()).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.usage.total()), ("4", 10));
}

#[tokio::test]
async fn a_reply_that_is_cut_off_says_so() {
    let server = Server::start([Answer::stream([
        text_chunk("```python\nprint("),
        finish_chunk("length"),
    ])])
    .await;
    let reply = complete(&server.model(), question()).await.unwrap();
    assert_eq!(reply.finish, FinishReason::Length);
}

#[tokio::test]
async fn a_reply_of_1_mb_is_read_and_a_longer_one_is_cut() {
    let long = "x".repeat(250_000);
    let chunks = [long.as_str(); 5];
    let server = Server::start([Answer::text(chunks[..4].to_vec()), Answer::text(chunks)]).await;
    let model = server.model();
    let whole = complete(&model, question()).await.unwrap();
    assert_eq!((whole.text.len(), whole.repairs), (1_000_000, vec![]));
    let cut = complete(&model, question()).await.unwrap();
    assert_eq!(
        (cut.text.len(), cut.finish),
        (1_000_000, FinishReason::Length)
    );
    assert_eq!(cut.repairs, [ReplyRepair::TooLong { limit: 1_000_000 }]);
}

#[tokio::test]
async fn a_missing_mark_or_a_missing_reason_at_the_end_is_no_problem() {
    let server = Server::start([
        Answer::unfinished([text_chunk("a"), finish_chunk("stop")]),
        Answer::stream([text_chunk("b")]),
    ])
    .await;
    let model = server.model();
    let without_mark = complete(&model, question()).await.unwrap();
    assert_eq!(
        (without_mark.text.as_str(), without_mark.repairs),
        ("a", vec![])
    );
    let without_reason = complete(&model, question()).await.unwrap();
    let taken = FinishReason::Stop;
    assert_eq!(
        without_reason.repairs,
        [ReplyRepair::NoFinishReason { taken }]
    );
}

#[tokio::test]
async fn reasoning_in_the_text_is_taken_out_of_it() {
    let server = Server::start([Answer::text(["<thi", "nk>Hm.</think>", "\n\nFour."])]).await;
    let reply = complete(&server.model(), question()).await.unwrap();
    assert_eq!(
        (reply.reasoning.as_str(), reply.text.as_str()),
        ("Hm.", "Four.")
    );
}

#[tokio::test]
async fn usage_is_estimated_where_the_endpoint_tells_none() {
    let server = Server::start([Answer::stream([
        text_chunk("Four."),
        json!({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": {}}),
    ])])
    .await;
    let usage = complete(&server.model(), question()).await.unwrap().usage;
    assert!(
        usage.estimated && usage.input_tokens > 5 && usage.output_tokens > 1,
        "{usage:?}"
    );
}

#[tokio::test]
async fn a_field_that_the_endpoint_refuses_is_left_out_from_then_on() {
    let server = Server::start([
        Answer::error(400, "unsupported_parameter",
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."),
        Answer::text(["4"]),
    ])
    .await;
    let model = server.model();
    let request = Request {
        max_tokens: Some(50),
        ..question()
    };
    assert_eq!(complete(&model, request.clone()).await.unwrap().text, "4");
    assert_eq!(complete(&model, request).await.unwrap().text, "4");
    let received = server.requests();
    assert_eq!(received.len(), 3);
    assert_eq!(received[0].body["max_tokens"], 50);
    for later in &received[1..] {
        assert_eq!(later.body.get("max_tokens"), None);
        assert_eq!(later.body["max_completion_tokens"], 50);
    }
}

#[tokio::test]
async fn the_query_of_the_base_url_is_kept() {
    let server = Server::start([Answer::text(["4"])]).await;
    let base = server
        .url()
        .replace("/v1", "/openai/deployments/x?api-version=2024-10-21");
    complete(
        &OpenAiModel::new(EndpointSettings::new(base, "x")).unwrap(),
        question(),
    )
    .await
    .unwrap();
    let line = "POST /openai/deployments/x/chat/completions?api-version=2024-10-21 ";
    assert!(server.requests()[0].head.starts_with(line));
}

#[tokio::test]
async fn who_stops_reading_stops_the_request() {
    let chunks = [text_chunk("a")];
    let server = Server::start([Answer::unfinished(chunks).then_hangs()]).await;
    let mut stream = server.model().stream(question());
    assert_eq!(
        stream.next().await,
        Some(Ok(ReplyEvent::Text { text: "a".into() }))
    );
    drop(stream);
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert_eq!(server.requests().len(), 1, "nobody asks again");
}
