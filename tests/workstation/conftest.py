"""One machine with a shared service, Ana and Ben, and Lea who leads the team."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.fakes import workstation as fake
from tests.fakes.processes import until


@pytest.fixture(scope="module")
def machine():
    made = fake.make()
    try:
        lead_group = made.unix_group("l")
        admin_group = made.unix_group("a")
        people = SimpleNamespace(
            machine=made,
            ana=made.person("ana"),
            ben=made.person("ben"),
            lea=made.person("lea", groups=(lead_group,)),
            root=made.person("adm", groups=(admin_group,)),
        )
        queues = made.account.home / "queues.yaml"
        queues.write_text(fake.QUEUES.format(group=lead_group))
        queues.chmod(0o644)
        people.options = (
            *("--simulate-gpus", "2x24GiB", "--queues", str(queues)),
            *("--admin-group", admin_group, "--unclaimed-s", "3600"),
        )
        made.serve(*people.options)
        yield people
    finally:
        made.end()


@pytest.fixture
def people(machine):
    """The machine, idle again after the test."""
    yield machine
    for person in (machine.ana, machine.ben):
        for group in person.live():
            person.ask("POST", f"/pod-groups/{person.name}/{group}/cancel", body={"grace_s": 0})
        until(lambda p=person: not p.live(), "all requests have ended")
