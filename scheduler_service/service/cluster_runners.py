"""The runner's protocol in a cluster: there is nothing for a runner to do, the kubelets run the pods. It says so."""

from __future__ import annotations

from scheduler_service.ports import Caller
from scheduler_service.service import access
from scheduler_service.service.cluster_core import ClusterCore
from scheduler_service.service.refusals import refusal
from scheduler_service.wire.runner import (
    Beat,
    ClaimAnswer,
    ClaimRequest,
    LogChunk,
    Orders,
    ProofAnswer,
    ProofRequest,
    Report,
)


class ClusterRunners(ClusterCore):
    """The runners' side of the cluster's door."""

    async def claim(self, caller: Caller, ask: ClaimRequest) -> ClaimAnswer:
        """Refuse: nothing is granted to runners."""
        del ask
        raise _no_runners(caller)

    async def prove(self, caller: Caller, ask: ProofRequest) -> ProofAnswer:
        """Refuse: no runner holds anything."""
        del ask
        raise _no_runners(caller)

    async def orders(self, caller: Caller, *, runner_name: str, wait_s: float) -> Orders:
        """Refuse: there are no orders."""
        del runner_name, wait_s
        raise _no_runners(caller)

    async def beat(self, caller: Caller, beat: Beat) -> None:
        """Refuse: no runner lives here."""
        del beat
        raise _no_runners(caller)

    async def report(self, caller: Caller, report: Report) -> None:
        """Refuse: kubelets report to the API server."""
        del report
        raise _no_runners(caller)

    async def append_logs(self, incarnation: str, chunk: LogChunk) -> None:
        """Refuse: kubelets keep the logs."""
        del chunk
        raise _unknown(incarnation)


def _no_runners(caller: Caller) -> Exception:
    access.require_request(caller)
    return refusal(
        "not_here",
        "In a cluster the nodes themselves run the pods; no runner is needed.",
        "Stop the runner, or point it at the service of its machine.",
    )


def _unknown(incarnation: str) -> Exception:
    return refusal("not_here", f"No pod {incarnation} reports here.", "Start the work again.")
