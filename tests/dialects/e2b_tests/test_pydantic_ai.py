"""The conformance suite of pydantic-ai for workspaces, over its own E2B backend."""

import pytest

pytest.importorskip("pydantic_ai_harness")
conformance = pytest.importorskip("pydantic_ai.workspaces.conformance")

from e2b import AsyncSandbox  # noqa: E402
from pydantic_ai_harness.e2b_sandbox import E2BSandboxBackend  # noqa: E402


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.anyio
class TestE2BBackend(conformance.WorkspaceBackendSuite):
    @pytest.fixture
    async def backend(self, anyio_backend):
        sandbox = await AsyncSandbox.create(timeout=300)
        yield E2BSandboxBackend(sandbox=sandbox)
        await sandbox.kill()
