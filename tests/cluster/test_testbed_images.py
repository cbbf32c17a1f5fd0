"""Images that we write ourselves, and names that our DNS finds; no cluster is needed for it."""

from __future__ import annotations

import hashlib
import json
import socket
import struct
import tarfile
from pathlib import Path
from typing import Any

from tests.cluster.testbed.dns import Names, answer
from tests.cluster.testbed.oci import Image, Layer, LayerWriter

SERVICES = "/api/v1/namespaces/lab/services"


def layer(folder: Path, text: str = "hello") -> Layer:
    writer = LayerWriter()
    writer.folder("tmp", 0o1777)
    writer.text("etc/motd", text)
    writer.link("bin", "usr/bin")
    return writer.write(folder)


def test_equal_content_gives_equal_bytes(tmp_path: Path) -> None:
    """Else every run would import everything anew."""
    one = Image("example.local/a:1", [layer(tmp_path / "x")]).write(tmp_path / "one.tar")
    two = Image("example.local/a:1", [layer(tmp_path / "y")]).write(tmp_path / "two.tar")
    other = Image("example.local/a:1", [layer(tmp_path / "y", "bye")]).write(tmp_path / "three.tar")
    assert one.read_bytes() == two.read_bytes() != other.read_bytes()


def test_every_reference_in_an_image_leads_to_what_it_names(tmp_path: Path) -> None:
    image = Image("example.local/a:1", [layer(tmp_path)], entrypoint=["/x"], user="1000")
    with tarfile.open(image.write(tmp_path / "image.tar")) as archive:
        blobs = {
            name.rpartition("/")[2]: archive.extractfile(name).read()
            for name in archive.getnames()
            if name.startswith("blobs/")
        }
        index = json.loads(archive.extractfile("index.json").read())
    assert all(hashlib.sha256(blob).hexdigest() == name for name, blob in blobs.items())
    manifest = json.loads(blobs[index["manifests"][0]["digest"].removeprefix("sha256:")])
    config = json.loads(blobs[manifest["config"]["digest"].removeprefix("sha256:")])
    assert config["config"]["Entrypoint"] == ["/x"]
    assert config["rootfs"]["diff_ids"] == [one["digest"] for one in manifest["layers"]]


def test_a_layer_holds_folders_links_and_files(tmp_path: Path) -> None:
    with tarfile.open(layer(tmp_path).path) as archive:
        found = {one.name: (one.type, one.mode) for one in archive.getmembers()}
    assert found == {
        "tmp": (tarfile.DIRTYPE, 0o1777),
        "etc": (tarfile.DIRTYPE, 0o755),
        "bin": (tarfile.SYMTYPE, 0o777),
        "etc/motd": (tarfile.REGTYPE, 0o644),
    }


class Api:
    """Two services: a headless one with a pod, and one with an address and nobody behind it."""

    def find(self, path: str) -> Any:
        addresses = {f"{SERVICES}/gang": "None", f"{SERVICES}/api": "10.96.0.9"}
        return {"spec": {"clusterIP": addresses[path]}} if path in addresses else None

    def list(self, path: str, *, labelSelector: str) -> Any:  # noqa: N803
        if not labelSelector.endswith("=gang"):
            return []
        endpoints = [
            {"addresses": ["10.244.0.5"], "hostname": "w-0", "conditions": {"ready": True}},
            {"addresses": ["10.244.0.6"], "hostname": "w-1", "conditions": {"ready": False}},
        ]
        return [{"endpoints": endpoints}]


def test_names_of_services_and_of_pods_behind_them() -> None:
    names = Names(Api())
    asked = ("gang.lab", "w-0.gang.lab", "w-1.gang.lab", "api.lab", "none.lab", "a.b.c.lab")
    assert [names.addresses(f"{name}.svc.cluster.local.") for name in asked] == [
        ["10.244.0.5"],
        ["10.244.0.5"],
        None,
        ["10.96.0.9"],
        None,
        None,
    ]
    assert names.addresses("example.org") is None


def test_a_question_is_answered_with_an_address() -> None:
    labels = b"".join(bytes([len(one)]) + one for one in b"gang.lab.svc.cluster.local".split(b"."))
    question = struct.pack("!6H", 7, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", 1, 1)
    told = answer(question, Names(Api()))
    assert struct.unpack_from("!6H", told) == (7, 0x8580, 1, 1, 0, 0)
    assert told.endswith(socket.inet_aton("10.244.0.5"))
