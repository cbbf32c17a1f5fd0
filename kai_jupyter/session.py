"""What a notebook's process has to do with the service: one client, one watcher, its lease, its handles."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

from kai_jupyter.client import KaiClient
from kai_jupyter.device_env import DeviceEnvironment
from kai_jupyter.errors import KaiJupyterError
from kai_jupyter.identity import kernel_id, origin_of, this_process
from kai_jupyter.surroundings import CLUSTER, cluster_ask
from kai_jupyter.watch import Watcher
from scheduler_service.wire.pod_group import (
    LEASE_KINDS,
    TERMINAL_STATES,
    ClusterAsk,
    Move,
    Origin,
    PodGroupView,
)

if TYPE_CHECKING:
    from kai_jupyter.gangs import Gang
    from kai_jupyter.handles import Handle
    from kai_jupyter.leases import Lease


class Session:
    """The one of this process; see `current`."""

    def __init__(self, shell: Any | None = None) -> None:
        self.shell = shell
        self.devices = DeviceEnvironment()
        self._lock = threading.RLock()
        self._client: KaiClient | None = None
        self._namespace: str | None = None
        self._backend: str | None = None
        self._handles: weakref.WeakValueDictionary[str, Handle] = weakref.WeakValueDictionary()
        self._lease: Lease | None = None
        self.last_gang: str | None = None
        self.undelivered: list[Gang] = []
        self.cells = 0
        """How many cells have begun since this session is in use."""
        self._watcher = Watcher(self._stream_client, self._seen, self._lost)

    # -- the service ------------------------------------------------------------------------------------------------
    @property
    def client(self) -> KaiClient:
        """The service; found, or started, at the first use."""
        with self._lock:
            if self._client is None:
                self._client = KaiClient()
            return self._client

    def _stream_client(self) -> KaiClient:
        return KaiClient(start=False)

    @property
    def namespace(self) -> str:
        """Where this person's groups are on one machine."""
        if self._namespace is None:
            self._namespace = self.client.me().user
        return self._namespace

    @property
    def is_in_cluster(self) -> bool:
        """Whether what is asked for becomes pods of a cluster, and nothing of this process can hold a device."""
        if self._backend is None:
            self._backend = self.client.health().backend
        return self._backend == CLUSTER

    def cluster_ask(self, chosen: ClusterAsk | None = None) -> ClusterAsk | None:
        """Return what a request chooses of the cluster; on one machine just what the person said."""
        return cluster_ask(chosen) if self.is_in_cluster else chosen

    def place_of(self, name: str) -> tuple[str, str]:
        """Return namespace and name of a group that is called "name" or "namespace/name"."""
        namespace, _, last = name.rpartition("/")
        if namespace or not self.is_in_cluster:
            return namespace or self.namespace, last
        mine = self.client.groups(mine=True).items
        found = next((view.namespace for view in mine if view.name == last), None)
        return found or os.environ.get("KAI_NAMESPACE") or self.namespace, last

    @property
    def origin(self) -> Origin:
        """Where a request of this moment is made."""
        return origin_of(self.shell)

    @property
    def has_kernel(self) -> bool:
        """Whether this process is a Jupyter kernel, not a terminal."""
        return getattr(self.shell, "kernel", None) is not None

    @property
    def has_widgets(self) -> bool:
        """Whether cards can be widgets here: a Jupyter kernel, and a card that was built."""
        if not self.has_kernel:
            return False
        from kai_jupyter.widgets.card import is_built

        return is_built()

    # -- handles ----------------------------------------------------------------------------------------------------
    def follow(self, handle: Handle) -> None:
        """Keep `handle` up to date until its group has ended."""
        with self._lock:
            self._handles[handle.key] = handle
        self._watcher.follow(handle.view)

    def handle_of(self, key: str) -> Handle | None:
        """Return the handle of "namespace/name" that is in use in this process."""
        return self._handles.get(key)

    def _seen(self, view: PodGroupView) -> None:
        handle = self._handles.get(f"{view.namespace}/{view.name}")
        if handle is not None:
            handle.take(view)
        elif self._is_ours(view):
            self.adopt(view)

    def _lost(self, sentence: str) -> None:
        for handle in list(self._handles.values()):
            handle.lose(sentence)

    # -- the lease --------------------------------------------------------------------------------------------------
    @property
    def lease(self) -> Lease | None:
        """The lease of this process, while it is live."""
        lease = self._lease
        return lease if lease is not None and not lease.is_over else None

    def hold(self, lease: Lease) -> None:
        """Make `lease` the lease of this process."""
        self._lease = lease
        self.follow(lease)

    def _is_ours(self, view: PodGroupView) -> bool:
        """Return whether a group is a live lease of this very kernel, made in the page or before a restart."""
        own = kernel_id(self.shell)
        is_live = view.state not in TERMINAL_STATES and view.state != "Stopping"
        return (
            own is not None
            and view.kind in LEASE_KINDS
            and is_live
            and view.origin.kernel_id == own
        )

    def lease_of(self, view: PodGroupView) -> Lease:
        """Return the handle of a lease: of this process, or in a cluster of the pod that holds it."""
        if self.is_in_cluster:
            from kai_jupyter.companions import Companion

            return Companion(self, view)
        from kai_jupyter.leases import Lease

        return Lease(self, view)

    def adopt(self, view: PodGroupView) -> Lease:
        """Make a lease that was asked for elsewhere this process's own."""
        lease = self.lease_of(view)
        self.hold(lease)
        lease.take(view)
        return lease

    def resume(self) -> Lease | None:
        """Return the lease of this kernel, taken over from before its restart where there is one."""
        if self.lease is not None:
            return self.lease
        own = kernel_id(self.shell)
        if own is None:
            return None
        for view in self.client.groups(mine=True).items:
            if self._is_ours(view) and self.is_in_cluster:
                return self.adopt(view)
            if self._is_ours(view):
                moved = self.client.move(
                    view.namespace, view.name, Move(process=this_process(), kernel_id=own)
                )
                return self.adopt(moved)
        return None

    def resume_quietly(self) -> None:
        """Look for a lease from before a restart; a service that does not answer has time until the first `%gpu`."""
        with contextlib.suppress(KaiJupyterError):
            self.resume()

    def close(self) -> None:
        """Let go of the connections. Leases and gangs live on in the service."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()


_sessions: list[Session] = []


def current(shell: Any | None = None) -> Session:
    """Return the session of this process; `shell` is remembered when it is given."""
    if not _sessions:
        _sessions.append(Session(shell if shell is not None else _running_shell()))
    if shell is not None:
        _sessions[0].shell = shell
    return _sessions[0]


def in_use() -> Session | None:
    """Return the session of this process if it was made."""
    return _sessions[0] if _sessions else None


def _running_shell() -> Any | None:
    import sys

    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()
