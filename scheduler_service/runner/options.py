"""How one runner is set up. The defaults are what the embedded service uses."""

from __future__ import annotations

import getpass
import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from socket import gethostname

from scheduler_service.wire.signing import load_or_create_key

LOST_AFTER_S = 600.0
ALONE_EXIT_S = 120.0
ALONE_EXIT_SHARED_S = 86_400.0
"""A shared service that comes back starts nobody's runner, so they wait for it."""
PODS_DIR = "pods"


def name_of(state_dir: Path) -> str:
    """Return the name of the one runner that works in a state directory.

    The service gives what a runner claimed to nobody of another name, and again to one of the same name whose answer
    was lost. So two state directories of one person must not share a name: both would start the same pods.
    """
    place = hashlib.sha256(os.fsencode(state_dir.resolve())).hexdigest()[:8]
    return f"{getpass.getuser()}@{gethostname()}:{place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerOptions:
    """Where the service is, where the pods' folders are, and how patient everybody is."""

    url: str
    token_file: Path | None
    """None on the machine's socket, where the kernel says whose runner this is."""
    state_dir: Path
    socket: Path | None = None
    """The machine's socket, where the service is a shared one; `url` is then only its name."""
    key_file: Path | None = None
    host: str = field(default_factory=gethostname)
    lost_after_s: float = LOST_AFTER_S
    """A pod whose runner has been away for so long is ended by its supervisor."""
    alone_exit_s: float = ALONE_EXIT_S
    """A runner with no pod leaves when the service has been away for so long."""
    start_timeout_s: float = 60.0
    """A supervisor that has not started its pod by then is given up."""
    log_segment_bytes: int = 8 * 1024 * 1024
    log_segments: int = 4

    @property
    def name(self) -> str:
        """The name under which the service knows this runner."""
        return name_of(self.state_dir)

    @property
    def pods_dir(self) -> Path:
        """Where each pod has its folder."""
        return self.state_dir / PODS_DIR

    @property
    def heartbeat(self) -> Path:
        """The file that this runner touches as long as it lives."""
        return self.state_dir / "runner.beat"

    @property
    def key_path(self) -> Path:
        """The person's signing key: `KAI_SIGNING_KEY_FILE`, else as it was set up, else in the state directory."""
        override = os.environ.get("KAI_SIGNING_KEY_FILE")
        if override:
            return Path(override)
        return self.key_file or self.state_dir / "signing.key"

    def key(self) -> bytes:
        """Return the person's signing key; raises `KeyFileExposed` if others may read it."""
        return load_or_create_key(self.key_path)
