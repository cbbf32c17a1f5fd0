"""KAI's fields, as its API has them up to v0.17, are all in our CRDs; what is ours beside them is listed."""

import re
from pathlib import Path

import pytest
import yaml

from scheduler_service.backends.kubernetes import names

CRDS = Path(__file__).parents[4] / "deploy" / "crds"

SHARES = " ".join(
    f"resources.{kind}.{field}"
    for kind in ("gpu", "cpu", "memory")
    for field in ("quota", "limit", "overQuotaWeight")
)
CONSTRAINT = "topology requiredTopologyLevel preferredTopologyLevel"
CONDITION = "type status reason message"
DETAILS = """name queueRequestedResources queueDeservedResources queueAllocatedResources
    queueAllocatedNonPreemptibleResources queueResourceLimits podGroupRequestedResources
    podGroupRequestedNonPreemptibleResources"""


def under(prefix, fields):
    return {f"{prefix}.{field}" for field in fields.split()}


KAI = {
    names.QUEUES: under(
        "spec",
        f"displayName parentQueue priority preemptMinRuntime reclaimMinRuntime {SHARES}",
    )
    | under("status", "childQueues allocated allocatedNonPreemptible requested")
    | under("status.conditions[]", f"{CONDITION} lastProbeTime lastTransitionTime"),
    names.POD_GROUPS: under(
        "spec",
        """queue minMember minSubGroup priorityClassName preemptibility preemptionDelay
        stalenessGracePeriod markUnschedulable schedulingBackoff""",
    )
    | under("spec.topologyConstraint", CONSTRAINT)
    | under("spec.subGroups[]", "name parent minMember minSubGroup")
    | under("spec.subGroups[].topologyConstraint", CONSTRAINT)
    | under("status.resourcesStatus", "allocated allocatedNonPreemptible requested")
    | under("status.conditions[]", f"{CONDITION} transitionID lastTransitionTime")
    | under(
        "status.schedulingConditions[]",
        f"{CONDITION} nodePool transitionID lastTransitionTime reasons[].reason reasons[].message",
    )
    | under("status.schedulingConditions[].reasons[].details.queueDetails", DETAILS),
    names.BIND_REQUESTS: under(
        "spec",
        """podName selectedNode receivedResourceType receivedGPU.count receivedGPU.portion
        selectedGPUGroups[] resourceClaimAllocations[].name resourceClaimAllocations[].allocation
        backoffLimit predictedNUMAZones[].zone predictedNUMAZones[].amount
        extendedResourceClaimAllocation.allocation extendedResourceClaimAllocation.deviceRequests[]
        extendedResourceClaimAllocation.containerMappings[].containerName
        extendedResourceClaimAllocation.containerMappings[].requestName
        extendedResourceClaimAllocation.containerMappings[].resourceName
        selectedFractionalGpuGroups[].id selectedFractionalGpuGroups[].computeSharingMode""",
    )
    | under("status", "phase reason failedAttempts"),
    names.TOPOLOGIES: under("spec.levels[]", "nodeLabel alias"),
    names.SHARDS: under(
        "spec",
        """partitionLabelValue placementStrategy.gpu placementStrategy.cpu args queueDepthPerAction
        minRuntime.preemptMinRuntime minRuntime.reclaimMinRuntime kValue stuckInReleasingThreshold
        goMemLimit goMemLimitRatio plugins.*.enabled plugins.*.priority plugins.*.arguments
        actions.*.enabled actions.*.priority usageDBConfig.clientType usageDBConfig.connectionString
        usageDBConfig.connectionStringEnvVar scenarioSearchBudgets.maxActionSearchDuration
        scenarioSearchBudgets.maxJobSearchDuration scenarioSearchBudgets.minJobSearchDuration
        scenarioSearchBudgets.maxGeneratorSearchDuration""",
    )
    | under(
        "spec.usageDBConfig.usageParams",
        """halfLifePeriod windowSize windowType tumblingWindowStartTime cronString fetchInterval
        stalenessPeriod waitTimeout extraParams""",
    )
    | under("status.conditions[]", f"{CONDITION} observedGeneration lastTransitionTime"),
}
OURS = {
    names.QUEUES: under("spec", "subjects[] namespaces[] showNames idle.after"),
    names.BIND_REQUESTS: under("spec", "podUID"),
}
SHORT = {names.POD_GROUPS: ["pg"]}
WITHOUT_STATUS = {names.TOPOLOGIES}


def crd(resource):
    return yaml.safe_load((CRDS / f"{resource.group}_{resource.plural}.yaml").read_text())


def leaves(schema, path=""):
    """Every field that holds a value, as `spec.levels[].nodeLabel`."""
    properties = schema.get("properties")
    below = schema.get("additionalProperties")
    if properties:
        for name, inner in properties.items():
            yield from leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(below, dict) and below.get("properties"):
        yield from leaves(below, f"{path}.*")
    elif schema.get("type") == "array":
        yield from leaves(schema["items"], f"{path}[]")
    else:
        yield path


def schema_of(resource):
    (version,) = crd(resource)["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]


def loose(fields):
    """A list of plain values is named with or without its brackets."""
    return {re.sub(r"\[\]$", "", field) for field in fields}


@pytest.mark.parametrize("resource", KAI, ids=lambda one: one.kind)
def test_every_field_of_kai_is_there_and_nothing_that_is_not_listed(resource):
    found = {f for f in leaves(schema_of(resource)) if f.partition(".")[0] in {"spec", "status"}}
    assert loose(found) == loose(KAI[resource] | OURS.get(resource, set()))


@pytest.mark.parametrize("resource", [*KAI, names.CONFIGS], ids=lambda one: one.kind)
def test_groups_versions_names_and_scope_are_kais(resource):
    spec = crd(resource)["spec"]
    (version,) = spec["versions"]
    assert (spec["group"], version["name"]) == (resource.group, resource.version)
    assert (spec["names"]["plural"], spec["names"]["kind"]) == (resource.plural, resource.kind)
    assert spec["names"]["singular"] == resource.kind.lower()
    assert spec["scope"] == ("Namespaced" if resource.namespaced else "Cluster")
    assert spec["names"].get("shortNames", []) == SHORT.get(resource, [])
    assert ("status" in version.get("subresources", {})) is (resource not in WITHOUT_STATUS)


def test_a_queue_is_listed_as_kai_lists_it():
    (version,) = crd(names.QUEUES)["spec"]["versions"]
    columns = [(one["name"], one["jsonPath"]) for one in version["additionalPrinterColumns"]]
    assert columns == [
        ("Priority", ".spec.priority"),
        ("Parent", ".spec.parentQueue"),
        ("Children", ".status.childQueues"),
        ("DisplayName", ".spec.displayName"),
    ]


def required(schema, path=""):
    for name in schema.get("required", ()):
        yield f"{path}.{name}" if path else name
    for name, inner in schema.get("properties", {}).items():
        yield from required(inner, f"{path}.{name}" if path else name)
    if schema.get("type") == "array":
        yield from required(schema["items"], f"{path}[]")


@pytest.mark.parametrize("resource", OURS, ids=lambda one: one.kind)
def test_what_is_ours_is_optional(resource):
    assert not loose(required(schema_of(resource))) & loose(OURS[resource])
