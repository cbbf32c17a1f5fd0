"""`kai webhook` beside the cluster of the tests, asked by its API server, and people with few rights."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import yaml

from tests.cluster.testbed.admin import Admin, ApiError
from tests.cluster.testbed.cluster import DEPLOY, OUR_NAMESPACE, Cluster
from tests.cluster.testbed.process import FAIL_SAFE_S, Process

CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
ADMISSION_API = "/apis/admissionregistration.k8s.io/v1"
AUTHORITY = f"/api/v1/namespaces/{OUR_NAMESPACE}/secrets/kai-admission-authority"
LISTENING = re.compile(r"listening on (\d+), health on (\d+)")
PAUSE_S = 0.1


@dataclass
class Webhook:
    """A running `kai webhook`; `stop` and `start` as wished."""

    cluster: Cluster
    arguments: tuple[str, ...] = ()
    process: Process | None = None
    port: int = 0
    health_port: int = 0
    _seen: int = field(default=0)

    def start(self) -> None:
        """Run it and return when it answers."""
        ports = (str(self.port), str(self.health_port))
        login = self.cluster.access("kai-webhook")
        self.process = self.cluster.kai(
            "webhook",
            "--kubeconfig",
            str(login.kubeconfig),
            "--port",
            ports[0],
            "--health-port",
            ports[1],
            "--name",
            "127.0.0.1",
            "--namespace",
            OUR_NAMESPACE,
            *self.arguments,
        )
        found = self._told()
        self.port, self.health_port = int(found[1]), int(found[2])

    def _told(self) -> re.Match[str]:
        assert self.process is not None
        end = time.monotonic() + FAIL_SAFE_S
        while time.monotonic() < end and self.process.alive:
            found = LISTENING.search(self.process.log.read_text())
            if found:
                return found
            time.sleep(PAUSE_S)
        raise TimeoutError(f"kai webhook did not come up:\n{self.process.log.read_text()[-3000:]}")

    def kill(self) -> None:
        """End it at once."""
        assert self.process is not None
        self.process.kill()

    def register(self) -> None:
        """Install what we ship, with our address in place of the Service; return when it is trusted and asked."""
        documents = yaml.safe_load_all((DEPLOY / "manifests" / "webhooks.yaml").read_text())
        for document in documents:
            for hook in document["webhooks"]:
                path = hook["clientConfig"].pop("service")["path"]
                hook["clientConfig"]["url"] = f"https://127.0.0.1:{self.port}{path}"
            self.cluster.apply(document)
        for plural in CONFIGURATIONS:
            self.cluster.admin.wait_for_one(
                f"{ADMISSION_API}/{plural}/kai-admission", _trusted, "the webhook is trusted"
            )
        self._wait_until_asked()

    def _wait_until_asked(self) -> None:
        """The API server takes a moment to notice; until then nothing is refused."""
        wrong = {
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": "probe"},
            "spec": {"resources": {"gpu": {"quota": -5}}},
        }
        end = time.monotonic() + FAIL_SAFE_S
        while time.monotonic() < end:
            try:
                self.cluster.admin.create(wrong)
            except ApiError as error:
                if "resources.gpu.quota" in error.message:
                    return
            else:
                self.cluster.admin.delete("/apis/scheduling.run.ai/v2/queues/probe")
            time.sleep(PAUSE_S)
        raise TimeoutError("the API server never asked the webhook")

    def unregister(self) -> None:
        """Take the configurations away, so that nobody waits for us."""
        for plural in CONFIGURATIONS:
            self.cluster.admin.delete(f"{ADMISSION_API}/{plural}/kai-admission")


def _trusted(configuration: dict[str, Any]) -> bool:
    return all(hook["clientConfig"].get("caBundle") for hook in configuration["webhooks"])


@contextmanager
def admission(cluster: Cluster, *arguments: str) -> Iterator[Webhook]:
    """Give a webhook that judges what enters the cluster, until the block ends."""
    webhook = Webhook(cluster, arguments)
    webhook.start()
    try:
        webhook.register()
        yield webhook
    finally:
        webhook.unregister()
        webhook.kill()


RBAC = "rbac.authorization.k8s.io"
EVERYTHING_OF_ONES_OWN = [
    {"apiGroups": [""], "resources": ["pods", "services"], "verbs": ["*"]},
    {"apiGroups": ["batch", "apps"], "resources": ["*"], "verbs": ["*"]},
    {"apiGroups": ["scheduling.run.ai"], "resources": ["podgroups"], "verbs": ["*"]},
]


def person(cluster: Cluster, namespace: str, name: str) -> Admin:
    """Return the hand of somebody who may do everything in one namespace, and nothing elsewhere."""
    meta = {"name": name, "namespace": namespace}
    role = {"apiGroup": RBAC, "kind": "Role", "name": name}
    version = f"{RBAC}/v1"
    cluster.apply(
        [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
            {
                "apiVersion": version,
                "kind": "Role",
                "metadata": meta,
                "rules": EVERYTHING_OF_ONES_OWN,
            },
            {
                "apiVersion": version,
                "kind": "RoleBinding",
                "metadata": meta,
                "roleRef": role,
                "subjects": [{"kind": "ServiceAccount", **meta}],
            },
        ]
    )
    return Admin(cluster.access(name, namespace))


def user_name(namespace: str, name: str) -> str:
    """Return how the API server calls that somebody."""
    return f"system:serviceaccount:{namespace}:{name}"


def pod(
    namespace: str,
    name: str = "work",
    *,
    queue: str = "default-queue",
    annotations: dict[str, str] | None = None,
    limits: dict[str, str] | None = None,
    scheduler: str = "kai-scheduler",
    **spec: Any,
) -> dict[str, Any]:
    """Return a pod of ours."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"kai.scheduler/queue": queue} if queue else {},
            "annotations": annotations or {},
        },
        "spec": {
            "schedulerName": scheduler,
            "containers": [
                {
                    "name": "main",
                    "image": "example.local/box",
                    "resources": {"limits": limits or {}},
                }
            ],
            **spec,
        },
    }


def queue(name: str, **spec: Any) -> dict[str, Any]:
    """Return a queue with a little of everything."""
    share = {"quota": 1, "limit": -1, "overQuotaWeight": 1}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"resources": {kind: dict(share) for kind in ("gpu", "cpu", "memory")}, **spec},
    }


def pods(namespace: str) -> str:
    """Return the path of a namespace's pods."""
    return f"/api/v1/namespaces/{namespace}/pods"


def answer(hand: Admin, obj: dict[str, Any]) -> str:
    """Return what the API server would say: "" where it would let it in. Nothing is stored."""
    path = hand.path_of(obj).rpartition("/")[0]
    try:
        hand._request("POST", path, obj, parameters={"dryRun": "All"})
    except ApiError as error:
        return error.message
    return ""


def wait_until(is_so: Callable[[], bool]) -> None:
    """Return as soon as `is_so` says yes."""
    end = time.monotonic() + FAIL_SAFE_S
    while not is_so():
        assert time.monotonic() < end, "it never came to be so"
        time.sleep(PAUSE_S)
