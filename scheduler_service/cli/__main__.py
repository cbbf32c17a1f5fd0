"""`python -m scheduler_service.cli`: the command `kai` of this interpreter."""

from __future__ import annotations

from scheduler_service.cli import main

main()
