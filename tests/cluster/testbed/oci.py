"""Container images written by hand: layers as tar files, an OCI archive that containerd imports.

No registry, no daemon. Equal content gives equal bytes: times, owners and order are fixed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MEDIA = "application/vnd.oci.image"
BLOCK = 1 << 20
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: an uncompressed tar file and its digest."""

    path: Path
    digest: str
    size: int


class LayerWriter:
    """Collects files for a layer; what comes later under a name wins."""

    def __init__(self) -> None:
        self._files: dict[str, Path] = {}
        self._texts: dict[str, tuple[bytes, int]] = {}
        self._links: dict[str, str] = {}
        self._folders: dict[str, int] = {}

    def folder(self, name: str, mode: int = 0o755) -> None:
        """Add an empty folder."""
        self._folders[name.strip("/")] = mode

    def text(self, name: str, text: str, mode: int = 0o644) -> None:
        """Add a file with this content."""
        self._texts[name.strip("/")] = (text.encode(), mode)

    def link(self, name: str, target: str) -> None:
        """Add a symbolic link."""
        self._links[name.strip("/")] = target

    def file(self, source: Path, name: str | None = None) -> None:
        """Add a file of this machine, at the same place unless another is named."""
        self._files[(name or str(source)).strip("/")] = source

    def tree(self, source: Path, name: str, *, without: Iterable[str] = ()) -> list[Path]:
        """Add, and return, every file in and below a folder but in folders named by `without`."""
        left_out = {"__pycache__", *without}
        added: list[Path] = []
        for folder, folders, files in os.walk(source):
            folders[:] = sorted(set(folders) - left_out)
            added += [Path(folder, file) for file in sorted(files)]
        for path in added:
            self.file(path, f"{name}/{path.relative_to(source)}")
        return added

    def digest(self) -> str:
        """Return a name for the content that is known without reading it (size and time)."""
        known = hashlib.sha256(repr((self._texts, self._links, self._folders)).encode())
        for name, path in sorted(self._files.items()):
            stat = path.stat()
            known.update(f"{name}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
        return known.hexdigest()

    def write(self, folder: Path) -> Layer:
        """Write the layer into a folder, unless it lies there already."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.digest()[:24]}.tar"
        if not path.exists():
            fresh = path.with_suffix(".new")
            with tarfile.open(fresh, "w", format=tarfile.GNU_FORMAT) as archive:
                self._write(archive)
            fresh.replace(path)
        return Layer(path, _digest_of(path), path.stat().st_size)

    def _write(self, archive: tarfile.TarFile) -> None:
        names = {*self._files, *self._texts, *self._links}
        parents = {str(up) for name in names for up in Path(name).parents if str(up) != "."}
        folders = {**dict.fromkeys(sorted(parents - set(self._links)), 0o755), **self._folders}
        for name in sorted(folders):
            archive.addfile(_entry(name, tarfile.DIRTYPE, folders[name]))
        for name, target in sorted(self._links.items()):
            entry = _entry(name, tarfile.SYMTYPE, 0o777)
            entry.linkname = target
            archive.addfile(entry)
        for name, (content, mode) in sorted(self._texts.items()):
            entry = _entry(name, tarfile.REGTYPE, mode)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        for name, source in sorted(self._files.items()):
            stat = source.stat()
            entry = _entry(name, tarfile.REGTYPE, 0o755 if stat.st_mode & 0o100 else 0o644)
            entry.size = stat.st_size
            with source.open("rb") as content:
                archive.addfile(entry, content)


@dataclass(frozen=True, slots=True)
class Image:
    """An image: its full name with a tag, its layers from below, how a container of it starts."""

    name: str
    layers: Sequence[Layer]
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str = ""

    def write(self, path: Path) -> Path:
        """Write the OCI archive and return its path."""
        config = _json(self._config())
        manifest = _json(self._manifest(config))
        index = _json(self._index(manifest))
        with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
            _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
            _add(archive, "index.json", index)
            for blob in (config, manifest):
                _add(archive, f"blobs/sha256/{_sha256(blob)}", blob)
            for layer in {one.digest: one for one in self.layers}.values():
                entry = _entry(f"blobs/sha256/{layer.digest}", tarfile.REGTYPE, 0o644)
                entry.size = layer.size
                with layer.path.open("rb") as content:
                    archive.addfile(entry, content)
        return path

    def _config(self) -> dict[str, Any]:
        path = "/usr/local/bin:/usr/bin:/bin"
        environment = {"PATH": path, **self.environment}
        return {
            "architecture": ARCHITECTURE,
            "os": "linux",
            "config": {
                "Env": [f"{name}={value}" for name, value in environment.items()],
                "Entrypoint": list(self.entrypoint) or None,
                "Cmd": list(self.command) or None,
                "User": self.user,
            },
            "rootfs": {
                "type": "layers",
                "diff_ids": [f"sha256:{layer.digest}" for layer in self.layers],
            },
        }

    def _manifest(self, config: bytes) -> dict[str, Any]:
        return {
            "schemaVersion": 2,
            "mediaType": f"{MEDIA}.manifest.v1+json",
            "config": _reference(f"{MEDIA}.config.v1+json", _sha256(config), len(config)),
            "layers": [
                _reference(f"{MEDIA}.layer.v1.tar", layer.digest, layer.size)
                for layer in self.layers
            ],
        }

    def _index(self, manifest: bytes) -> dict[str, Any]:
        entry = _reference(f"{MEDIA}.manifest.v1+json", _sha256(manifest), len(manifest))
        entry["annotations"] = {
            "io.containerd.image.name": self.name,
            "org.opencontainers.image.ref.name": self.name.rpartition(":")[2],
        }
        entry["platform"] = {"architecture": ARCHITECTURE, "os": "linux"}
        return {"schemaVersion": 2, "manifests": [entry]}


def _reference(media_type: str, digest: str, size: int) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": size}


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = kind, mode
    return entry


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = _entry(name, tarfile.REGTYPE, 0o644)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest_of(path: Path) -> str:
    """Return the digest of a layer file, kept beside it: large files are read once."""
    note = path.with_suffix(".sha256")
    if not note.exists():
        known = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                known.update(block)
        note.write_text(known.hexdigest())
    return note.read_text()
