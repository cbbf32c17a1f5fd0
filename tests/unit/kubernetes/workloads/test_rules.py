"""The rules of what may be started, as they are written in a ConfigMap."""

import pytest

from scheduler_service.backends.kubernetes.workloads.rules import NO_RULES, Rules, name_of, rules_of
from scheduler_service.errors import ConfigurationError


def test_no_config_map_allows_nothing():
    assert rules_of(None) == rules_of({}) == NO_RULES
    assert not NO_RULES.allows("anything")


def test_the_rules_are_read_with_the_names_of_kubernetes():
    rules = rules_of(
        {
            "rules.yaml": """
images: ["example.local/team/*"]
defaultImage: example.local/team/a:1
profiles:
  big: {cpu: "8", nodeSelector: {pool: big}, tolerations: [{key: x, operator: Exists}]}
runAsUser: 1001
"""
        }
    )
    assert rules.allows("example.local/team/b:2")
    assert not rules.allows("example.local/other:2")
    assert rules.profiles["big"].node_selector == {"pool": "big"}
    assert rules.run_as_user == 1001


@pytest.mark.parametrize("text", ["imags: [a]", "images: 3", "images: [", "- a"])
def test_what_can_not_be_read_is_told_with_where_it_stands(text):
    with pytest.raises(ConfigurationError, match="kai-submit"):
        rules_of({"rules.yaml": text})


def test_users_get_names_that_no_two_share():
    assert name_of("ana") == "ana"
    assert name_of("Ana") != "ana"
    assert len({name_of(user) for user in ("a.b", "a-b", "a_b", "A-b", "@")}) == 5
    rules = Rules(namespace="jupyter-{user}", folder="claim-{user}")
    assert rules.namespace_of("ana") == "jupyter-ana"
    assert rules.folder_of("ana") == "claim-ana"
