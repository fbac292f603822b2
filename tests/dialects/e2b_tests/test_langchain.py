"""The standard suite of LangChain for sandboxes, over its own E2B backend."""

import pytest

langchain_e2b = pytest.importorskip("langchain_e2b")
suites = pytest.importorskip("langchain_tests.integration_tests")

from e2b import Sandbox  # noqa: E402


class TestE2BSandbox(suites.SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self):
        with Sandbox.create(timeout=1800) as made:
            yield langchain_e2b.E2BSandbox(sandbox=made)
