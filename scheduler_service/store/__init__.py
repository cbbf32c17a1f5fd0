"""What must survive: pod groups and their pods, idempotency keys, audit, log lines, payloads and results.

Rule: the one writer of the state directory's databases. It decides nothing; `life` says how a record changes,
`groups` keeps it.
"""
