"""JupyterHub: notebook servers that start on a share of a GPU, and wait for it in the open.

`setup(c)` in `jupyterhub_config.py` turns everything on. `options` and `stages` are pure; `place` talks to the
scheduler; `spawning` holds what both spawners share; `local` and `kube` start servers; `handlers` and
`templates` are the pages. Rule: the hub is one process for everybody, so nothing here blocks it or waits long.
"""

from kai_jupyter.hub.setting_up import setup

__all__ = ["setup"]
