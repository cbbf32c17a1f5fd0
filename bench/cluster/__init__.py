"""End to end on a real Kubernetes: the cluster of `tests/cluster`, and our processes in it as shipped.

`python -m bench cluster` measures the rows of the end-to-end table one after another in one cluster. Everything runs
on the same cores: what the load and the API server take is part of each figure, and the limit beside it is the same
load without a scheduler.
"""
