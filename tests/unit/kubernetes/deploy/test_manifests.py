"""The manifests agree with themselves and with the program: names, selectors, ports, flags, rights."""

from collections import defaultdict
from pathlib import Path

import click
import pytest
import yaml

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.admission.rules import RULES
from scheduler_service.cli.commands import kai
from scheduler_service.grouping.table import TABLE

ROOT = Path(__file__).parents[4]
MANIFESTS = ROOT / "deploy" / "manifests"
CHART = ROOT / "deploy" / "chart" / "kai-jupyter"


def documents():
    return [
        document
        for path in sorted(MANIFESTS.rglob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
    ]


def of(kind):
    return [document for document in documents() if document["kind"] == kind]


def key(document):
    return document["metadata"].get("namespace", ""), document["metadata"]["name"]


def programs():
    return of("Deployment") + of("DaemonSet")


def selects(selector, labels):
    wanted = selector.get("matchLabels", selector if "matchExpressions" not in selector else {})
    listed = all(labels.get(e["key"]) in e["values"] for e in selector.get("matchExpressions", ()))
    return listed and all(labels.get(name) == value for name, value in wanted.items())


def selected(selector):
    return [
        one
        for one in programs()
        if selects(selector, one["spec"]["template"]["metadata"]["labels"])
    ]


def ports(program):
    containers = program["spec"]["template"]["spec"]["containers"]
    return {
        port["name"]: port["containerPort"] for one in containers for port in one.get("ports", ())
    }


def test_accounts_roles_and_bindings_belong_together():
    accounts = {key(one) for one in of("ServiceAccount")}
    roles = {("ClusterRole", "", key(one)[1]) for one in of("ClusterRole")}
    roles |= {("Role", *key(one)) for one in of("Role")}
    for binding in of("ClusterRoleBinding") + of("RoleBinding"):
        reference = binding["roleRef"]
        place = key(binding)[0] if reference["kind"] == "Role" else ""
        assert (reference["kind"], place, reference["name"]) in roles
        for subject in binding["subjects"]:
            assert (subject["namespace"], subject["name"]) in accounts
    for program in programs():
        account = program["spec"]["template"]["spec"]["serviceAccountName"]
        assert (key(program)[0], account) in accounts


def test_names_are_those_that_the_program_knows():
    accounts = {key(one) for one in of("ServiceAccount")}
    home, reserved = names.NAMESPACE, names.RESERVATION_NAMESPACE
    for account in (
        names.ACCOUNT_SCHEDULER,
        names.ACCOUNT_BINDER,
        names.ACCOUNT_WEBHOOK,
        names.ACCOUNT_AGENT,
    ):
        assert (home, account) in accounts
    assert (reserved, names.ACCOUNT_RESERVATION) in accounts
    assert {key(one)[1] for one in of("Namespace")} == {
        home,
        reserved,
        names.SCALE_ADJUST_NAMESPACE,
    }
    classes = {key(one)[1]: one["value"] for one in of("PriorityClass")}
    assert classes == names.PRIORITY_OF_CLASS
    parents = {key(one)[1]: one["spec"].get("parentQueue") for one in of("Queue")}
    assert parents == {
        names.DEFAULT_QUEUE: names.DEFAULT_PARENT_QUEUE,
        names.DEFAULT_PARENT_QUEUE: None,
    }
    assert [key(one)[1] for one in of("Config")] == [names.CONFIG_NAME]


@pytest.mark.parametrize("program", programs(), ids=lambda one: one["metadata"]["name"])
def test_every_flag_that_is_set_is_known(program):
    """Parsed as the command line would: a flag that was renamed is noticed here, not in a crash loop."""
    (container,) = program["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["kai"]
    name, *arguments = container["args"]
    command = kai.get_command(click.Context(kai), name)
    assert command.make_context(name, arguments, parent=click.Context(kai)).params


@pytest.mark.parametrize("program", programs(), ids=lambda one: one["metadata"]["name"])
def test_every_pod_is_restricted_and_bounded(program):
    spec = program["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not any("hostPath" in volume for volume in spec["volumes"])
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    assert {"requests", "limits"} <= set(container["resources"])
    assert "memory" in container["resources"]["limits"]
    assert "/" not in container["image"]


@pytest.mark.parametrize("program", of("Deployment"), ids=lambda one: one["metadata"]["name"])
def test_two_replicas_stand_apart_and_are_looked_after(program):
    spec = program["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert program["spec"]["replicas"] == 2
    assert spec["topologySpreadConstraints"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] in ports(program)


def test_services_lead_to_ports_that_are_there():
    for service in of("Service"):
        (program,) = selected(service["spec"]["selector"])
        for port in service["spec"]["ports"]:
            assert port["targetPort"] in ports(program)


def test_budgets_and_policies_select_what_runs():
    for budget in of("PodDisruptionBudget"):
        (program,) = selected(budget["spec"]["selector"])
        strategy = program["spec"]["strategy"]["rollingUpdate"]
        assert strategy["maxUnavailable"] == 0, "who has a budget is rolled one by one"
    for policy in of("NetworkPolicy"):
        spec = policy["spec"]
        if not spec["podSelector"]:
            assert "ingress" not in spec
            continue
        chosen = selected(spec["podSelector"])
        assert chosen
        for rule in spec.get("ingress", ()):
            for port in rule["ports"]:
                assert all(port["port"] in ports(program) for program in chosen)


def test_monitors_find_their_services():
    services = {service["metadata"]["labels"]["app"]: service for service in of("Service")}
    monitors = of("ServiceMonitor")
    assert len(monitors) == len(services)
    for monitor in monitors:
        (app,) = monitor["spec"]["selector"]["matchLabels"].values()
        known = {port["name"] for port in services[app]["spec"]["ports"]}
        assert {end["port"] for end in monitor["spec"]["endpoints"]} <= known


def hooks():
    configurations = of("MutatingWebhookConfiguration") + of("ValidatingWebhookConfiguration")
    return [hook for one in configurations for hook in one["webhooks"]]


def test_webhooks_ask_for_rules_that_are_there_and_every_rule_is_asked():
    services = {key(one): one for one in of("Service")}
    for hook in hooks():
        target = hook["clientConfig"]["service"]
        service = services[target["namespace"], target["name"]]
        assert target["port"] in [port["port"] for port in service["spec"]["ports"]]
        assert hook["sideEffects"] == "None"
    assert {hook["clientConfig"]["service"]["path"] for hook in hooks()} == set(RULES)


OURS_ALONE = (
    *("podgroups", "kai.scheduler/queue", "kai.scheduler/owner"),
    "object.spec.schedulerName == 'kai-scheduler'",
)


def test_only_what_is_ours_waits_for_a_webhook_that_is_away():
    """`Fail` only where a condition says that the object names our scheduler, our queue, whose it is, or is a group."""
    for hook in hooks():
        if hook["failurePolicy"] == "Fail":
            said = (
                str(hook.get("matchConditions"))
                + str(hook.get("objectSelector"))
                + str(hook["rules"])
            )
            assert any(word in said for word in OURS_ALONE), hook["name"]
            assert not any("delete" in str(rule).lower() for rule in hook["rules"]), hook["name"]


def test_kube_system_is_never_asked_about():
    for hook in hooks():
        is_of_pods = any("pods" in rule["resources"] for rule in hook["rules"])
        everything = any("*" in rule["resources"] for rule in hook["rules"])
        if is_of_pods or everything:
            left_out = hook["namespaceSelector"]["matchExpressions"][0]
            assert left_out["operator"] == "NotIn"
            assert "kube-system" in left_out["values"]


def rights(role):
    found = defaultdict(set)
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                found[group, resource] |= set(rule["verbs"])
    return found


def test_owners_of_every_kind_that_is_grouped_can_be_read():
    (role,) = [one for one in of("ClusterRole") if key(one)[1] == "kai-jupyter:scheduler"]
    readable = {group for (group, _), verbs in rights(role).items() if {"get", "list"} <= verbs}
    assert {kind.group for kind in TABLE} - readable == set()


def test_no_role_of_a_program_has_a_wildcard_or_reads_secrets():
    bound = {one["roleRef"]["name"] for one in of("ClusterRoleBinding") + of("RoleBinding")}
    for role in of("ClusterRole") + of("Role"):
        if key(role)[1] not in bound:
            continue
        for rule in role["rules"]:
            assert "*" not in rule["apiGroups"] + rule["resources"] + rule["verbs"]
            assert "secrets" not in rule["resources"] or rule["resourceNames"]


def test_chart_and_package_have_one_version():
    from kai_jupyter._version import __version__

    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_crds_lie_in_one_place():
    assert (CHART / "crds").resolve() == (ROOT / "deploy" / "crds").resolve()
