"""A running Kubernetes with our manifests in it, as tests and benchmarks hold it in their hand."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.testbed import binaries
from tests.cluster.testbed.admin import Admin, ApiError, Object, documents
from tests.cluster.testbed.control_plane import ControlPlane
from tests.cluster.testbed.fake_nodes import ROOT, FakeNodes
from tests.cluster.testbed.identity import Login, login
from tests.cluster.testbed.process import Process
from tests.cluster.testbed.proxy import FaultyProxy

DEPLOY = ROOT / "deploy"
CRDS = DEPLOY / "crds"
OUR_NAMESPACE = "kai-scheduler"
OURS = ("kai.scheduler", "scheduling.run.ai")
RESERVATIONS = "kai-resource-reservation"
TEST_LABEL = "testbed.kai/test"
TOKEN_SECONDS = 86_400
# What `install` takes of the manifests: all that our processes need when tests start them.
WITHOUT_PROCESSES = (
    "Namespace",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
    "PriorityClass",
    "Queue",
    "ConfigMap",
    "Secret",
)


class Cluster:
    """Control plane, administrator and fake nodes; `conftest.py` says what is where."""

    def __init__(self, plane: ControlPlane) -> None:
        self.control_plane = plane
        self.folder = plane.folder
        self.admin = Admin(plane.login())
        self.nodes = FakeNodes(self.admin, plane.folder)
        self._names = itertools.count(1)
        self._kept: dict[str, Object] = {}
        self._processes: list[Process] = []

    @classmethod
    @contextmanager
    def started(
        cls, folder: Path, *, own_namespace: bool, say: Callable[[str], None] = print
    ) -> Iterator[Cluster]:
        """Give a running cluster that ends with the block; raises binaries.Missing."""
        plane = ControlPlane(folder, binaries.control_plane(say), own_namespace=own_namespace)
        cluster = cls(plane)
        try:
            plane.start()
            cluster.nodes.player.start()
            cluster.admin.wait_for_one(
                "/api/v1/namespaces/default/serviceaccounts/default",
                bool,
                "the controllers make service accounts",
            )
            yield cluster
        finally:
            cluster.stop()

    def stop(self) -> None:
        """End everything that was started here."""
        self._kill_processes()
        self.nodes.player.kill()
        self.admin.close()
        self.control_plane.stop()

    def end_processes(self) -> None:
        """Kill what `kai` started, and remove what speaks for it: webhooks and leases."""
        if self._kill_processes():
            for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
                self.admin.delete(f"/apis/admissionregistration.k8s.io/v1/{kind}")
            self.admin.delete(f"/apis/coordination.k8s.io/v1/namespaces/{OUR_NAMESPACE}/leases")

    def _kill_processes(self) -> bool:
        """Kill what `kai` started; False when there was nothing."""
        mine, self._processes = self._processes, []
        for process in mine:
            process.kill()
        return bool(mine)

    def apply(self, source: Path | Object | list[Object]) -> list[Object]:
        """Apply objects, or YAML files, server-side (see Admin.apply)."""
        return self.admin.apply(source)

    def install(self, manifests: Path | list[Object]) -> None:
        """Apply our CRDs, then of `manifests` all but what runs: accounts, roles, classes, queues.

        What is there afterwards survives `clean`.
        """
        self.apply(CRDS)
        if isinstance(manifests, Path):
            files = sorted(manifests.rglob("*.yaml")) if manifests.is_dir() else [manifests]
            manifests = [one for file in files for one in documents(file)]
        self.apply([one for one in manifests if one["kind"] in WITHOUT_PROCESSES])
        self._kept = dict(self._our_objects())

    def access(self, account: str, namespace: str = OUR_NAMESPACE, *, audience: str = "") -> Login:
        """Return the login of a service account, with exactly the roles that it was given."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        spec: Object = {"expirationSeconds": TOKEN_SECONDS}
        if audience:
            spec["audiences"] = [audience]
        answer = self.admin.post(
            path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        )
        file = self.folder / "logins" / f"{namespace}-{account}{audience and f'-{audience}'}"
        plane = self.control_plane
        return login(plane.server, plane.ca_file, answer["status"]["token"], file)

    def kai(
        self, *arguments: str, name: str | None = None, environment: Mapping[str, str] | None = None
    ) -> Process:
        """Start the command line (`cluster.kai("binder", "--kubeconfig", …)`); ends with the cluster.

        Its state goes to the cluster's folder; its output to `<name>.log` there.
        """
        number = next(self._names)
        name = name or f"kai-{arguments[0]}-{number}"
        inherited = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin:/usr/sbin:/sbin",
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "HOME": str(self.folder / "home"),
            "KAI_STATE_DIR": str(self.folder / "state" / name),
        }
        command = [sys.executable, "-m", "scheduler_service.cli", *arguments]
        process = Process(
            name,
            command,
            log=self.folder / f"{name}.log",
            environment={**inherited, **(environment or {})},
        )
        self._processes.append(process)
        return process.start()

    def new_namespace(self, prefix: str = "t", **labels: str) -> str:
        """Make a namespace that `clean` removes, and return its name once pods may be made in it."""
        name = f"{prefix}-{next(self._names)}"
        self.admin.create(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "labels": {TEST_LABEL: "true", **labels}},
            }
        )
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        self.admin.wait_for_one(account, bool, f"{account} exists")
        return name

    def restart_api(self) -> None:
        """Kill the API server and start it anew; ready when this returns."""
        self.control_plane.api.kill()
        self.control_plane.start_api()

    def restart_etcd(self) -> None:
        """Kill etcd and start it on what it had written; ready when this returns."""
        self.control_plane.restart_etcd()

    @contextmanager
    def faulty_proxy(self, of: Login) -> Iterator[FaultyProxy]:
        """Give a proxy before the API server, well-behaved until told otherwise.

        `proxy.login` is `of` by way of the proxy; what passed is in `proxy.requests`.
        """
        with FaultyProxy(self.control_plane.pki, of, self.folder / "logins") as proxy:
            yield proxy

    def clean(self) -> None:
        """Remove what tests made: their namespaces with all in them, queues, fake nodes.

        What was installed stays, as it was installed: a test may have changed it.
        """
        spaces = self.admin.list("/api/v1/namespaces", labelSelector=TEST_LABEL)
        names = [one["metadata"]["name"] for one in spaces]
        self.admin.in_parallel(self._remove_space, names)
        self._remove_pods(RESERVATIONS)
        # Groups before their queues: admission lets no queue go that still has work.
        ours = sorted(self._our_objects(), key=lambda found: "/namespaces/" not in found[0])
        for path, one in ours:
            kept = self._kept.get(path)
            if kept is None:
                self._remove(path, one)
            elif kept.get("spec") != one.get("spec"):
                self.admin.put(path, {**self.admin.get(path), "spec": kept.get("spec", {})})
        self.nodes.remove()

    def _remove_space(self, namespace: str) -> None:
        self.admin.delete(f"/api/v1/namespaces/{namespace}")
        self._remove_pods(namespace)

    def _remove_pods(self, namespace: str) -> None:
        pods = f"/api/v1/namespaces/{namespace}/pods"

        def gone(left: dict[str, Object]) -> bool:
            if any("deletionTimestamp" not in one["metadata"] for one in left.values()):
                self.admin.delete(pods, grace_s=0)
            return not left

        self.admin.delete(pods, grace_s=0)
        self.admin.wait_for(pods, gone, f"the pods of {namespace} are gone")

    def _our_objects(self) -> list[tuple[str, Object]]:
        """Return every object of KAI's and our kinds with its path."""
        found: list[tuple[str, Any]] = []
        for group in self.admin.get("/apis")["groups"]:
            versions = group["versions"] if group["name"] in OURS else ()
            for root in (f"/apis/{version['groupVersion']}" for version in versions):
                for row in self.admin.get(root)["resources"]:
                    if "list" in row["verbs"]:
                        found += self._all(root, row)
        return found

    def _all(self, root: str, row: Object) -> list[tuple[str, Object]]:
        places = []
        for one in self.admin.list(f"{root}/{row['name']}"):
            meta = one["metadata"]
            space = f"/namespaces/{meta['namespace']}" if row["namespaced"] else ""
            places.append((f"{root}{space}/{row['name']}/{meta['name']}", one))
        return places

    def _remove(self, path: str, one: Object) -> None:
        try:
            if one["metadata"].get("finalizers"):
                self.admin.patch(path, {"metadata": {"finalizers": None}})
            self.admin.delete(path)
        except ApiError as error:
            if error.status != 404:
                raise
