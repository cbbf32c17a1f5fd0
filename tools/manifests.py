"""`python -m tools.manifests`: the plain manifests, rendered from the chart by helm, one file a template.

The chart is the only source. `deploy/manifests` is what it gives with its own values, for those who apply files;
what needs other people's CRDs lies in `deploy/manifests/optional`. HELM names the program.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from tools.progress import ROOT

CHART = ROOT / "deploy" / "chart" / "kai-jupyter"
TARGET = ROOT / "deploy" / "manifests"
HEAD = "# Rendered from deploy/chart/kai-jupyter by `python -m tools.manifests`; change it there.\n"
SOURCE = "# Source: kai-jupyter/templates/"
NAMESPACE = "kai-scheduler"
KUBERNETES = "1.34.0"
CHOICES = (
    "releaseNamespace.create=true",
    "serviceMonitors.enabled=true",
    "dashboards.enabled=true",
)
FIRST = "namespaces.yaml"
"""Before everything that lies in it: `kubectl apply -f` takes files in order of name."""
OPTIONAL = frozenset({"monitors.yaml", "dashboards.yaml"})
HELM_ONLY = ("app.kubernetes.io/managed-by: Helm", "helm.sh/resource-policy: keep")


def rendered(helm: str, *choices: str) -> str:
    """Return what helm makes of the chart with these values over its own."""
    command = [helm, "template", "kai-jupyter", str(CHART), "--namespace", NAMESPACE]
    command += ["--kube-version", KUBERNETES]
    for choice in choices:
        command += ["--set", choice]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode:
        raise SystemExit(f"helm could not render the chart:\n{result.stderr}")
    return result.stdout


def files(text: str) -> dict[str, str]:
    """Return the documents by the template that they stem from, as files."""
    found: dict[str, list[str]] = {}
    for document in text.split("\n---\n"):
        lines = document.removeprefix("---\n").splitlines()
        sources = [line.removeprefix(SOURCE) for line in lines if line.startswith(SOURCE)]
        body = "\n".join(line for line in lines if not line.startswith(SOURCE)).strip()
        if sources and _says_something(body):
            found.setdefault(sources[0], []).append(body)
    return {
        _place(name): HEAD + "---\n" + "\n---\n".join(parts) + "\n"
        for name, parts in sorted(found.items())
    }


def _place(name: str) -> str:
    if name in OPTIONAL:
        return f"optional/{name}"
    return f"0-{name}" if name == FIRST else name


def _says_something(body: str) -> bool:
    return any(line.strip() and not line.startswith("#") for line in body.splitlines())


def plain(text: str) -> str:
    """Return the documents without what only helm understands."""
    lines = text.splitlines()
    kept = [line for line in lines if line.strip() not in HELM_ONLY]
    joined = "\n".join(kept) + "\n"
    return joined.replace("  annotations: {helm.sh/resource-policy: keep}\n", "")


def expected(helm: str) -> dict[str, str]:
    """Return what `deploy/manifests` should hold."""
    return files(plain(rendered(helm, *CHOICES)))


def main() -> int:
    """Write the manifests, or with --check say which differ; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail where files differ"
    )
    options = parser.parse_args()
    wanted = expected(os.environ.get("HELM", "helm"))
    present = {
        str(path.relative_to(TARGET)): path.read_text("utf-8") for path in TARGET.rglob("*.yaml")
    }
    different = sorted(name for name in wanted | present if wanted.get(name) != present.get(name))
    if options.check:
        for name in different:
            print(f"deploy/manifests/{name} differs from the chart; run python -m tools.manifests")
        return 1 if different else 0
    for name in different:
        _write(TARGET / name, wanted.get(name))
        print(f"deploy/manifests/{name}")
    return 0


def _write(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink()
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


if __name__ == "__main__":
    sys.exit(main())
