"""Where this process runs, as a request must say it: on the machine of the service, or beside a cluster.

Beside a cluster nothing of this process exists in the pods but its folder, where that is mounted. Interpreter and
folder are named only when the pods have this very image: a hub says in its variables which one that is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kai_jupyter.errors import UsageError
from scheduler_service.wire.pod_group import WORKLOADS, ClusterAsk, Work
from scheduler_service.wire.travel import travelling

CLUSTER = "kubernetes"
CHOICES = ("namespace", "image", "profile", "folder", "workload")
"""What can be chosen in a cluster only."""
IMAGE_VARIABLES = ("KAI_IMAGE", "JUPYTER_IMAGE_SPEC", "JUPYTER_IMAGE")


def own_image(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the image that this process runs in, None where nothing says so."""
    return next((environ[name] for name in IMAGE_VARIABLES if environ.get(name)), None)


def cluster_ask(
    chosen: ClusterAsk | None = None, environ: Mapping[str, str] = os.environ
) -> ClusterAsk:
    """Return what is chosen of a cluster: what the person said, else what this notebook's own pod has."""
    said = chosen or ClusterAsk()
    image = None if said.profile is not None else own_image(environ)
    return ClusterAsk(
        namespace=said.namespace or environ.get("KAI_NAMESPACE") or None,
        image=said.image or image,
        profile=said.profile,
        folder=environ.get("KAI_FOLDER") if said.folder is None else said.folder,
        workload=said.workload,
    )


def work_of(digest: str, ask: ClusterAsk | None, environ: Mapping[str, str] = os.environ) -> Work:
    """Return the work of a payload, to be run as here: `ask` None = on this machine."""
    image = own_image(environ)
    if ask is not None and (image is None or ask.image != image):
        return Work(payload_sha256=digest)
    return Work(payload_sha256=digest, workdir=str(Path.cwd()), python=sys.executable)


def work_to_hold(ask: ClusterAsk, environ: Mapping[str, str] = os.environ) -> Work:
    """Return how a companion is to be like this notebook: folder, interpreter, and the variables that may travel."""
    place = work_of("", ask, environ)
    return Work(workdir=place.workdir, python=place.python, env=travelling(environ))


def chosen(options: Mapping[str, Any]) -> tuple[ClusterAsk | None, dict[str, Any]]:
    """Return what `options` choose of a cluster (None = nothing), and the other options."""
    rest = {name: value for name, value in options.items() if name not in CHOICES}
    said = {name: options[name] for name in CHOICES if options.get(name) is not None}
    if not said:
        return None, rest
    if "workload" in said:
        said["workload"] = workload_of(said["workload"])
    return ClusterAsk(**said), rest


def workload_of(word: str) -> Any:
    """Return the kind that a person means with a word; None = what is made unasked."""
    if word.lower() not in WORKLOADS:
        known = ", ".join(WORKLOADS)
        raise UsageError(f"Nothing is made as '{word}'. There is: {known}.")
    return WORKLOADS[word.lower()]
