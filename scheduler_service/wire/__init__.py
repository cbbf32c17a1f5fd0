"""What travels between the service, its runners and every front end.

Rule: frozen dataclasses and closed string literals, standard library only, nothing of ours imported.
FastAPI serves these types, the TypeScript types are generated from them, `kai_jupyter` and the runner read
them back with :func:`scheduler_service.wire.codec.decode`.
Moments are integer ms since the epoch (``…_at``), durations integer seconds (``…_s``), amounts
milli-GPU, milli-CPU, MiB or bytes as the name says. ``None`` means unlimited in quotas and limits, "none" elsewhere.
"""
