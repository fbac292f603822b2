"""LangChain: the standard suites for tools and sandboxes, and an agent with a scripted model."""

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_tests.integration_tests import SandboxIntegrationTests, ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

from cellblock import Host, Result, Session
from cellblock.langchain import CellblockSandbox, run_python

HOST = Host(packages="none")


class TestSandbox(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self):
        backend = CellblockSandbox(host=HOST)
        yield backend
        backend.close()


class ToolOptions:
    @property
    def tool_constructor(self):
        return run_python(host=HOST)

    @property
    def tool_invoke_params_example(self):
        return {"code": "print('hi')\n1 + 1"}


class TestTool(ToolOptions, ToolsIntegrationTests):
    pass


class TestToolAlone(ToolOptions, ToolsUnitTests):
    pass


def test_the_tool_remembers_and_gives_the_result_as_artifact():
    with Session(host=HOST) as session:
        tool = run_python(session)
        tool.invoke({"code": "n = 41"})
        message = tool.invoke({"type": "tool_call", "id": "1", "name": "run_python", "args": {"code": "print('hi')\nn + 1"}})
        assert isinstance(message, ToolMessage)
        assert message.content == "hi\n42"
        assert isinstance(message.artifact, Result)
        assert message.artifact.value(int) == 42
        assert "ZeroDivisionError" in tool.invoke({"code": "1/0"})


def test_a_deep_agent_works_in_the_session():
    from deepagents import create_deep_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel

    class Scripted(GenericFakeChatModel):
        def bind_tools(self, tools, **options):
            return self

    def call(number, name, **args):
        return AIMessage(content="", tool_calls=[{"name": name, "args": args, "id": str(number)}])

    with Session(host=HOST) as session:
        steps = [
            call(1, "write_file", file_path="/workspace/n.txt", content="41"),
            call(2, "execute", command="cat n.txt && echo"),
            call(3, "run_python", code="int(open('n.txt').read()) + 1"),
            AIMessage(content="It is 42."),
        ]
        agent = create_deep_agent(
            model=Scripted(messages=iter(steps)), tools=[run_python(session)], backend=CellblockSandbox(session)
        )
        said = agent.invoke({"messages": [("user", "What is the number?")]})["messages"]
        results = [message.content for message in said if isinstance(message, ToolMessage)]
        assert "41" in results[1]
        assert results[2] == "42"
        assert said[-1].content == "It is 42."


def test_a_command_that_takes_too_long_is_ended():
    backend = CellblockSandbox(host=HOST, timeout=1)
    done = backend.execute("echo begun; sleep 60")
    assert (done.exit_code, done.output.splitlines()[0]) == (124, "begun")
    backend.close()
