from __future__ import annotations

from pathlib import Path

import pytest

from scheduler_service.runner import clash, files
from scheduler_service.runner.log_files import STDERR, LogWriter
from scheduler_service.runner.pod_folder import PodFolder

TAKEN = "OSError: [Errno 98] Address already in use"


def ended(path: Path, *lines: str, ran_s: float = 1, **changes: object) -> PodFolder:
    """Return the folder of a worker that failed after it wrote `lines`."""
    path.mkdir(exist_ok=True)
    log = LogWriter(path, segment_bytes=10**6, segments=4)
    for line in lines:
        log.add(STDERR, line, 0)
    log.close()
    end = {
        "exit_code": 1,
        "signal": None,
        "reason_code": None,
        "reason_text": "",
        "started": True,
        "started_at": 0,
        "ended_at": int(ran_s * 1000),
    }
    files.write_json(path / files.EXIT, end | changes)
    return PodFolder(path)


@pytest.mark.parametrize(
    ("ran_s", "changes", "is_met"),
    [
        (1, {}, True),
        (119, {}, True),
        (121, {}, False),
        (1, {"exit_code": 0}, False),
        (1, {"exit_code": None, "signal": "SIGTERM"}, False),
        (1, {"reason_code": "stopped"}, False),
    ],
)
def test_only_who_failed_by_itself_and_soon_met_a_taken_port(
    tmp_path: Path, ran_s: float, changes: dict[str, object], is_met: bool
) -> None:
    """A program that trained for an hour is not begun again, whatever its last line says."""
    folder = ended(tmp_path / "a", "hello", TAKEN, ran_s=ran_s, **changes)
    assert clash.is_met(folder, [folder]) is is_met


def test_another_worker_may_be_the_one_that_says_so(tmp_path: Path) -> None:
    failed = ended(tmp_path / "a", "ConnectionRefusedError")
    other = ended(tmp_path / "b", TAKEN)
    assert clash.is_met(failed, [failed, other])
    assert not clash.is_met(failed, [failed])


def test_the_first_start_does_not_speak_for_the_second(tmp_path: Path) -> None:
    folder = ended(tmp_path / "a", TAKEN)
    folder.mark_retry()
    clash.note(folder)
    clash.note(folder)
    ended(tmp_path / "a", "ValueError: of its own")
    assert not clash.is_met(folder, [folder])
    log = "".join(path.read_text() for path in sorted(folder.path.glob("log-*")))
    assert log.count(clash.NOTE) == 1
    ended(tmp_path / "a", TAKEN)
    assert clash.is_met(folder, [folder])
