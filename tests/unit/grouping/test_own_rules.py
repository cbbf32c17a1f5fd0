"""Rules and defaults that the owner of a cluster writes: mistakes are sentences and spoil nothing else."""

from __future__ import annotations

import pytest

from scheduler_service.errors import ConfigurationError
from scheduler_service.grouping.objects import Kind
from scheduler_service.grouping.own_rules import read_own_rules
from scheduler_service.grouping.settings import KindDefaults, read_kind_defaults
from scheduler_service.model.pod_group import Preemptibility

GOOD = "rules:\n- {group: example.com, kind: Run, minMember: spec.replicas}\n"


def test_bad_entry_spoils_itself_alone() -> None:
    """Two teams keep their rules in two entries."""
    found = read_own_rules({"a.yaml": "rules: [", "b.yaml": GOOD})
    assert set(found.rows) == {Kind("example.com", "Run")}
    assert len(found.problems) == 1
    assert found.problems[0].startswith("a.yaml can not be used.")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "rules:\n- {kind: Run, minMembers: 2}\n",
            "can not be used. Object contains unknown field minMembers - at $.rules[0]. Correct",
        ),
        ("- kind: Run\n", "Expected object, got array"),
        ("rules:\n- {group: apps, kind: Deployment}\n", "has a rule already"),
        ("rules:\n- {kind: Run}\n- {kind: Run}\n", "Run has two rules."),
        ("rules:\n- {kind: ''}\n", "a rule has no kind."),
        ("rules:\n- {kind: Run, split: pod, minMember: 2}\n", "Run is split by pod"),
        (
            "rules:\n- {kind: Run, subGroups: [{name: a, pods: {}}]}\n",
            "Run: each sub-group needs a name of its own and the labels of its pods.",
        ),
        (
            "rules:\n- kind: Run\n  subGroups: [{name: a, pods: {r: a}}, {name: a, pods: {r: b}}]\n",
            "each sub-group needs a name of its own",
        ),
    ],
)
def test_mistake_is_told(text: str, problem: str) -> None:
    """A typing error must not silently group by the default."""
    found = read_own_rules({"own.yaml": text})
    assert len(found.problems) == 1
    assert problem in found.problems[0]


def test_entry_with_another_ending_is_told() -> None:
    """Nobody should wonder why a rule does nothing."""
    assert read_own_rules({"rules": GOOD}).problems == (
        "rules is not read: name the entry rules.yaml.",
    )


def test_defaults_by_kind_are_read() -> None:
    """KAI's ConfigMap, its own spelling."""
    types = (
        '[{"typeName": "Notebook", "group": "kubeflow.org", "priorityName": "build"},'
        ' {"typeName": "Job", "preemptibility": "non-preemptible"}]'
    )
    assert read_kind_defaults({"types": types}) == {
        "Notebook.kubeflow.org": KindDefaults("build"),
        "Job": KindDefaults("", Preemptibility.NON_PREEMPTIBLE),
    }


@pytest.mark.parametrize(
    ("types", "why"),
    [
        ("[", "types is not JSON"),
        ("{}", "types is not a list"),
        ("[3]", "Entry 0 of types is not a mapping of texts"),
        ('[{"group": "apps"}]', "Entry 0 of types has no typeName"),
        ('[{"typeName": "Job", "preemptibility": "no"}]', "'no' of Job is no preemptibility"),
    ],
)
def test_wrong_defaults_are_a_sentence(types: str, why: str) -> None:
    """The service says it at start and goes on with what it had."""
    with pytest.raises(ConfigurationError, match=why):
        read_kind_defaults({"types": types})
