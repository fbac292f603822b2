"""OpenAI Agents SDK: an agent with a model that says what it is told to."""

import asyncio
import json

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from cellblock import AsyncSession, Host
from cellblock.openai_agents import run_python

HOST = Host(packages="none")


class ScriptedModel(Model):
    def __init__(self, *codes):
        self.codes = list(codes)
        self.seen = []

    async def get_response(self, system_instructions, input, *args, **options):
        self.seen.append(
            [item.get("output") for item in input if isinstance(item, dict) and item.get("type") == "function_call_output"]
        )
        number = len(self.seen)
        if self.codes:
            code = json.dumps({"code": self.codes.pop(0)})
            item = ResponseFunctionToolCall(name="run_python", arguments=code, call_id=f"call{number}", type="function_call")
        else:
            text = ResponseOutputText(text="done", type="output_text", annotations=[])
            item = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def stream_response(self, *args, **options):
        raise NotImplementedError


def run(agent):
    return Runner.run(agent, "What is the number?", run_config=RunConfig(tracing_disabled=True))


def test_an_agent_has_a_python_that_remembers():
    model = ScriptedModel("n = 41", "print('hi')\nn + 1", "1/0", "n")
    result = asyncio.run(run(Agent(name="one", model=model, tools=[run_python(host=HOST)])))
    assert result.final_output == "done"
    assert model.seen[-1][1] == "hi\n42"
    assert "ZeroDivisionError" in model.seen[-1][2]
    assert model.seen[-1][3] == "41"


def test_agents_can_share_a_session():
    async def main():
        async with AsyncSession(host=HOST, seed={"n": 7}) as session:
            first, second = ScriptedModel("n += 1"), ScriptedModel("n")
            await run(Agent(name="one", model=first, tools=[run_python(session)]))
            await run(Agent(name="two", model=second, tools=[run_python(session)]))
            return second.seen[-1]

    assert asyncio.run(main()) == ["8"]
