"""Somebody uses a GPU past the queue: everybody sees who, which and since when, and nobody is given that GPU."""

from __future__ import annotations

import json
import time

import pytest

from tests.fakes import nvml, workstation
from tests.fakes.processes import until

pytestmark = pytest.mark.process


class Gpus:
    """Two GPUs, as the fake NVML tells of them."""

    def __init__(self, file):
        self.file = file
        self.used = []
        self.write()

    def write(self):
        lines = [f"device GPU-{n} 24576 0 0 0 Fake {n}" for n in range(2)]
        lines += [f"process {index} {pid} 1000" for index, pid in self.used]
        new = self.file.with_suffix(".new")
        new.write_text("\n".join(lines) + "\n")
        new.chmod(0o644)
        new.replace(self.file)

    def use(self, *used):
        self.used = list(used)
        self.write()


@pytest.fixture(scope="module")
def place():
    machine = workstation.make()
    try:
        library = machine.folder / "nvml"
        library.mkdir(mode=0o755)
        nvml.build(library)
        machine.gpus = Gpus(library / "world")
        machine.ana, machine.ben = machine.person("ana"), machine.person("ben")
        machine.serve(LD_LIBRARY_PATH=str(library), KAI_FAKE_NVML=str(machine.gpus.file))
        yield machine
    finally:
        machine.end()


def devices(person):
    (node,) = json.loads(person.ask("GET", "/nodes")[1])
    return node["devices"]


def test_it_is_seen_told_and_not_handed_out(place):
    ana, ben = place.ana, place.ben
    past = ben.start("sleep", "600")
    before = int(time.time() * 1000)
    place.gpus.use((0, past.pid))
    until(lambda: devices(ana)[0]["foreign"], "the use is noticed")
    (use,) = devices(ana)[0]["foreign"]
    assert (use["user"], use["pid"], use["used_mib"]) == (ben.name, past.pid, 1000)
    assert use["since"] >= before
    assert devices(ana)[1]["foreign"] == []

    line = f"GPU 0 is used by {ben.name} without a lease (process {past.pid}, since "
    assert line in ana.kai("status").stdout.replace("\n", " ")
    for command in ("queues", "nodes"):
        told = ana.kai(command).stdout
        assert ben.name in told
        assert "without a lease" in told

    ana.kai("submit", "-d", "--name", "one", "--gpu", "1", "--", "sleep", "600")
    one = ana.becomes("one", "Running")
    assert one["pods"][0]["devices"][0]["id"] == "GPU-1"

    ana.kai("submit", "-d", "--name", "both", "--gpu", "2", "--", "true")
    until(lambda: ana.group("both")["reason"], "the reason")
    both = ana.group("both")
    assert "Never" not in both["sentence"]
    assert any(line in note for note in both["notes"])
    _, why = ana.ask("GET", f"/pod-groups/{ana.name}/both/explain")
    assert any(line in item["text"] for item in json.loads(why)["items"])

    seen = use["since"]
    until(lambda: devices(ana)[0]["foreign"][0]["since"] == seen, "it is the same use")
    ana.kai("cancel", "one", "--grace", "0")
    place.gpus.use()
    ana.becomes("both", "Succeeded")
    assert "without a lease" not in ana.kai("status").stdout


def test_who_holds_a_share_of_a_gpu_uses_it_from_any_process_of_theirs(place):
    ana = place.ana
    other = ana.start("sleep", "600")
    ana.kai("submit", "-d", "--name", "half", "--gpu", "0.5", "--", "sleep", "600")
    half = ana.becomes("half", "Running")
    index = half["pods"][0]["devices"][0]["index"]
    place.gpus.use((index, other.pid), (1 - index, other.pid))
    until(lambda: devices(ana)[1 - index]["foreign"], "the use of the other GPU is noticed")
    assert devices(ana)[index]["foreign"] == []
    place.gpus.use()
    ana.kai("cancel", "half", "--grace", "0")
