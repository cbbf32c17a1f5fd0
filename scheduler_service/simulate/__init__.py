"""Scenarios, tables and traces: the same `plan()` under a virtual clock.

Reading and writing of files belongs here, decisions never do.
"""
