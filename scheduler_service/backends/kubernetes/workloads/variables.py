"""Which variables of a request travel into a pod, and those that every pod of ours has. Pure.

Rule: an allow-list, and over it a list of what never travels. A variable that may not is refused, not left out: the
work is signed as a whole, and a pod's variables can be read by whoever may see the pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduler_service.backends.kubernetes.workloads.refusals import refusal
from scheduler_service.wire.travel import NEVER, OURS, matches

Variable = dict[str, Any]
MASTER_PORT = 29_500
RANK_PORT = 29_501
RANK_LABEL = "batch.kubernetes.io/job-completion-index"


def chosen(wanted: Mapping[str, str], allowed: Sequence[str]) -> list[Variable]:
    """Return the variables of a request. Raises a refusal for the first that may not travel."""
    for name in sorted(wanted):
        if matches(name.upper(), NEVER):
            raise refusal(
                "bad_variable",
                f"The variable {name} may hold a secret, and whoever sees a pod sees its variables.",
                "Leave it out; read secrets from a file in your folder.",
                variable=name,
            )
        if matches(name.upper(), OURS):
            raise refusal(
                "bad_variable",
                f"The variable {name} says what the pod was given; it is set when the pod starts.",
                "Leave it out.",
                variable=name,
            )
        if not matches(name, allowed):
            raise refusal(
                "bad_variable",
                f"The variable {name} is none that travels into pods here.",
                "Pass the value as an argument or in a file, or ask whoever keeps the cluster to add it "
                "to 'submit.environment'.",
                variable=name,
            )
    return [literal(name, value) for name, value in sorted(wanted.items())]


def literal(name: str, value: str) -> Variable:
    """Return a variable whose value is exactly this text."""
    return {"name": name, "value": plain(value)}


def plain(text: str) -> str:
    """Return a text that Kubernetes does not take for one with $(VARIABLES) in it."""
    return text.replace("$", "$$")


def field(name: str, path: str) -> Variable:
    """Return a variable that says something of the pod itself."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def gang(hosts: Sequence[str]) -> list[Variable]:
    """Return torchrun's variables, and everybody's address in order of rank; each worker is a node of one."""
    rank = f"metadata.labels['{RANK_LABEL}']"
    addresses = ",".join(f"{host}:{RANK_PORT}" for host in hosts)
    return [
        field("RANK", rank),
        field("GROUP_RANK", rank),
        literal("LOCAL_RANK", "0"),
        literal("LOCAL_WORLD_SIZE", "1"),
        literal("WORLD_SIZE", str(len(hosts))),
        literal("MASTER_ADDR", hosts[0]),
        literal("MASTER_PORT", str(MASTER_PORT)),
        literal("KAI_GANG_HOSTS", addresses),
    ]
