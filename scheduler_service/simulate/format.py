"""The format of scenarios, snapshots and captures, field by field.

What belongs here: which fields exist, which may be left out, and what a value may look like.
The fields are FORMAT.md's; those under "ours" carry what a live cluster has besides. What never
does: the model's words. `translate` and `capture` turn one into the other.
"""

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

Count: TypeAlias = Annotated[int, Meta(ge=0)]
Positive: TypeAlias = Annotated[int, Meta(ge=1)]
Milli: TypeAlias = Annotated[int, Meta(ge=1, le=1000)]
Seconds: TypeAlias = int | float
"""Whole seconds in scenarios; captures may be exact to the millisecond."""

Action: TypeAlias = Literal[
    "allocate", "consolidation", "reclaim", "preempt", "stale_gang_eviction", "cycle"
]
CycleAction: TypeAlias = Literal[
    "allocate", "consolidation", "reclaim", "preempt", "stale_gang_eviction"
]
State: TypeAlias = Literal[
    "pending",
    "gated",
    "pipelined",
    "binding",
    "bound",
    "running",
    "releasing",
    "succeeded",
    "failed",
]
FoundState: TypeAlias = Literal[
    "pending", "gated", "pipelined", "bound", "running", "releasing", "succeeded", "failed"
]
ReasonWord: TypeAlias = Literal[
    "over_limit",
    "non_preemptible_over_quota",
    "preemption_delay",
    "topology_missing",
    "topology_level_unknown",
    "topology_too_small",
    "topology_no_domain_fits",
    "room_kept",
    "kept_for_other",
]


