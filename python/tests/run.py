#!/usr/bin/env python3
"""Runs the tests beside it, or those of the modules named (index, loader, …), and adds up what they say.

    PYTHONPATH=python python/tests/run.py [MODULE…]     (make check-python calls it)
"""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent


class Result(unittest.TextTestResult):
    passed = 0

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self.passed += 1


def main() -> int:
    loader = unittest.TestLoader()
    suite = unittest.TestSuite(loader.discover(str(HERE), f"test_{name}.py") for name in sys.argv[1:] or ["*"])
    result = unittest.TextTestRunner(stream=sys.stdout, resultclass=Result, verbosity=2).run(suite)
    for reason in sorted({reason for _, reason in result.skipped}):
        print(f"skipped: {reason}")
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    print(f"{result.passed} passed, {failed} failed, {len(result.skipped)} skipped")
    return 1 if failed or not result.passed else 0


if __name__ == "__main__":
    sys.exit(main())
