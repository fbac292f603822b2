"""pydantic-ai: its conformance suite for workspaces, and an agent with a scripted model."""

import asyncio

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

from cellblock import Host
from cellblock.pydantic_ai import CellblockToolset, CellblockWorkspaceBackend

HOST = Host(packages="none")
# Both look at a file while a command runs; operations of one session run one after the other.
CANNOT = {"test_cancellation_stops_foreground_work", "test_destroying_environment_during_command_raises_unavailable"}


@pytest.fixture
def anyio_backend():
    return "asyncio"


class TestWorkspace(WorkspaceBackendSuite):
    @pytest.fixture(autouse=True)
    def known(self, request):
        if request.node.originalname in CANNOT:
            request.node.add_marker(pytest.mark.xfail(strict=True))

    @pytest.fixture
    async def backend(self, anyio_backend):
        made = CellblockWorkspaceBackend(host=HOST)
        yield made
        await made.destroy()

    @pytest.fixture
    def fresh_backend(self):
        return lambda: CellblockWorkspaceBackend(host=HOST)

    @pytest.fixture
    def attach_backend(self):
        return CellblockWorkspaceBackend

    @pytest.fixture
    def destroy_environment(self):
        return lambda backend: backend.destroy()


def scripted(*codes):
    codes = list(codes)

    def answer(messages, info):
        if codes:
            return ModelResponse(parts=[ToolCallPart("run_python", {"code": codes.pop(0)})])
        return ModelResponse(parts=[TextPart(messages[-1].parts[0].content)])

    return FunctionModel(answer)


def test_an_agent_has_a_python_that_remembers_for_one_run():
    toolset = CellblockToolset(host=HOST)
    result = Agent(scripted("n = 41", "print('hi')\nn + 1"), toolsets=[toolset]).run_sync("What is the number?")
    returned = [part.content for one in result.all_messages() for part in one.parts if isinstance(part, ToolReturnPart)]
    assert (returned, result.output) == (["", "hi\n42"], "hi\n42")
    again = Agent(scripted("n"), toolsets=[toolset]).run_sync("And now?")
    assert "NameError" in again.output


def test_a_command_that_is_cancelled_is_ended():
    async def main():
        backend = CellblockWorkspaceBackend(host=HOST)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(backend.run(["sh", "-c", "echo $$ > pid; exec sleep 3600"]), 2)
        pid = (await backend.read_bytes("/workspace/pid")).decode().strip()
        gone = await backend.run(["sh", "-c", f"kill -0 {pid}"])
        await backend.destroy()
        return gone.exit_code

    assert asyncio.run(main()) != 0
