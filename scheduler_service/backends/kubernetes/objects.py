"""The parts of the API's objects that we read, as flat as the API has them. Decoding skips everything else.

Rule: no meaning is computed here (that is `decode`); the names are the API's, in our case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from scheduler_service.model.resources import nothing

S = TypeVar("S")
Labels = Mapping[str, str]
Quantities = Mapping[str, str | int | float]


class OwnerReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Who made an object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool | None = None


class Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Name, version, labels and moments (RFC 3339 texts, "" = none) of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: Labels = msgspec.field(default_factory=nothing)
    annotations: Labels = msgspec.field(default_factory=nothing)
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    deletion_grace_period_seconds: int | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """namespace/name, or the name alone where there is no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class AnyObject(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Any object: only what all of them have."""

    metadata: Meta
    api_version: str = ""
    kind: str = ""


class Condition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A condition of a status."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


# -- pods ------------------------------------------------------------------------------------------------


class Requirements(msgspec.Struct, frozen=True, gc=False):
    """What a container asks and may use at most."""

    requests: Quantities = msgspec.field(default_factory=nothing)
    limits: Quantities = msgspec.field(default_factory=nothing)


NO_REQUIREMENTS = Requirements()


class Port(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A port of a container; with `host_port` only one such pod fits a node."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class KeyReference(msgspec.Struct, frozen=True, gc=False):
    """Names a ConfigMap (and maybe one key) that must be there."""

    name: str = ""
    key: str = ""
    optional: bool = False


class EnvSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Where a variable's value comes from."""

    config_map_key_ref: KeyReference | None = None


class Env(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A variable of a container."""

    name: str = ""
    value: str = ""
    value_from: EnvSource | None = None


class EnvFrom(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A ConfigMap all of whose keys become variables."""

    config_map_ref: KeyReference | None = None


class Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A container, as far as scheduling reads it."""

    name: str = ""
    resources: Requirements = NO_REQUIREMENTS
    restart_policy: str = ""
    ports: tuple[Port, ...] = ()
    env: tuple[Env, ...] = ()
    env_from: tuple[EnvFrom, ...] = ()


class Named(msgspec.Struct, frozen=True, gc=False):
    """Something known by its name."""

    name: str = ""


class ClaimVolume(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A volume that is a PersistentVolumeClaim of the namespace."""

    claim_name: str = ""


class ProjectedSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One source of a projected volume."""

    config_map: KeyReference | None = None


class Projected(msgspec.Struct, frozen=True, gc=False):
    """A projected volume."""

    sources: tuple[ProjectedSource, ...] = ()


class Volume(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A volume of a pod."""

    name: str = ""
    persistent_volume_claim: ClaimVolume | None = None
    config_map: KeyReference | None = None
    projected: Projected | None = None
    ephemeral: Any = None


class PodClaim(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A resource claim that a pod uses: by name, or made from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class Toleration(msgspec.Struct, frozen=True, gc=False):
    """What a pod bears of taints."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Expression(msgspec.Struct, frozen=True, gc=False):
    """One requirement of a selector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Which pods are meant."""

    match_labels: Labels = msgspec.field(default_factory=nothing)
    match_expressions: tuple[Expression, ...] = ()


class NodeTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A term of a node selector: all of its requirements."""

    match_expressions: tuple[Expression, ...] = ()
    match_fields: tuple[Expression, ...] = ()


class NodeSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Terms, one of which is enough."""

    node_selector_terms: tuple[NodeTerm, ...] = ()


class PreferredNodeTerm(msgspec.Struct, frozen=True, gc=False):
    """A term that is liked, by weight."""

    weight: int = 1
    preference: NodeTerm = NodeTerm()


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class NodeAffinity(
    msgspec.Struct, frozen=True, gc=False, rename={"required": REQUIRED, "preferred": PREFERRED}
):
    """Where a pod must and would like to be."""

    required: NodeSelector | None = None
    preferred: tuple[PreferredNodeTerm, ...] = ()


class PodTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Near (or far from) pods of a kind, by a topology key."""

    label_selector: LabelSelector | None = None
    topology_key: str = ""
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


class PreferredPodTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Such a term, liked by weight."""

    weight: int = 1
    pod_affinity_term: PodTerm = PodTerm()


class PodAffinity(
    msgspec.Struct, frozen=True, gc=False, rename={"required": REQUIRED, "preferred": PREFERRED}
):
    """Which pods must and should be near (or far)."""

    required: tuple[PodTerm, ...] = ()
    preferred: tuple[PreferredPodTerm, ...] = ()


class Affinity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """All affinity of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a pod asks for."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Quantities = msgspec.field(default_factory=nothing)
    node_name: str = ""
    scheduler_name: str = ""
    priority_class_name: str = ""
    priority: int | None = None
    node_selector: Labels = msgspec.field(default_factory=nothing)
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    scheduling_gates: tuple[Named, ...] = ()
    resource_claims: tuple[PodClaim, ...] = ()
    volumes: tuple[Volume, ...] = ()
    termination_grace_period_seconds: int | None = None
    runtime_class_name: str = ""


class ClaimStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The name of the claim that was made from a pod's template."""

    name: str = ""
    resource_claim_name: str = ""


class Terminated(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a container ended."""

    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    finished_at: str | None = None


class ContainerState(msgspec.Struct, frozen=True, gc=False):
    """How a container is, as far as its end is concerned."""

    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, gc=False):
    """What the kubelet says of a container."""

    state: ContainerState = ContainerState()


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a pod is."""

    phase: str = ""
    reason: str = ""
    conditions: tuple[Condition, ...] = ()
    start_time: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    nominated_node_name: str = ""
    resource_claim_statuses: tuple[ClaimStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()

    @property
    def ends(self) -> tuple[Terminated, ...]:
        """How its containers ended, those that did."""
        found = (item.state.terminated for item in self.container_statuses)
        return tuple(end for end in found if end is not None)

    def condition(self, type_: str) -> Condition | None:
        """Return the condition of a type, if there is one."""
        return next((item for item in self.conditions if item.type == type_), None)


class RawPod(msgspec.Struct, frozen=True, gc=False):
    """A pod of the API."""

    metadata: Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def key(self) -> str:
        """namespace/name."""
        return self.metadata.key

    @property
    def is_over(self) -> bool:
        """Whether it ended for good."""
        return self.status.phase in {"Succeeded", "Failed"}


# -- nodes -----------------------------------------------------------------------------------------------


class NodeTaint(msgspec.Struct, frozen=True, gc=False):
    """What keeps pods away."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(msgspec.Struct, frozen=True, gc=False):
    """What an operator says of a node."""

    taints: tuple[NodeTaint, ...] = ()
    unschedulable: bool = False


class NodeStatus(msgspec.Struct, frozen=True, gc=False):
    """What a node has and how it is."""

    allocatable: Quantities = msgspec.field(default_factory=nothing)
    capacity: Quantities = msgspec.field(default_factory=nothing)
    conditions: tuple[Condition, ...] = ()


class RawNode(msgspec.Struct, frozen=True, gc=False):
    """A node of the API."""

    metadata: Meta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


# -- small ones ---------------------------------------------------------------------------------------------


class RawPriorityClass(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A priority class of the API."""

    metadata: Meta
    value: int = 0
    global_default: bool = False


class RawNamespace(msgspec.Struct, frozen=True, gc=False):
    """A namespace of the API."""

    metadata: Meta


def decoder(kind: type[S]) -> Callable[[bytes], S]:
    """Return a function that decodes objects of one kind; kept by the caller, because making one costs."""
    return msgspec.json.Decoder(kind).decode


def encode(value: Any) -> bytes:
    """Return JSON."""
    return msgspec.json.encode(value)


decode_any = decoder(AnyObject)
decode_pod = decoder(RawPod)
decode_node = decoder(RawNode)
decode_priority_class = decoder(RawPriorityClass)
