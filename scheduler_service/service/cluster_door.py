"""The door of a cluster: all rooms in one object that keeps `ports.SchedulerPort` over the scheduler of a cluster."""

from __future__ import annotations

from collections.abc import Callable

from scheduler_service.api.authenticators import Authenticator
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.workloads.creator import Creator
from scheduler_service.loop import Planner
from scheduler_service.ports import Caller
from scheduler_service.service.cluster_companions import ClusterCompanions
from scheduler_service.service.cluster_core import ClusterParts
from scheduler_service.service.cluster_lead import ClusterLead
from scheduler_service.service.cluster_leases import ClusterLeases
from scheduler_service.service.cluster_logs import ClusterLogs
from scheduler_service.service.cluster_reads import ClusterReads
from scheduler_service.service.cluster_runners import ClusterRunners
from scheduler_service.service.cluster_stream import ClusterStream
from scheduler_service.service.core import wall_clock_ms
from scheduler_service.service.in_cluster import InCluster
from scheduler_service.service.opinion import told
from scheduler_service.service.outlook import Outlook
from scheduler_service.service.rights import Rights, TokenReviews
from scheduler_service.service.team import Team
from scheduler_service.settings.table import Settings
from scheduler_service.wire.explain import ExplainView


class ClusterService(
    Outlook,
    Team,
    ClusterLead,
    ClusterCompanions,
    ClusterLeases,
    ClusterReads,
    ClusterLogs,
    ClusterRunners,
    ClusterStream,
):
    """Implements `ports.SchedulerPort`. Every method authorises its caller itself."""

    def __init__(self, parts: ClusterParts) -> None:
        super().__init__(parts)
        self.scheduler.beside.append(self.tell)
        self.scheduler.beside.append(self.keep_time)

    async def explain(self, caller: Caller, namespace: str, name: str) -> ExplainView:
        """Return why a group stands as it does; where another scheduler decides, its words come first."""
        view = await super().explain(caller, namespace, name)
        raw = self.records.raw(f"{namespace}/{name}")
        if self.decides or raw is None or view.position is None:
            return view
        return self.with_their_words(view, told(raw, self.cluster.world.scope.pool))


def opened(
    client: KubeClient,
    scheduler: InCluster,
    *,
    planner: Planner,
    settings: Settings,
    version: str,
    is_leading: Callable[[], bool],
) -> tuple[ClusterService, Authenticator]:
    """Return the door of a cluster and who knows its callers. Nothing is asked before somebody calls."""
    stores = scheduler.cluster.stores
    rights = Rights(
        client,
        queues=lambda: stores.queues,
        namespaces=lambda: iter(service.records.namespaces()),
    )
    parts = ClusterParts(
        scheduler=scheduler,
        rights=rights,
        planner=planner,
        settings=settings,
        clock=wall_clock_ms,
        version=version,
        is_leading=is_leading,
    )
    service = ClusterService(parts)
    if scheduler.manner.decides and not scheduler.manner.dry_run:
        service.creator = Creator(client, house=settings.namespace)
    reviews = TokenReviews(client, rights)
    service.reviews = reviews
    return service, reviews
