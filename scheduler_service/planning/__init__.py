"""What should happen. Pure: no clock, no I/O, no randomness; ties end in the name.

`plan(ledger, policy, now)` decides; `explain` and `forecast` answer questions on the same engine.
The ledger is byte-identical before and after each of them.
"""
