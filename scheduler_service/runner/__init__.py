"""Starts, watches and ends the processes of granted pods; talks HTTP to the service and files to its supervisors.

Rule: imports `wire` and `errors` only. `supervisor` and what it imports need the standard library alone, because a
gang starts one for each worker and each must be there at once.
"""
