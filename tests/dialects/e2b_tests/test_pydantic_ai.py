"""The conformance suite of pydantic-ai for workspaces, over its own E2B backend."""

import pytest

pytest.importorskip("pydantic_ai_harness")
conformance = pytest.importorskip("pydantic_ai.workspaces.conformance")

from e2b import AsyncSandbox  # noqa: E402
from pydantic_ai_harness.e2b_sandbox import E2BSandboxBackend  # noqa: E402


async def kill(backend: E2BSandboxBackend) -> None:
    if backend.ref is not None:
        await AsyncSandbox.kill(backend.ref.id)


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

    @pytest.fixture
    async def fresh_backend(self, anyio_backend):
        made = []

        def make() -> E2BSandboxBackend:
            made.append(E2BSandboxBackend(sandbox_timeout=300))
            return made[-1]

        yield make
        for backend in made:
            await kill(backend)

    @pytest.fixture
    def attach_backend(self):
        return lambda ref: E2BSandboxBackend(ref=ref, sandbox_timeout=300)

    @pytest.fixture
    def destroy_environment(self):
        return kill
