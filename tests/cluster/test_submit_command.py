"""`kai submit` in front of a cluster: what it makes there is what was chosen, and a wrong choice is a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler_service.cli.endings import DECLINED, USAGE
from tests.cluster.api_bed import Person, ready
from tests.cluster.scheduling import scheduler
from tests.cluster.test_deploy import helm
from tests.cluster.testbed.cluster import Cluster
from tests.cluster.testbed.operators import apply_crds
from tests.cluster.testbed.process import Process, wait_until
from tests.cluster.workloads_bed import HOME, IMAGE, OPEN, RESTRICTED, opened


class Terminal:
    """Ana's shell: her token, and where the service is."""

    def __init__(self, person: Person, folder: Path) -> None:
        self.person, self.cluster = person, person.cluster
        token = folder / "token"
        token.write_text(person.token)
        self.environment = {
            "KAI_SERVICE_URL": person.url,
            "KAI_TOKEN_FILE": str(token),
            "KAI_SIGNING_KEY_FILE": str(folder / "keys" / "signing.key"),
        }

    def kai(self, *words: str) -> Process:
        """Return `kai WORDS` once it has ended."""
        process = self.cluster.kai(*words, environment=self.environment)
        wait_until(lambda: not process.alive, "it ends")
        return process

    def submitted(self, *words: str) -> dict[str, Any]:
        process = self.kai("submit", "-d", "--json", *words)
        assert process.exit_code == 0, process.log.read_text()
        found: dict[str, Any] = json.loads(process.log.read_text())
        return found

    def made(self, path: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.admin.get(
            f"{path.replace('*', self.person.namespace)}/{name}"
        )
        return found


@pytest.fixture(scope="module")
def terminal(
    kai_cluster: Cluster, say: Callable[[str], None], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Terminal]:
    apply_crds(kai_cluster, "kubeflow", "ray")
    kai_cluster.nodes.add("n", count=2, gpus=8)
    space = opened(kai_cluster, str(helm(say)), **OPEN, **RESTRICTED)
    folder = tmp_path_factory.mktemp("ana")
    with scheduler(kai_cluster) as process:
        yield Terminal(Person(kai_cluster, ready(process), "ana", space).may("edit"), folder)
    kai_cluster.clean()


CHOSEN = ("--image", IMAGE, "--folder", HOME, "--cpu", "1")
TRAIN = ("--", "python", "train.py")


def test_what_is_made_is_what_was_chosen(terminal: Terminal) -> None:
    gang = ("-n", "3", "--gpu", "1", *CHOSEN)
    for word, path in (
        ("job", "/apis/batch/v1/namespaces/*/jobs"),
        ("pytorchjob", "/apis/kubeflow.org/v1/namespaces/*/pytorchjobs"),
        ("RayJob", "/apis/ray.io/v1/namespaces/*/rayjobs"),
    ):
        view = terminal.submitted(*gang, "--as", word, "--name", word.lower(), *TRAIN)
        made = terminal.made(path, view["name"])
        assert made["metadata"]["annotations"]["kai.scheduler/owner"] == terminal.person.user


def test_without_a_choice_one_worker_is_a_pod_in_its_own_home(terminal: Terminal) -> None:
    view = terminal.submitted(*CHOSEN, *TRAIN)
    pod = terminal.made("/api/v1/namespaces/*/pods", view["name"])
    (container,) = pod["spec"]["containers"]
    work = json.loads(container["args"][container["args"].index("--work") + 1])
    assert (work["command"], work["workdir"]) == (["python", "train.py"], None)
    told = terminal.kai("status", view["name"])
    assert told.exit_code == 0, "it is found by its name alone"
    assert "home is not bound yet.\n" in told.log.read_text()


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        (("--as", "sparkjob"), "'sparkjob' is not one of"),
        (("--as", "trainjob"), "serves no TrainJob"),
        (("--profile", "huge"), "You asked for huge"),
        (("--namespace", "elsewhere"), "may not make pods in the namespace elsewhere"),
    ],
)
def test_a_wrong_choice_is_told(terminal: Terminal, choice: tuple[str, ...], sentence: str) -> None:
    process = terminal.kai("submit", "-d", "--folder", HOME, "--image", IMAGE, *choice, *TRAIN)
    assert sentence in process.log.read_text()
    assert process.exit_code in {USAGE, DECLINED}
