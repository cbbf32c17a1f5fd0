"""Whatever comes in, every rule answers: admission never falls over an object that somebody made up."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.admission.facts import QueueFacts
from scheduler_service.backends.kubernetes.admission.options import Options, with_config
from scheduler_service.backends.kubernetes.admission.pods import SHARE_KEYS
from scheduler_service.backends.kubernetes.admission.review import Request, written
from scheduler_service.backends.kubernetes.admission.rules import RULES, judge, wants
from tests.unit.kubernetes.admission.requests import known

KEYS = [
    *SHARE_KEYS,
    *("metadata", "spec", "labels", "annotations", "containers", "initContainers", "name"),
    *("resources", "limits", "requests", "env", "envFrom", "volumes", "ownerReferences", "uid"),
    *("subGroups", "minMember", "minSubGroup", "parent", "queue", "levels", "nodeLabel", "alias"),
    *("parentQueue", "subjects", "namespaces", "gpu", "quota", "template", "schedulerName"),
    *("nodeName", "configMap", "valueFrom", "claims"),
    *(names.QUEUE_LABEL, names.GPU_RESOURCE, names.POD_GROUP_ANNOTATION, names.OWNER_ANNOTATION),
]
plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6)
values = st.recursive(
    plain | st.sampled_from(["kai-scheduler", "q", "0.5", "NaN", "1"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)
    ),
    max_leaves=25,
)
meta = st.fixed_dictionaries(
    {},
    optional={"labels": values, "annotations": values, "name": values, "ownerReferences": values},
)
spec = st.fixed_dictionaries(
    {"schedulerName": st.just("kai-scheduler")},
    optional={"containers": values, "subGroups": values, "levels": values, "resources": values},
)
objects = st.fixed_dictionaries({}, optional={"metadata": meta | values, "spec": spec | values})
requests = st.builds(
    Request,
    operation=st.sampled_from(["CREATE", "UPDATE", "DELETE"]),
    kind=st.sampled_from(["Pod", "PodGroup", "Queue", "Job"]),
    name=st.text(max_size=4),
    user=st.sampled_from(["ana", "system:serviceaccount:kai-scheduler:kai-scheduler"]),
    object=objects,
    old=objects,
)
FACTS = known("q", QueueFacts("closed", subjects=(), namespaces=()))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(RULES)), requests, st.booleans())
def test_every_rule_answers_whatever_comes_in(path, request, is_strict):
    options = Options(block_visible_devices=is_strict, strict_queues=is_strict)
    assert all(isinstance(name, str) for name in wants(path, request, options).queues)
    answer = judge(path, request, FACTS, options, token="t")
    assert all(sentence.endswith(".") for sentence in answer.refusals + answer.warnings)
    response = json.loads(written(request, answer))["response"]
    assert response["allowed"] is (not answer.refusals)


@given(values)
def test_every_config_is_read(config):
    assert with_config(Options(), config if isinstance(config, dict) else {"spec": config})
