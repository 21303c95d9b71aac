"""The one command-line option of pytest-kind that suites ask for."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--keep-cluster", action="store_true", help="of no effect: the platform is not the suite's")
