"""The rules about the repository hold, and each of them would notice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import repository
from tools.lock import LOCKS, Lock


@pytest.mark.parametrize("rule", repository.RULES, ids=lambda rule: rule.__name__)
def test_rule_holds(rule):
    assert list(rule()) == []


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://packages.example/simple",
        "foo @ git+ssh://host.example/foo",
        '  "resolved": "https://npm.example/foo.tgz",',
        "--find-links wheels",
    ],
)
def test_an_address_in_a_lock_file_is_noticed(line, tmp_path, monkeypatch):
    """Somebody compiles a lock file with another tool or option."""
    lock = tmp_path / "requirements" / "dev.txt"
    lock.parent.mkdir()
    lock.write_text(f"httpx==1.0 \\\n{line}\n")
    monkeypatch.setattr(repository, "ROOT", tmp_path)
    monkeypatch.setattr(repository, "project_files", lambda: [lock])
    assert len(list(repository.addresses_in_locks())) == 1


def test_names_versions_and_hashes_are_no_addresses(tmp_path, monkeypatch):
    lock = tmp_path / "requirements" / "dev.txt"
    lock.parent.mkdir()
    lock.write_text(
        "httpx==0.28.1 \\\n    --hash=sha256:75e98c5f16b0f35b567856f597f06ff2270a374470\n"
    )
    monkeypatch.setattr(repository, "ROOT", tmp_path)
    monkeypatch.setattr(repository, "project_files", lambda: [lock])
    assert list(repository.addresses_in_locks()) == []


def test_there_are_lock_files_to_look_at():
    """The rule would hold for an empty list, too."""
    names = {path.name for path in repository.project_files() if path.parent.name == "requirements"}
    assert {"dev.txt", "node.txt", "uv.txt"} <= names


def test_a_changed_dependency_makes_its_lock_stale(tmp_path, monkeypatch):
    """Somebody edits pyproject.toml and forgets `make lock`."""
    source = tmp_path / "some.in"
    source.write_text("httpx\n")
    monkeypatch.setattr("tools.lock.ROOT", tmp_path)
    monkeypatch.setattr("tools.lock.FOLDER", tmp_path)
    lock = Lock("some.txt", "some.in")
    (tmp_path / "some.txt").write_text(f"# made from {lock.inputs_digest()}\nhttpx==1\n")
    assert lock.is_current()
    source.write_text("httpx>=2\n")
    assert not lock.is_current()


def test_every_locked_package_has_a_hash():
    for lock in LOCKS:
        lines = (Path(repository.ROOT) / "requirements" / lock.name).read_text().splitlines()
        names = [line for line in lines if line and not line.startswith((" ", "#"))]
        hashes = [line for line in lines if line.strip().startswith("--hash=sha256:")]
        assert names
        assert len(hashes) >= len(names)
        assert all(line.endswith("\\") for line in names)


def test_code_lines_are_not_blank_and_not_only_comments():
    assert repository.code_lines("a = 1\n\n# why\nb = 2  # two\n// no\n") == 2
