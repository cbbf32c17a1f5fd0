"""What is: frozen values without behaviour that could have an effect.

Rules: standard library and msgspec only; integers in base units (milli-GPU, milli-CPU, bytes,
MiB of device memory, moments in ms since the epoch); unlimited is None.
"""
