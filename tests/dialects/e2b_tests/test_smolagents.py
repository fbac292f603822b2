"""The executor of smolagents that works in an E2B sandbox."""

import pytest

pytest.importorskip("smolagents")

from smolagents.monitoring import AgentLogger, LogLevel  # noqa: E402
from smolagents.remote_executors import E2BExecutor  # noqa: E402


def test_the_executor_keeps_state_and_tells_output_and_errors():
    executor = E2BExecutor([], AgentLogger(LogLevel.ERROR))
    try:
        assert executor("x = 20\nprint('logged')").logs.strip() == "logged"
        assert executor("x + 1").output in (21, "21")
        with pytest.raises(Exception, match="ZeroDivisionError"):
            executor("1 / 0")
        executor.send_variables({"given": [1, 2]})
        assert executor("sum(given)").output in (3, "3")
    finally:
        executor.cleanup()
