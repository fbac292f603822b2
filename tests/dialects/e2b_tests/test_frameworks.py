"""Frameworks that have a tool or a client for E2B sandboxes."""

import asyncio

import pytest


def test_agno_runs_code_and_commands():
    tools = pytest.importorskip("agno.tools.e2b").E2BTools(api_key="any", timeout=120)
    assert "42" in str(tools.run_python_code("print(6 * 7)"))
    assert "out" in str(tools.run_command("echo out"))
    tools.shutdown_sandbox()


def test_openai_agents_execute_in_a_sandbox():
    e2b = pytest.importorskip("agents.extensions.sandbox.e2b")

    async def talk():
        client = e2b.E2BSandboxClient()
        session = await client.create(options=e2b.E2BSandboxClientOptions(sandbox_type="e2b"))
        try:
            return await session.exec("echo", "from openai agents")
        finally:
            await client.delete(session)

    assert b"from openai agents" in asyncio.run(talk()).stdout
