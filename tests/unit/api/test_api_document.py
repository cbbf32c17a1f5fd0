"""docs/api.md and the routes are the same list."""

from __future__ import annotations

import re
from pathlib import Path

from scheduler_service.api.schema import document

ROW = re.compile(r"^\| `(GET|POST|PUT|DELETE) (/[^`]*)` \|", re.MULTILINE)


def test_every_route_is_in_the_document_and_every_line_is_a_route():
    text = (Path(__file__).parents[3] / "docs" / "api.md").read_text("utf-8")
    told = {(method, f"/api/v1{path}") for method, path in ROW.findall(text)}
    served = {
        (method.upper(), path)
        for path, operations in document()["paths"].items()
        for method in operations
    }
    assert told == served
