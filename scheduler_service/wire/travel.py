"""Which variables of a notebook may travel into a pod: read by who sends them, and by who makes the pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

ALLOWED = (
    *("LANG", "LANGUAGE", "LC_*", "TZ", "TERM", "PYTHON*", "MPL*", "NUMBA_*"),
    *("OMP_*", "MKL_*", "OPENBLAS_*", "NUMEXPR_*", "NCCL_*", "GLOO_*", "TORCH_*", "TORCHELASTIC_*"),
    *("TF_*", "XLA_*", "JAX_*", "RAY_*", "HF_HOME", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"),
)
"""Those that travel unless the rules of a cluster say otherwise."""
NEVER = (
    *("*TOKEN*", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*CREDENTIAL*", "*APIKEY*", "*API_KEY*"),
    *("*ACCESS_KEY*", "*PRIVATE_KEY*", "JUPYTERHUB_*", "JPY_*", "KUBERNETES_*", "KUBECONFIG"),
)
"""They may hold a secret, and whoever sees a pod sees its variables."""
OURS = (
    *("KAI_*", "NVIDIA_*", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_MEMORY_LIMIT", "GPU_PORTION"),
    *("RUNAI_*", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"),
    *("MASTER_ADDR", "MASTER_PORT", "LD_*", "HOME", "PATH"),
)
"""Said by us, or by who gives the devices: a request that set them could see what it was not given."""


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a name is one of these, `*` standing for any text."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def travelling(environ: Mapping[str, str], allowed: Sequence[str] = ALLOWED) -> dict[str, str]:
    """Return the variables that travel, by name; all others are left out."""
    return {
        name: environ[name]
        for name in sorted(environ)
        if matches(name, allowed) and not matches(name.upper(), (*NEVER, *OURS))
    }
