"""The flag that writes what grouping answers now into the expected files."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --update-golden: run this folder with it, then read the difference as code."""
    parser.addoption("--update-golden", action="store_true", help="write the expected groups anew")
