"""Every scenario and table of a folder, run and counted.

What belongs here: which files are chosen and what each one answers. What never does: printing
(`commands`).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scheduler_service.errors import ConfigurationError
from scheduler_service.model.policy import Policy
from scheduler_service.simulate import overbooked, reader, run, source, tables

TABLES: Final = "fair_share"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which files are run. Empty = all.

    `run`, `tags` (any of them) and `without_tags` (none of them) choose scenarios, `kinds` tables.
    """

    run: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    without_tags: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()

    def takes(self, raw: dict[str, Any]) -> bool:
        """Say whether a file with this content is run."""
        if "kind" in raw:
            return not self.kinds or raw["kind"] in self.kinds
        found = raw.get("run")
        action = found.get("action") if isinstance(found, dict) else None
        given = raw.get("tags")
        tags = frozenset(map(str, given)) if isinstance(given, list) else frozenset()
        return (
            (not self.run or str(action) in self.run)
            and (not self.tags or bool(tags & self.tags))
            and not tags & self.without_tags
        )


@dataclass(frozen=True, slots=True)
class Case:
    """One file's answer; it passes if there are no failures."""

    id: str
    suite: str
    failures: tuple[str, ...]
    doubts: tuple[str, ...] = ()
    """What is odd about the file itself."""

    @property
    def has_passed(self) -> bool:
        """Whether everything came out as expected."""
        return not self.failures


@dataclass(frozen=True, slots=True)
class Report:
    """All answers, in the order of the file names."""

    cases: tuple[Case, ...]

    @property
    def passed(self) -> int:
        """How many cases passed."""
        return sum(case.has_passed for case in self.cases)

    @property
    def failed(self) -> int:
        """How many cases failed."""
        return len(self.cases) - self.passed

    @property
    def sum(self) -> str:
        """The one line that counts."""
        return f"{self.passed} passed, {self.failed} failed"

    def suites(self) -> list[tuple[str, int, int]]:
        """Return (suite, passed, failed) in order of the name."""
        passed = Counter(case.suite for case in self.cases if case.has_passed)
        failed = Counter(case.suite for case in self.cases if not case.has_passed)
        return [(suite, passed[suite], failed[suite]) for suite in sorted(passed | failed)]


def files_of(place: Path) -> list[Path]:
    """Return the files under `place` (or the file itself) that may hold a case, in order."""
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise ConfigurationError(f"{place} does not exist.", hint="Name a folder or a file.")
    return sorted(file for file in place.rglob("*") if file.suffix in source.SUFFIXES)


def cases(files: list[Path], selection: Selection, policy: Policy) -> Iterator[Case]:
    """Yield the answer of each chosen file. A file that cannot be read is a failed case."""
    for file in files:
        try:
            raw = source.read(file)
        except ConfigurationError as error:
            yield Case(file.stem, "unreadable", (str(error),))
            continue
        if selection.takes(raw):
            yield _answer(file, raw, policy)


def _answer(file: Path, raw: dict[str, Any], policy: Policy) -> Case:
    is_table = "kind" in raw
    suite = f"{TABLES}/{raw['kind']}" if is_table else str(raw.get("suite", "unnamed"))
    doubts: list[str] = []
    try:
        if is_table:
            found = tables.failures(raw)
        else:
            scenario = reader.scenario_of(file, raw, policy)
            doubts = overbooked.warnings(scenario.world.snapshot)
            found = run.failures(scenario)
    except ConfigurationError as error:
        found = [str(error)]
    except Exception as error:  # noqa: BLE001 - one broken case must not hide the others
        found = [f"internal error: {type(error).__name__}: {error}"]
    return Case(str(raw.get("id", file.stem)), suite, tuple(found), tuple(doubts))


def run_all(place: Path, selection: Selection, policy: Policy) -> Report:
    """Return the answers of all chosen files under `place`."""
    return Report(tuple(cases(files_of(place), selection, policy)))
