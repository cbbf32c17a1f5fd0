"""What bad bodies get: one sentence that names the field, and never a server error."""

from __future__ import annotations

import json

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.api.bodies import BODIES, parse
from scheduler_service.errors import RequestError
from scheduler_service.wire import pod_group
from tests.fakes.api_server import running_api

ANA = {"Authorization": "Bearer ana-token"}
SMALL = 1 << 16


@pytest.fixture(scope="module")
def api():
    with running_api(payload_limit_bytes=SMALL, result_limit_bytes=SMALL) as running:
        yield running


@pytest.fixture
def http(api):
    with httpx.Client(base_url=f"{api.url}/api/v1", headers=ANA, trust_env=False) as client:
        yield client


@pytest.mark.parametrize(
    ("body", "code", "told"),
    [
        (b'{"gpu": NaN}', "bad_json", "NaN"),
        (b'{"gpu": Infinity}', "bad_json", "NaN"),
        (b"{", "bad_json", "not valid JSON"),
        (b"\xff\xfe", "bad_json", "not valid JSON"),
        (b"[1]", "bad_field", "The body"),
        (b'{"workers": "four"}', "bad_field", "'workers'"),
        (b'{"gpu": true}', "bad_field", "'gpu'"),
        (b'{"gpu": [0.5]}', "bad_field", "'gpu'"),
        (b'{"kind": "session"}', "bad_field", "'kind'"),
        (b'{"work": {"command": ["echo", 1]}}', "bad_field", "'work.command[1]'"),
        (b'{"workers": 123456789012345678901234567890}', "bad_field", "workers"),
        (b'{"name": "a\\u0000b"}', "bad_field", "NUL"),
        (b'{"gpus": 2}', "unknown_field", "'gpu'"),
        (b"[" * 100_000, "bad_json", "not valid JSON"),
        (b'{"gpu": "half"}', "bad_gpu_amount", "'half'"),
    ],
)
def test_a_bad_body_is_refused_with_a_sentence_that_names_the_field(http, body, code, told):
    answer = http.post("/pod-groups", content=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["code"] == code
    assert problem["status"] == 422
    assert told in " ".join((problem["title"], problem["detail"], problem["hint"]))


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("/cycles?last=0", "last"),
        ("/cycles?last=many", "last"),
        ("/forecast?workers=1e3", "workers"),
        ("/forecast?workers=99999999999999999999999", "workers"),
        ("/forecast?kind=session", "kind"),
        ("/pod-groups?state=Pending", "state"),
        ("/pod-groups?mine=perhaps", "mine"),
        ("/pod-groups/ana/x/logs?tail=-1", "tail"),
        ("/pod-groups/ana/x/logs?wait_s=nan", "wait_s"),
        ("/runner/orders?runner=r&wait_s=3600", "wait_s"),
        ("/events?since=-1", "since"),
    ],
)
def test_a_bad_parameter_is_named(http, query, name):
    answer = http.get(query)
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["code"] == "bad_parameter"
    assert f"'{name}'" in problem["title"]


def test_an_unknown_address_and_a_wrong_method_are_told_in_the_same_form(http):
    unknown, wrong = http.get("/pods"), http.delete("/queues")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")
    assert (wrong.status_code, wrong.json()["code"]) == (405, "method_not_allowed")


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_payload_over_the_limit_is_told_with_both_numbers(http, is_streamed):
    """When the writer is still writing, the sentence must reach it all the same."""
    body = b"x" * (3 * SMALL)
    content = iter([body[:SMALL], body[SMALL:]]) if is_streamed else body
    answer = http.post("/payloads", content=content)
    assert answer.status_code == 413
    assert answer.json()["code"] == "payload_too_large"
    assert answer.json()["facts"]["limit"] == SMALL


def test_a_payload_at_the_limit_is_stored(http):
    answer = http.post("/payloads", content=b"x" * SMALL)
    assert answer.status_code == 201
    assert answer.json()["size"] == SMALL


def test_a_json_body_over_a_mebibyte_is_refused(http):
    answer = http.post("/pod-groups", content=b'{"name": "' + b"a" * (1 << 20) + b'"}')
    assert answer.status_code == 413


def test_the_same_key_gives_the_first_group_again(http):
    """When an answer was lost on the way and the program asks again."""
    body = {"name": "twice", "gpu": "0.1"}
    first = http.post("/pod-groups", json=body, headers={"Idempotency-Key": "k1"})
    again = http.post("/pod-groups", json=body, headers={"Idempotency-Key": "k1"})
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()


@pytest.mark.parametrize(
    ("header", "value", "code"),
    [
        ("Host", "evil.example", "unknown_host"),
        ("Host", "127.0.0.1.evil.example:80", "unknown_host"),
        ("Host", "[::1", "unknown_host"),
        ("Origin", "https://evil.example", "foreign_origin"),
        ("Origin", "null", "foreign_origin"),
    ],
)
def test_no_page_reaches_the_service_by_another_name(http, header, value, code):
    """When a web page points its own name at 127.0.0.1 (DNS rebinding), or posts a form."""
    answer = http.get("/health", headers={header: value})
    assert answer.status_code == 403
    assert answer.json()["code"] == code


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1:1234", "[::1]:80"])
def test_the_machines_own_names_are_answered(http, name):
    assert http.get("/health", headers={"Host": name}).status_code == 200


def test_no_answer_allows_other_origins(http):
    assert "access-control-allow-origin" not in http.get("/queues").headers


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def nearly_right(draw):
    """A body of a wire type with some of its fields, each perhaps of a wrong kind."""
    kind = draw(st.sampled_from(BODIES))
    names = [field.name for field in msgspec.inspect.type_info(kind).fields]
    chosen = draw(st.lists(st.sampled_from(names), unique=True))
    return kind, {name: draw(json_values) for name in chosen}


def outcome(kind: type, body: bytes) -> object:
    """Return what `body` is read as: a value, or the sentence of the refusal."""
    try:
        return parse(kind, body)
    except RequestError as refusal:
        return str(refusal)


@given(nearly_right())
@settings(max_examples=300, deadline=None)
def test_any_json_is_a_body_or_a_sentence(case):
    kind, body = case
    assert isinstance(outcome(kind, json.dumps(body).encode()) or None, (kind, str))


@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_a_body_or_a_sentence(body):
    assert isinstance(outcome(pod_group.Submit, body) or None, (pod_group.Submit, str))
