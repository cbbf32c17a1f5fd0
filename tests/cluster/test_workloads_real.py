"""What the API makes as real processes on the real node: signed work, its log, end and token; a gang that meets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler_service.runner.termination import read
from scheduler_service.wire.pod_group import Submit, Work
from scheduler_service.wire.signing import load_or_create_key, sign_work
from tests.cluster.binding import Bench
from tests.cluster.scheduling import scheduler
from tests.cluster.test_deploy import helm
from tests.cluster.testbed import images
from tests.cluster.testbed.cluster import Cluster
from tests.cluster.testbed.process import wait_until
from tests.cluster.testbed.real_node import RealNode
from tests.cluster.workloads_bed import HOME, OPEN, RESTRICTED, Lab, ask, opened

SLOW_S = 300
SIGNING_KEY = Path(".local", "state", "kai", "signing.key")
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
MEET = """
import os, socket, sys
rank, hosts = int(os.environ["RANK"]), os.environ["KAI_GANG_HOSTS"].split(",")
host, port = hosts[0].split(":")
assert host == os.environ["MASTER_ADDR"] and int(os.environ["WORLD_SIZE"]) == len(hosts)
if rank == 0:
    with socket.create_server(("", int(port))) as door:
        peer, _ = door.accept()
        print("heard", peer.recv(100).decode(), os.environ["NVIDIA_VISIBLE_DEVICES"])
else:
    while True:
        try:
            peer = socket.create_connection((host, int(port)), 5)
            break
        except OSError:
            pass
    peer.sendall(f"from {rank}".encode())
    print("said it", os.environ["NVIDIA_VISIBLE_DEVICES"])
"""


class RealLab(Lab):
    """A lab on the real node, with a scheduler and a binder, and Ana's key in her folder."""

    key = b""

    def signed(self, *command: str, **parts: Any) -> Submit:
        work = Work(command=command)
        chosen = {"cpu": "50m", "cluster": {"image": images.PYTHON}, **parts}
        return ask(work=work, signature=sign_work(self.key, work), **chosen)

    def ended(self, name: str, count: int = 1) -> list[dict[str, Any]]:
        """Return the pods of a request once all of them ended, the first rank first."""
        found = self.admin.wait_for(
            f"/api/v1/namespaces/{self.namespace}/pods",
            lambda all_: (
                len(all_) == count
                and all(
                    one["status"].get("phase") in {"Succeeded", "Failed"} for one in all_.values()
                )
            ),
            f"{name} ends",
            fail_safe_s=SLOW_S,
            labelSelector=f"kai.scheduler/request={name}",
        )
        return [found[key] for key in sorted(found)]

    def log(self, pod: dict[str, Any]) -> str:
        return self.admin.text(f"{self.admin.path_of(pod)}/log")


@pytest.fixture
def lab(
    kai_cluster: Cluster,
    real_node: RealNode,
    namespace: str,
    say: Callable[[str], None],
    tmp_path: Path,
) -> Iterator[RealLab]:
    space = opened(kai_cluster, str(helm(say)), **OPEN, **RESTRICTED)
    found = RealLab(kai_cluster, space)
    volume = f"{space}-home"
    found.key = home(kai_cluster.folder / volume)
    kai_cluster.admin.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "",
                "claimRef": {"namespace": space, "name": HOME},
                "hostPath": {"path": str(kai_cluster.folder / volume)},
            },
        }
    )
    kai_cluster.admin.wait_for_one(
        f"/api/v1/namespaces/{space}/persistentvolumeclaims/{HOME}",
        lambda one: one["status"].get("phase") == "Bound",
        "Ana's folder is there",
    )
    with scheduler(kai_cluster), Bench(kai_cluster, space).binder():
        yield found
    kai_cluster.admin.delete(f"/api/v1/persistentvolumes/{volume}")


def home(folder: Path) -> bytes:
    """Make Ana's folder, owned by who the pods run as, and return her key."""
    place = folder / SIGNING_KEY
    place.parent.mkdir(parents=True)
    key = load_or_create_key(place)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 1000, 100)
    return key


def test_signed_work_runs_and_its_token_says_which_pod_it_is(lab: RealLab) -> None:
    say = 'echo "$HOME $KAI_POD"; id -u; cat "$KAI_POD_TOKEN_FILE"; echo; exit 5'
    _, name, _ = lab.create(lab.signed("dash", "-c", say))
    (pod,) = lab.ended(name)
    log = lab.log(pod)
    first, user, token, *rest = log.splitlines()
    assert (first, user, rest) == (f"/home/jovyan {name}", "1000", []), log
    (status,) = pod["status"]["containerStatuses"]
    ended = status["state"]["terminated"]
    report = read(ended["message"])
    assert report is not None
    assert (ended["exitCode"], report.exit_code, report.incarnation) == (
        5,
        5,
        pod["metadata"]["uid"],
    )
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
    known = lab.admin.post(REVIEWS, {**review, "spec": {"token": token, "audiences": ["kai"]}})
    assert known["status"]["authenticated"]
    assert known["status"]["user"]["username"] == f"system:serviceaccount:{lab.namespace}:kai-work"
    extra = known["status"]["user"]["extra"]
    assert extra["authentication.kubernetes.io/pod-uid"] == [pod["metadata"]["uid"]]
    stranger = lab.admin.post(REVIEWS, {**review, "spec": {"token": token}})
    assert not stranger["status"].get("authenticated"), "it is none for the Kubernetes API"


def test_what_ana_did_not_sign_is_not_begun(lab: RealLab) -> None:
    asked = lab.signed("dash", "-c", "echo begun")
    work = Work(command=("dash", "-c", "echo other"))
    _, name, _ = lab.create(
        ask(work=work, signature=asked.signature, cluster={"image": images.PYTHON})
    )
    (pod,) = lab.ended(name)
    assert "not signed with your key" in lab.log(pod)
    message = pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"]
    report = read(message)
    assert report is not None
    assert report.reason_code == "unsigned"


def test_the_workers_of_a_gang_meet_each_on_its_own_device(lab: RealLab) -> None:
    asked = lab.signed("python3", "-c", MEET, kind="gang", workers=2, gpu=1)
    _, name, _ = lab.create(asked)
    logs = [lab.log(pod) for pod in lab.ended(name, 2)]
    heard, said = (log.split() for log in logs)
    assert heard[:3] == ["heard", "from", "1"], logs
    assert said[:2] == ["said", "it"], logs
    assert heard[-1].startswith("GPU-real-")
    assert heard[-1] != said[-1]


def test_the_end_reaches_the_work_with_its_grace(lab: RealLab) -> None:
    say = "trap 'echo bye > /home/jovyan/said; exit 0' TERM; echo up; sleep 1000 & wait"
    _, name, _ = lab.create(lab.signed("dash", "-c", say))
    path = f"/api/v1/namespaces/{lab.namespace}/pods/{name}"
    lab.admin.wait_for_one(
        path,
        lambda one: one["status"].get("phase") == "Running",
        "it runs",
        fail_safe_s=SLOW_S,
    )
    wait_until(lambda: "up" in lab.admin.text(f"{path}/log"), "its program waits")
    lab.end(name)
    lab.admin.wait_until_gone(path, fail_safe_s=SLOW_S)
    assert (lab.cluster.folder / f"{lab.namespace}-home" / "said").read_text() == "bye\n"
