"""From a pod and its owners to the pod group it belongs to. Pure: no clock, no I/O, no randomness.

`group_pod` answers for one pod; `manifest`, `merged` and `pod_patch` write the answer as the objects
of KAI's API. A kind of workload is one row of `table.py`; kinds that are not there may be added by
`own_rules.py` from a ConfigMap. What the rows say and where they differ from KAI:
docs/adr/0020-grouping.md.
"""
