"""The agent as a model, asked by the official package `openai`."""

import openai
import pytest

QUESTION = "What do 15000 become at 6 % compounded semi-annually?"


@pytest.fixture
def client(open_page, server):
    """A client of the package with a token, as a program has it."""
    page = open_page("/")
    made = page.context.request.post("/v1/tokens", data={"name": "openai", "scopes": ["read", "run"]}, headers={"X-Cellblock": "1"})
    assert made.status == 201, made.text()
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=made.json()["token"], timeout=120, max_retries=0) as client:
        yield client


def test_the_agent_is_listed_as_a_model(client):
    assert [model.id for model in client.models.list()] == ["scripted"]


def test_a_question_is_answered_whole(client):
    completion = client.chat.completions.create(model="scripted", messages=[{"role": "user", "content": QUESTION}])
    [choice] = completion.choices
    assert "21386.41" in choice.message.content
    assert choice.finish_reason == "stop"
    # Thoughts, code and what it printed come beside the answer.
    reasoning = choice.message.reasoning_content
    assert "The formula is" in reasoning and "principal = 15000" in reasoning
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens > 0


def test_a_question_is_answered_as_a_stream_and_the_next_one_goes_on_in_its_session(client):
    messages = [{"role": "user", "content": QUESTION}]
    content, reasoning, reasons, usages = "", "", [], []
    stream = client.chat.completions.create(model="scripted", messages=messages, stream=True, stream_options={"include_usage": True})
    for chunk in stream:
        if chunk.usage:
            usages.append(chunk.usage)
        for choice in chunk.choices:
            # The answer comes after everything that led to it.
            assert not (content and getattr(choice.delta, "reasoning_content", None))
            content += choice.delta.content or ""
            reasoning += getattr(choice.delta, "reasoning_content", None) or ""
            reasons += [choice.finish_reason] if choice.finish_reason else []
    assert "21386.41" in content
    assert "principal = 15000" in reasoning
    assert reasons == ["stop"]
    assert len(usages) == 1 and usages[0].total_tokens > 0

    messages += [{"role": "assistant", "content": content}, {"role": "user", "content": "Is `principal` still there?"}]
    again = client.chat.completions.create(model="scripted", messages=messages)
    reasoning = again.choices[0].message.reasoning_content
    assert "15000" in reasoning and "NameError" not in reasoning


def test_a_stream_that_is_closed_ends_its_run(client, open_page):
    messages = [{"role": "user", "content": "Work forever"}]
    with client.chat.completions.create(model="scripted", messages=messages, stream=True) as stream:
        next(chunk for chunk in stream if "begun" in str(chunk) or "sleep" in str(chunk))
    page = open_page("/")
    for _ in range(600):
        runs = page.context.request.get("/v1/runs").json()["runs"]
        [run] = [run for run in runs if run["question"] == "Work forever"][:1]
        if run["status"] != "running":
            return
        page.wait_for_timeout(100)
    pytest.fail(f"the run goes on: {run}")


def test_errors_are_those_of_the_package(client, server):
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="cb_wrong_wrong", max_retries=0).models.list()
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        client.chat.completions.create(model="scripted", messages=[{"role": "assistant", "content": "?"}])
    assert "must be a question" in str(refused.value)
