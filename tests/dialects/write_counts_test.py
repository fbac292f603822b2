#!/usr/bin/env python3
"""Tests of write_counts.py. `tests/dialects/run` begins with them."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = Path(__file__).parent / "write_counts.py"
PAGE = "before\n<!-- counts of tests/dialects -->\nold\n<!-- end of counts -->\nafter\n"
PASSED = '<testsuites><testsuite><testcase classname="a.test_a" name="test_one"/></testsuite></testsuites>'


class Counts(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.place = Path(directory.name)
        self.page = self.place / "page.md"
        self.page.write_text(PAGE)

    def write(self, suites: str, **reports: str) -> "subprocess.CompletedProcess[str]":
        (self.place / "suites.txt").write_text(suites)
        for name, report in reports.items():
            (self.place / f"{name}.xml").write_text(report)
        command = [sys.executable, str(PROGRAM), str(self.place), str(self.page)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def refused(self, because: str, suites: str, **reports: str) -> None:
        done = self.write(suites, **reports)
        self.assertEqual((done.returncode, self.page.read_text()), (1, PAGE))
        self.assertIn(because, done.stderr)

    def test_a_whole_run_is_written(self) -> None:
        done = self.write("run one\nleft out two\nend\n", one=PASSED)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        table = "| suite | passed |\n| --- | --- |\n| one | 1 of 1 |\n"
        self.assertEqual(self.page.read_text(), PAGE.replace("old\n", f"\n{table}"))

    def test_a_suite_without_counts_is_named(self) -> None:
        self.refused("'two' was begun", "run one\nrun two\nend\n", one=PASSED)

    def test_a_report_that_is_cut_off_is_named(self) -> None:
        self.refused("'one' was begun", "run one\nend\n", one=PASSED[:60])

    def test_a_run_without_its_end_is_refused(self) -> None:
        self.refused("its last suite is one", "run one\n", one=PASSED)

    def test_a_failure_without_a_reason_is_told(self) -> None:
        done = self.write("run one\nend\n", one=PASSED.replace("/></testsuite>", "><failure/></testcase></testsuite>"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("not explained yet", self.page.read_text())


if __name__ == "__main__":
    unittest.main()
