"""The API as OpenAPI tells it."""

from __future__ import annotations

import json

from scheduler_service.api.schema import export


def refs(value: object) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(refs(inner) for inner in value.values()))
    if isinstance(value, list):
        return set().union(*(refs(inner) for inner in value))
    return set()


def test_every_type_that_is_named_is_described():
    document = json.loads(export())
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert refs(document) <= known


def test_the_bodies_and_the_problem_are_described():
    schemas = json.loads(export())["components"]["schemas"]
    wanted = {"Submit", "Extend", "Cancel", "Move", "ClaimRequest", "Beat", "Report", "LogChunk"}
    assert wanted | {"Problem", "PodGroupView", "StreamEvent"} <= set(schemas)


def test_the_document_is_the_same_each_time():
    assert export() == export()


def test_every_operation_says_what_a_refusal_looks_like():
    paths = json.loads(export())["paths"]
    answers = [operation["responses"] for path in paths.values() for operation in path.values()]
    assert answers
    assert all("application/problem+json" in answer["default"]["content"] for answer in answers)
