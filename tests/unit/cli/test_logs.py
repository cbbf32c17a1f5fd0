"""`kai logs -f` and `kai submit` follow output through a restart of the service: no line lost, none twice."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kai_jupyter.errors import ServiceUnreachable
from scheduler_service.cli import logs, watching
from scheduler_service.cli.commands import kai
from scheduler_service.wire.runner import LogLine, LogPage

VIEW = SimpleNamespace(namespace="ana", name="train", workers=1)
AWAY = ServiceUnreachable("The scheduler service does not run.")


@dataclass
class Printing:
    """A request that prints `texts`; `away` is how often the service does not answer before each page but the first."""

    texts: tuple[str, ...]
    away: int = 0
    dropped: int = 0
    asked: list[tuple[int, int | None]] = field(default_factory=list)
    _left: int = 0

    def group(self, namespace: str, name: str) -> Any:
        assert (namespace, name) == ("ana", "train")
        return VIEW

    def logs(
        self,
        _namespace: str,
        _name: str,
        *,
        rank: int | None = None,
        after: int = 0,
        tail: int | None = None,
        wait_s: float = 0,
    ) -> LogPage:
        del tail, wait_s
        if self._left:
            self._left -= 1
            raise AWAY
        self._left = self.away
        self.asked.append((after, rank))
        texts = self.texts[after : after + 1]
        lines = tuple(LogLine(seq=after, at=0, rank=0, stream="stdout", text=t) for t in texts)
        over = after + len(lines) >= len(self.texts)
        return LogPage(lines=lines, next=after + len(lines), ended=over, dropped=self.dropped)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    made: list[float] = []
    monkeypatch.setattr(watching, "time", SimpleNamespace(sleep=made.append))
    return made


def followed(monkeypatch: pytest.MonkeyPatch, client: Printing, *more: str) -> Result:
    @contextmanager
    def service() -> Any:
        yield client

    monkeypatch.setattr(logs, "service", service)
    return CliRunner().invoke(kai, ["logs", "-f", "ana/train", *more])


def test_a_service_that_is_away_for_a_moment_costs_no_line(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    answer = followed(monkeypatch, Printing(("one", "two", "three"), away=2))
    assert (answer.exit_code, answer.stdout, answer.stderr) == (0, "one\ntwo\nthree\n", "")
    assert len(pauses) == 6  # twice before each page after the first


def test_a_rank_is_asked_for_again_after_the_service_was_away(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    client = Printing(("one", "two"), away=1)
    followed(monkeypatch, client, "--rank", "0")
    assert pauses
    assert client.asked == [(0, 0), (1, 0), (2, 0)]


def test_a_service_that_stays_away_ends_the_look_with_what_becomes_of_the_request(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    answer = followed(monkeypatch, Printing(("one", "two"), away=1000))
    assert (answer.exit_code, answer.stdout) == (5, "one\n")
    assert "'train' is kept and goes on" in answer.stderr
    assert len(pauses) == watching.AWAY_TRIES


def test_submit_follows_by_the_same_loop(pauses: list[float]) -> None:
    client: Any = Printing(("one", "two"), away=1)
    found = [line.text for page in watching.pages(client, VIEW) for line in page.lines]  # type: ignore[arg-type]
    assert found == ["one", "two"]
    assert pauses


def test_lines_that_could_not_be_kept_are_told_once(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    answer = followed(monkeypatch, Printing(("one", "two"), dropped=3))
    assert pauses == []
    assert answer.stderr == "(3 lines could not be kept)\n"
