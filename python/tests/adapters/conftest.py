"""Adapters are tested by `python/test-adapters`, each in an environment with its framework. Elsewhere they are passed over."""

from importlib.util import find_spec

FRAMEWORKS = {
    "test_smolagents.py": "smolagents",
    "test_smolagents_suite.py": "smolagents",
    "test_inspect.py": "inspect_ai",
    "test_langchain.py": "deepagents",
    "test_pydantic_ai.py": "pydantic_ai",
    "test_openai_agents.py": "agents",
}
collect_ignore = [file for file, module in FRAMEWORKS.items() if find_spec(module) is None]
