"""A person with a notebook in front of a cluster: our SDK with their token and key, and pods on the real node."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kai_jupyter import session as sessions
from kai_jupyter.session import Session
from tests.cluster.api_bed import Person, ready
from tests.cluster.binding import Bench
from tests.cluster.scheduling import scheduler
from tests.cluster.test_deploy import helm
from tests.cluster.test_workloads_real import SIGNING_KEY, home
from tests.cluster.testbed import images
from tests.cluster.testbed.cluster import OUR_NAMESPACE, Cluster
from tests.cluster.testbed.real_node import ADDRESS
from tests.cluster.workloads_bed import HOME, OPEN, RESTRICTED, opened


@dataclass(frozen=True)
class Desk:
    """Where Ana works: her namespace, her folder, and the service that she asks."""

    cluster: Cluster
    person: Person
    folder: Path

    @property
    def pods(self) -> str:
        """Return the path of her pods."""
        return f"/api/v1/namespaces/{self.person.namespace}/pods"


@contextmanager
def desk(cluster: Cluster, say: Callable[[str], None], files: Path, *flags: str) -> Iterator[Desk]:
    """Give a namespace with Ana's folder in it, and a service that her pods reach; both go with the block."""
    space = opened(cluster, str(helm(say)), **OPEN, **RESTRICTED)
    volume = f"{space}-home"
    folder = cluster.folder / volume
    home(folder)
    cluster.admin.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "",
                "claimRef": {"namespace": space, "name": HOME},
                "hostPath": {"path": str(folder)},
            },
        }
    )
    cluster.admin.wait_for_one(
        f"/api/v1/namespaces/{space}/persistentvolumeclaims/{HOME}",
        lambda one: one["status"].get("phase") == "Bound",
        "Ana's folder is there",
    )
    places = ("--host", ADDRESS, "--files-url", f"file://{files}", *flags)
    with scheduler(cluster, *places) as process, Bench(cluster, space).binder():
        url = ready(process)
        _rules(cluster, space, url)
        yield Desk(cluster, Person(cluster, url, "ana", space).may("edit"), folder)
    cluster.admin.delete(f"/api/v1/persistentvolumes/{volume}")


def _rules(cluster: Cluster, space: str, url: str) -> None:
    """Have pods made of the test's image, with Ana's folder, that ask where this service listens."""
    lines = (
        f'images: ["example.local/*"]\ndefaultImage: {images.PYTHON}\nnamespace: {space}',
        f"folder: {HOME}\nserviceUrl: {url}",
    )
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kai-submit", "namespace": OUR_NAMESPACE},
            "data": {"rules.yaml": "\n".join(lines)},
        }
    )


def notebook(desk: Desk, files: Path, patch: pytest.MonkeyPatch) -> Session:
    """Return the session of this process as Ana's: her token and key, and the service by its address."""
    token = files / "ana.token"
    token.write_text(desk.person.token)
    token.chmod(0o600)
    patch.setenv("KAI_SERVICE_URL", desk.person.url)
    patch.setenv("KAI_TOKEN_FILE", str(token))
    patch.setenv("KAI_SIGNING_KEY_FILE", str(desk.folder / SIGNING_KEY))
    for name in ("JUPYTER_IMAGE", "JUPYTER_IMAGE_SPEC"):
        if name in os.environ:
            patch.delenv(name)
    patch.setattr(sessions, "_sessions", [])
    return sessions.current()
