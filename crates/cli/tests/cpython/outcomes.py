"""Runs one module of CPython's own tests and writes how each test ended to `outcomes.json`. Runs outside and inside of a session."""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.abspath("cpython"))


class Outcomes(unittest.TestResult):
    """How each test ended."""

    def __init__(self) -> None:
        super().__init__()
        self.by_test: dict[str, str] = {}

    def addSuccess(self, test):
        super().addSuccess(test)
        self.by_test.setdefault(test.id(), "ok")

    def addExpectedFailure(self, test, error):
        super().addExpectedFailure(test, error)
        self.by_test.setdefault(test.id(), "ok")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.by_test.setdefault(test.id(), "skipped")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.by_test[test.id()] = f"failed: {error[0].__name__}: {error[1]}"[:300]

    addError = addFailure

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.by_test[test.id()] = f"failed: {error[0].__name__}: {error[1]}"[:300]


outcomes = Outcomes()
unittest.defaultTestLoader.loadTestsFromName("test." + sys.argv[1]).run(outcomes)
with open("outcomes.json", "w") as file:
    json.dump(outcomes.by_test, file)
os._exit(0)