class Part(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A piece of a file in which a field that nobody named is an error."""


class Run(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """Which action runs, or how many cycles."""

    action: Action
    settle_cycles: Count = 0
    steady_cycles: Count = 0


class Placement(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """Fullest or emptiest first."""

    gpu: Literal["pack", "spread", "least_fragmentation"]
    cpu: Literal["pack", "spread", "least_fragmentation"]
    shared_gpu: Literal["pack", "spread"]


class PolicyPart(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """The operator's choices; the fields from `hold_s` on are ours (left out: as the policy has it)."""

    placement: Placement
    stale_gang_grace_s: Seconds | None
    max_consolidation_victims: Count | None
    stuck_after_s: Seconds | None = None
    actions: tuple[CycleAction, ...] | None = None
    hold_s: Seconds | None = None
    back_off_s: Seconds | None = None
    max_back_off_s: Seconds | None = None
    user_fairness: bool | None = None
    usage_weight_milli: Count | None = None
    usage_half_life_s: Seconds | None = None
    usage_window_s: Seconds | None = None
    restrict_node_roles: bool | None = None
    max_simulations: Count | UnsetType | None = UNSET
    reserve_after_s: Seconds | None = None
    reserve_for_s: Seconds | None = None
    age_s: Seconds | None = None
    max_age: Count | None = None


class DevicePart(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """Ours: one named GPU."""

    id: str
    index: Count
    memory_mib: Positive | None = None
    model: str = ""
    simulated: bool = False
    taken: bool = False


class TaintPart(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """Ours."""

    key: str
    value: str = ""
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] = "NoSchedule"


class NodePart(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """A node; the fields from `devices` on are ours."""

    gpus: Count
    gpu_memory_mib: Positive | None
    cpu_milli: Count
    memory_bytes: Count
    max_pods: Count
    labels: dict[str, str]
    mig: dict[str, Count]
    mig_strategy: Literal["single", "mixed"] | None
    devices: tuple[DevicePart, ...] = ()
    taints: tuple[TaintPart, ...] = ()
    extended: dict[str, Count] = {}
    ready: bool = True
    role: Literal["any", "gpu", "cpu"] = "any"
    foreign_cpu_milli: Count = 0
    foreign_memory_bytes: Count = 0
    foreign_pods: Count = 0


class Entitlement(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """What a queue may have of one resource."""

    quota: Count | None
    limit: Count | None
    over_quota_weight: Count


class QueuePart(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """A queue."""

    parent: str | None
    priority: int
    created: int
    gpu_milli: Entitlement
    cpu_milli: Entitlement
    memory_bytes: Entitlement
    preempt_min_runtime_s: Seconds | None = None
    reclaim_min_runtime_s: Seconds | None = None


class TopologyConstraintPart(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """Levels of a topology that bind the members."""

    name: str
    required_level: str | None
    preferred_level: str | None


class Subgroup(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """An inner group (it has `subgroups`) or a leaf (it has `min_members`)."""

    name: str
    topology: TopologyConstraintPart | None
    subgroups: "tuple[Subgroup, ...] | UnsetType" = UNSET
    min_members: Count | UnsetType = UNSET
    min_subgroups: Count | None = None


class Gang(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """The root of the subgroup tree."""

    topology: TopologyConstraintPart | None
    subgroups: tuple[Subgroup, ...]
    min_subgroups: Count | None = None


class RequestPart(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """What a pod asks; `extended` and the overheads are ours."""

    cpu_milli: Count
    memory_bytes: Count
    gpus: Positive | UnsetType = UNSET
    gpu_fraction_milli: Milli | UnsetType = UNSET
    gpu_memory_mib: Positive | UnsetType = UNSET
    mig: dict[str, Positive] | UnsetType = UNSET
    devices: Positive | UnsetType = UNSET
    extended: dict[str, Count] = {}
    overhead_cpu_milli: Count = 0
    overhead_memory_bytes: Count = 0


class NodeAffinityPart(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """Required; with a `weight` (ours) preferred."""

    label: str
    values: tuple[str, ...]
    weight: int | None = None


class PodAffinityPart(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """Required; with a `weight` (ours) preferred."""

    match_labels: dict[str, str]
    topology_key: str
    weight: int | None = None


class TolerationPart(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """Ours."""

    key: str = ""
    value: str | None = None
    effect: str | None = None


class SharePart(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """Ours: a device the pod holds by name, where `gpu_groups` does not say it."""

    device: str
    milli: Count
    memory_mib: Count = 0


class PodPart(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """A member; `held`, `tolerations` and lists of affinities are ours."""

    name: str
    state: State
    subgroup: str
    request: RequestPart
    node: str | None = None
    gpu_groups: tuple[str, ...] = ()
    task_priority: int | None = None
    labels: dict[str, str] = {}
    node_affinity: NodeAffinityPart | tuple[NodeAffinityPart, ...] | None = None
    pod_affinity: PodAffinityPart | tuple[PodAffinityPart, ...] | None = None
    pod_anti_affinity: PodAffinityPart | tuple[PodAffinityPart, ...] | None = None
    resource_claims: tuple[str, ...] = ()
    stays_releasing: bool = False
    deleted_s_ago: Seconds | None = None
    legacy_mig: bool = False
    held: tuple[SharePart, ...] = ()
    tolerations: tuple[TolerationPart, ...] = ()


class PodGroupPart(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """A group; `preemptible: "semi"` and the fields from `waiting_s` on are ours.

    `name` stands where the key of the map could not be the name alone.
    """

    queue: str
    namespace: str
    priority: int
    preemptible: bool | Literal["semi"]
    created: int
    stale_for_s: Seconds | None
    gang: Gang
    pods: tuple[PodPart, ...]
    started_s_ago: Seconds | None = None
    stale_grace_s: Seconds | UnsetType | None = UNSET
    preemption_delay_s: Seconds | None = None
    created_s_ago: Seconds | None = None
    last_evicted_s_ago: Seconds | None = None
    waiting_s: Seconds | None = None
    run_s: Seconds | None = None
    name: str | None = None
    owner: str = ""
    kind: str = ""
    labels: dict[str, str] = {}


class SlicePart(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """Devices of one class on one node."""

    node: str
    device_class: str
    count: Count


class AllocationPart(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """The devices a claim has."""

    node: str
    devices: tuple[str, ...]


class ClaimPart(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """A wish for devices that pods name."""

    namespace: str
    queue: str | None
    device_class: str
    count: Positive
    allocation: AllocationPart | None
    reserved_for: tuple[str, ...]
    foreign_consumers: Count


class VetoPart(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """Ours: a word that a pod (namespace/name) can not be on these nodes; `by`: who holds it back."""

    pod: str
    why: str
    nodes: tuple[str, ...] | None = None
    by: str = ""


class HoldPart(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """Ours: a freed place kept for a pod (namespace/name)."""

    pod: str
    node: str
    for_s: Seconds


class BackOffPart(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """Ours: a group (namespace/name) that is not tried for a while."""

    group: str
    failures: Count
    for_s: Seconds


class UsagePart(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """Ours: the part of the cluster a queue used lately, in thousandths."""

    gpu_milli: Count = 0
    cpu_milli: Count = 0
    memory_bytes: Count = 0


class PodExpectation(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """How a pod must end."""

    state: FoundState
    node: str | None = None
    gpu_groups: tuple[str, ...] | None = None


class AtMost(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """Upper bounds per action run or cycle."""

    binds: int | None = None
    evictions: int | None = None
    pipelines: int | None = None


class NodeExpectation(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """Whole GPUs of a node at the end."""

    idle_gpus: int | None = None
    releasing_gpus: int | None = None


class PodGroupExpectation(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """How a group must end."""

    counts: dict[FoundState, int] = {}
    reason: ReasonWord | None = None


class QueueExpectation(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """What a queue must hold at the end."""

    running_gpu_milli: int


class WholeRun(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """Bounds over all cycles."""

    max_evictions: int | None = None
    min_evictions: int | None = None
    max_evictions_per_pod: int | None = None
    quiet_last_cycles: int | None = None


class Expectation(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """Everything a scenario expects."""

    pods: dict[str, PodExpectation] = {}
    at_most: AtMost = AtMost()
    nodes: dict[str, NodeExpectation] = {}
    pod_groups: dict[str, PodGroupExpectation] = {}
    queues: dict[str, QueueExpectation] = {}
    whole_run: WholeRun = WholeRun()
