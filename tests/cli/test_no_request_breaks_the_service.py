"""Whatever is sent to a real service, it answers with a view or a sentence, never with a server error."""

from __future__ import annotations

import getpass
import os
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler_service.api.schema import document
from scheduler_service.wire import locate
from tests.fakes.processes import KAI, World

pytestmark = pytest.mark.process

DOCUMENT = document()
ME = {"pid": os.getpid(), "start_ticks": locate.start_ticks(os.getpid())}
STREAMS = {"/api/v1/events", "/api/v1/team/events"}
OPERATIONS = [
    pytest.param(path, method, operation, id=f"{method.upper()} {path}")
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
    if path not in STREAMS
]
LIKELY = st.sampled_from(
    [
        "0.5",
        "1",
        "16",
        "half",
        "-1",
        "0",
        "nan",
        "inf",
        "1e400",
        "8GiB",
        "8 GiB",
        "1e30GiB",
        "default",
    ]
)
ODD = st.sampled_from(["", " ", "/", "..", "ü", "%00", "a" * 300, "🙂", "'; drop table", "train\n"])
NUMBERS = st.sampled_from([0, 1, 2, -1, 15, 10**6, 2**31, 2**53 - 1, -(2**53), 0.5, -0.0, 1e308])
SCALARS = st.none() | st.booleans() | NUMBERS | LIKELY | ODD
WRONG = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(ODD, SCALARS, max_size=2)


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("fuzzed") / "state")
    world.serve(*KAI, "serve", "--simulate-gpus", "2x24GiB", "--no-start-runner")
    world.kai("submit", "-d", "--name", "train", "--gpu", "0.5", "--", "true")
    headers = {"Authorization": f"Bearer {(world.state / 'token').read_text()}"}
    base = world.lock().url
    with httpx.Client(base_url=base, headers=headers, timeout=60, trust_env=False) as client:
        yield client
    world.end()


def values_of(schema: dict) -> st.SearchStrategy:
    """Return values that fit `schema`, roughly: the kind is right, the value often is not."""
    if "$ref" in schema:
        return values_of(DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema:
        return st.one_of([values_of(inner) for inner in schema["anyOf"]])
    if schema.get("type") == "array":
        return st.lists(values_of(schema.get("items", {})), max_size=2)
    return objects_of(schema) if schema.get("type") == "object" else scalar_of(schema)


def scalar_of(schema: dict) -> st.SearchStrategy:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kinds = {
        "integer": NUMBERS.filter(lambda number: isinstance(number, int)),
        "number": NUMBERS,
        "string": LIKELY | ODD,
        "boolean": st.booleans(),
    }
    return kinds.get(schema.get("type", ""), st.none())


def objects_of(schema: dict) -> st.SearchStrategy:
    needed = set(schema.get("required", ()))
    fields = schema.get("properties", {})
    given_fields = {name: values_of(inner) for name, inner in fields.items() if name in needed}
    other_fields = {name: values_of(inner) for name, inner in fields.items() if name not in needed}
    return st.fixed_dictionaries(given_fields, optional=other_fields)


def body_of(operation: dict) -> st.SearchStrategy:
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" not in content:
        return st.none()
    right = values_of(content["application/json"]["schema"])
    return st.integers(0, 9).flatmap(lambda dice: WRONG if dice == 0 else right)


def query_of(operation: dict) -> st.SearchStrategy:
    inside = {
        parameter["name"]: st.one_of(values_of(parameter["schema"]), ODD)
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query" and parameter["name"] != "follow"
    }
    return st.fixed_dictionaries({}, optional=inside)


def path_of(path: str) -> st.SearchStrategy:
    known = st.just((getpass.getuser(), "train"))
    names = st.sampled_from(["train", "x"]) | ODD.filter(bool)
    filled = known | st.tuples(names, names)

    def fill(values: tuple[str, str]) -> str:
        namespace, name = (quote(value, safe="") for value in values)
        return path.format(namespace=namespace, name=name, incarnation=name, cell=name, number=name)

    return filled.map(fill)


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_an_answer_is_never_a_server_error(http, path, method, operation):
    @settings(
        max_examples=20,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    @given(path_of(path), query_of(operation), body_of(operation))
    def ask(where, query, body):
        short = {name: value for name, value in query.items() if value is not None}
        if "wait_s" in short and short["wait_s"] not in {0, -1}:
            short["wait_s"] = 0
        answer = http.request(method, where, params=short, json=body)
        assert answer.status_code < 500, (answer.text, where, short, body)
        if answer.status_code >= 400:
            problem = answer.json()
            assert problem["title"]
            assert problem["hint"]

    ask()


def nearly_good_submits() -> st.SearchStrategy:
    """Return a request that would be granted, with up to two of its fields set to something else."""
    fields = DOCUMENT["components"]["schemas"]["Submit"]["properties"]
    good = {"kind": "lease", "gpu": "0.1", "process": ME}
    names = st.lists(st.sampled_from(sorted(fields)), max_size=2, unique=True)
    changed = names.flatmap(
        lambda chosen: st.fixed_dictionaries({name: values_of(fields[name]) for name in chosen})
    )
    return changed.map(lambda change: good | change)


def test_nearly_good_requests_are_granted_or_refused_in_words(http):
    """Every path behind the first checks of a request is walked, and what was made is looked at in all ways."""
    codes: set[str] = set()

    @settings(max_examples=100, deadline=None, database=None, derandomize=True)
    @given(nearly_good_submits())
    def ask(body):
        answer = http.post("/api/v1/pod-groups", json=body)
        assert answer.status_code < 500, (answer.text, body)
        codes.add(answer.json().get("code", "made"))
        if answer.status_code == 201:
            view = answer.json()
            page = f"/api/v1/pod-groups/{view['namespace']}/{quote(view['name'])}"
            for look in ("", "/explain", "/logs"):
                assert http.get(page + look).status_code == 200, (look, body)
            assert http.post(f"{page}/cancel", json={"grace_s": 0}).status_code == 200, body

    ask()
    assert "made" in codes, codes
    assert len(codes) > 5, codes


def test_the_service_is_still_itself(http):
    health = http.get("/api/v1/health").json()
    assert (health["ok"], health["ready"]) == (True, True)
