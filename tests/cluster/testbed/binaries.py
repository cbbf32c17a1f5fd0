"""The programs of the test cluster: built from Go modules, then kept.

What is built lies in a folder named after everything that decides its content (module file, sums,
flags, Go's version), so a change builds anew and nothing else does. `KUBEBUILDER_ASSETS` names a
folder to take programs from instead; the cache moves with `XDG_CACHE_HOME`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).resolve().parent.parent / "go"
OLDEST_GO = (1, 24)
FLAGS = ("-trimpath", "-buildvcs=false", "-mod=readonly")
KUBERNETES = "1.34.4"
VERSION = "k8s.io/component-base/version"
KUBERNETES_LINK = (
    f"-s -w -X {VERSION}.gitVersion=v{KUBERNETES} -X {VERSION}.gitMajor=1 -X {VERSION}.gitMinor=34"
)
NO_GO = (
    "the test cluster is built from Go modules, and there is no Go >= 1.24 on this machine: "
    "run `make cluster`, which brings one, or set KUBEBUILDER_ASSETS to a folder with etcd, "
    "kube-apiserver and kube-controller-manager"
)


class Missing(Exception):
    """A program can be neither found nor built; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One program: its name, the folder of its go.mod below `go/`, its package, its link flags."""

    name: str
    module: str
    package: str
    link: str = "-s -w"


RECIPES = {
    recipe.name: recipe
    for recipe in (
        *(
            Recipe(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}", KUBERNETES_LINK)
            for name in ("kube-apiserver", "kube-controller-manager", "kubelet")
        ),
        Recipe("fakegpu", "kubernetes", "./fakegpu"),
        Recipe("pause", "kubernetes", "./pause"),
        # Not the system's: before 3.4.31 and 3.5.13 the API server's caches wait for it in vain.
        Recipe("etcd", "kubernetes", "go.etcd.io/etcd/server/v3"),
        Recipe("helm", "helm", "helm.sh/helm/v3/cmd/helm"),
        Recipe("ray-operator", "kuberay", "github.com/ray-project/kuberay/ray-operator"),
    )
}


@dataclass(frozen=True, slots=True)
class Binaries:
    """Where the programs of a control plane are."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path


def control_plane(say: Callable[[str], None] = print) -> Binaries:
    """Return the programs of a control plane, building what is missing; `say` gets progress."""
    return Binaries(
        etcd=program("etcd", say),
        kube_apiserver=program("kube-apiserver", say),
        kube_controller_manager=program("kube-controller-manager", say),
    )


def program(name: str, say: Callable[[str], None] = print) -> Path:
    """Return one program of `RECIPES`, built now when it must be; raises Missing."""
    found = _given(name) or _kept(name)
    return found or _build(RECIPES[name], say)


def module_folder(path: str, module: str) -> Path:
    """Return where Go keeps the source of `module`, a requirement of `go/<path>`; it is fetched."""
    _run_go(["mod", "download", module], MODULES / path)
    listed = _run_go(["list", "-m", "-mod=readonly", "-f", "{{.Dir}}", module], MODULES / path)
    return Path(listed.strip())


def cache_folder() -> Path:
    """Return where built programs are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kai-jupyter" / "cluster"


def _given(name: str) -> Path | None:
    """Return a program that the person brings."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and (Path(assets) / name).exists():
        return Path(assets) / name
    return None


def _kept(name: str) -> Path | None:
    try:
        path = _home(RECIPES[name]) / name
    except Missing:
        return None
    return path if path.exists() else None


def _home(recipe: Recipe) -> Path:
    """Return the folder for exactly this program."""
    module = MODULES / recipe.module
    sources = sorted(module.rglob("*.go")) if recipe.package.startswith(".") else []
    parts = [path.read_bytes() for path in (module / "go.mod", module / "go.sum", *sources)]
    parts += [text.encode() for text in (recipe.link, *FLAGS, _go_version())]
    return cache_folder() / hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _build(recipe: Recipe, say: Callable[[str], None]) -> Path:
    home = _home(recipe)
    home.mkdir(parents=True, exist_ok=True)
    with (home / f"{recipe.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs at once build once
        return _kept(recipe.name) or _build_now(recipe, home, say)


def _build_now(recipe: Recipe, home: Path, say: Callable[[str], None]) -> Path:
    say(f"building {recipe.name} from Go modules; the first time takes minutes …")
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir=home) as folder:
        fresh = Path(folder) / recipe.name
        flags = [*FLAGS, f"-ldflags={recipe.link}", "-o", str(fresh), recipe.package]
        _run_go(["build", *flags], MODULES / recipe.module)
        fresh.replace(home / recipe.name)
    say(f"built {recipe.name} in {time.monotonic() - start:.0f} s: {home / recipe.name}")
    return home / recipe.name


def _run_go(arguments: list[str], folder: Path) -> str:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": ""}
    command = [str(_go()), *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise Missing(f"`go {' '.join(arguments)}` in {folder} failed:\n{done.stderr[-4000:]}")
    return done.stdout


def _go() -> Path:
    found = shutil.which("go") or shutil.which("go", path=str(_project_bin()))
    if found is None:
        raise Missing(NO_GO)
    return Path(found)


def _project_bin() -> Path:
    return MODULES.parent.parent.parent / ".venv" / "bin"


def _go_version() -> str:
    done = subprocess.run([_go(), "env", "GOVERSION"], capture_output=True, text=True, check=True)
    text = done.stdout.strip()
    numbers = tuple(int(part) for part in text.removeprefix("go").split(".")[:2])
    if numbers < OLDEST_GO:
        raise Missing(NO_GO)
    return text
