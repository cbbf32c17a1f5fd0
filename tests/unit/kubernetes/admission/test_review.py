"""What comes over the wire and what goes back."""

import base64
import json

import pytest

from scheduler_service.backends.kubernetes.admission.facts import QueueFacts, queue_facts
from scheduler_service.backends.kubernetes.admission.options import Options, with_config
from scheduler_service.backends.kubernetes.admission.review import Answer, Request, read, written
from scheduler_service.backends.kubernetes.admission.rules import judge
from scheduler_service.errors import RequestError
from tests.unit.kubernetes.admission.requests import OPTIONS, creation, known, pod

REVIEW = {
    "kind": "AdmissionReview",
    "apiVersion": "admission.k8s.io/v1",
    "request": {
        "uid": "7",
        "operation": "DELETE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "name": "p",
        "namespace": "ns",
        "userInfo": {"username": "ana", "groups": ["g"], "extra": {"x": ["y"]}},
        "object": None,
        "oldObject": {"metadata": {"name": "p"}},
        "dryRun": False,
    },
}


def test_a_review_is_read():
    request = read(json.dumps(REVIEW).encode())
    assert (request.uid, request.user, request.groups) == ("7", "ana", frozenset({"g"}))
    assert request.object == {}
    assert request.subject == {"metadata": {"name": "p"}}
    assert not request.is_new


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"request": {"uid": 7}}'])
def test_anything_else_is_said_to_be_none(body):
    with pytest.raises(RequestError, match="not an AdmissionReview") as caught:
        read(body)
    assert caught.value.status == 400


def response_of(answer):
    return json.loads(written(Request(uid="7"), answer))["response"]


def test_a_refusal_carries_its_sentences():
    response = response_of(Answer(("One.", "Two."), ("Mind.",)))
    assert response["allowed"] is False
    assert response["status"]["message"] == "One. Two."
    assert response["warnings"] == ["Mind."]


def test_a_patch_is_a_json_patch():
    response = response_of(Answer(patch=({"op": "add", "path": "/a", "value": 1},)))
    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"])) == [
        {"op": "add", "path": "/a", "value": 1}
    ]


def test_a_refused_object_gets_no_patch():
    assert "patch" not in response_of(Answer(("No.",), patch=({"op": "add"},)))


def test_two_answers_are_one_and_say_a_thing_once():
    both = Answer(("No.",), ("a",)) + Answer(("No.",), ("b",))
    assert both == Answer(("No.",), ("a", "b"))


def test_a_path_that_is_not_known_lets_in():
    assert judge("/elsewhere", creation(pod()), known(), OPTIONS, token="t").is_allowed


def test_the_config_object_wins_where_it_speaks():
    config = {
        "spec": {
            "global": {"schedulerName": "mine", "queueLabelKey": "team"},
            "admission": {
                "gpuSharing": False,
                "gpuPodRuntimeClassName": "old",
                "blockNvidiaVisibleDevices": True,
            },
            "binder": {"plugins": {"hamicore": {"enabled": True}}},
        }
    }
    told = with_config(Options(namespace="here"), config)
    assert told == Options(
        namespace="here",
        scheduler_name="mine",
        queue_label="team",
        gpu_sharing=False,
        fraction_runtime_class="old",
        block_visible_devices=True,
        memory_limit_in_container=True,
    )


@pytest.mark.parametrize(
    ("admission", "expected"),
    [
        ({}, "nvidia"),
        ({"gpuFractionRuntimeClassName": ""}, ""),
        ({"gpuFractionRuntimeClassName": "new", "gpuPodRuntimeClassName": "old"}, "new"),
    ],
)
def test_the_newer_field_of_the_runtime_class_wins(admission, expected):
    told = with_config(Options(), {"spec": {"admission": admission}})
    assert told.fraction_runtime_class == expected


@pytest.mark.parametrize("config", [None, {}, {"spec": None}, {"spec": {"global": []}}])
def test_no_config_changes_nothing(config):
    assert with_config(Options(), config) == Options()


def test_a_queue_object_is_read():
    raw = json.dumps(
        {
            "metadata": {"name": "q", "deletionTimestamp": "2030-01-01T00:00:00Z"},
            "spec": {
                "parentQueue": "top",
                "subjects": ["user:ana"],
                "resources": {"gpu": {"quota": 2, "overQuotaWeight": 1}},
            },
        }
    ).encode()
    assert queue_facts(raw) == QueueFacts(
        "q",
        parent="top",
        subjects=("user:ana",),
        shares={"gpu": {"quota": 2.0, "limit": 0, "overQuotaWeight": 1.0}},
        is_leaving=True,
    )
