"""Inspect: its own conformance suite, and an evaluation with a scripted model."""

import pytest
import pytest_asyncio
from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash
from inspect_ai.util import OutputLimitExceededError, SandboxUserUnsupportedError
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from cellblock.inspect_ai import CellblockConfig, CellblockSandboxEnvironment, stateful_python

# A session has one user, and none that could add another.
CANNOT = {"test_exec_as_user"}


@pytest_asyncio.fixture
async def sandbox_env(request):
    if request.node.originalname in CANNOT:
        request.node.add_marker(pytest.mark.xfail(raises=SandboxUserUnsupportedError, strict=True))
    config = CellblockConfig(limits={"memory": "1GB"})
    made = await CellblockSandboxEnvironment.sample_init("check", config, {})
    yield made["default"]
    await CellblockSandboxEnvironment.sample_cleanup("check", config, made, False)


@pytest.mark.asyncio
async def test_cellblock_output_beyond_the_limit_says_so(sandbox_env):
    with pytest.raises(OutputLimitExceededError):
        await sandbox_env.exec(["sh", "-c", "head -c 20000000 /dev/zero"])


@pytest.mark.asyncio
async def test_cellblock_a_missing_program_is_a_result(sandbox_env):
    result = await sandbox_env.exec(["no-such-program"])
    assert (result.success, result.returncode) == (False, 127)
    assert "no-such-program" in result.stderr


@pytest.mark.asyncio
async def test_cellblock_a_directory_that_code_changed_to_is_not_that_of_the_sample(sandbox_env):
    await sandbox_env.session.run("import os; os.chdir('/tmp')")
    assert (await sandbox_env.exec(["pwd"])).stdout == "/workspace\n"


def test_cellblock_an_evaluation_runs_commands_and_a_python_that_remembers(tmp_path, monkeypatch):
    # Inspect would fetch a tokenizer.
    monkeypatch.setattr("inspect_ai.model._model.count_text_tokens", len)
    calls = [
        ("bash", {"command": "echo 41 > n.txt"}),
        ("python", {"code": "n = int(open('n.txt').read())"}),
        ("python", {"code": "n + 1"}),
    ]
    outputs = [ModelOutput.for_tool_call("mockllm/model", name, arguments) for name, arguments in calls]
    seen = []

    def answer(input, tools, tool_choice, config):
        seen.append(input[-1].text)
        return outputs.pop(0) if outputs else ModelOutput.from_content("mockllm/model", f"It is {input[-1].text.strip()}.")

    task = Task(
        dataset=[Sample(input="What is the number?", target="It is 42.")],
        solver=[use_tools(bash(timeout=30), stateful_python()), generate()],
        scorer=includes(),
        sandbox="cellblock",
    )
    model = get_model("mockllm/model", custom_outputs=answer)
    (log,) = evaluate(task, model=model, log_dir=str(tmp_path), display="none")
    assert log.status == "success", log.error
    assert log.results.scores[0].metrics["accuracy"].value == 1.0, seen
