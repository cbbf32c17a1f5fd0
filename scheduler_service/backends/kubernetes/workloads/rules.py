"""What the API may make for people, as the cluster's owner wrote it in one ConfigMap; without it, nothing. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec
import yaml

from scheduler_service.backends.kubernetes import names
from scheduler_service.errors import ConfigurationError
from scheduler_service.wire.travel import ALLOWED

CONFIG_MAP = "kai-submit"
KEY = "rules.yaml"
_USER = "{user}"
_NOT_IN_NAMES = re.compile(r"[^a-z0-9-]+")
_MARK = "--"
"""Before the digest of a name that had to be changed; so no name that was left as it is looks like one."""
_DIGEST = 10
_LONGEST_USER = 40


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A choice that people make by its name; what they say themselves wins over its amounts."""

    image: str = ""
    cpu: str = ""
    memory: str = ""
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    runtime_class: str = ""


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The rules. In `namespace` and `folder` the text `{user}` stands for who asks."""

    images: tuple[str, ...] = ()
    """Names with `*` for any text. They must have kai-jupyter in them: it runs what was signed."""
    plain_images: tuple[str, ...] = ()
    """Images without it: their command runs as it is, its signature is not looked at, and nothing comes back."""
    default_image: str = ""
    profiles: dict[str, Profile] = {}
    namespace: str = ""
    folder: str = ""
    home: str = "/home/jovyan"
    run_as_user: int = 1000
    run_as_group: int = 100
    environment: tuple[str, ...] = ALLOWED
    service_url: str = f"http://kai-scheduler-default.{names.NAMESPACE}"
    signing_key: str = ".local/state/kai/signing.key"
    """Where in the folder a person's signing key rests."""
    most_workers: int = 256
    keep_s: int = 86_400
    """How long a Job that ended is kept."""
    training_runtime: str = "torch-distributed"
    """The ClusterTrainingRuntime of TrainJobs; pods of it meet what it says, not what we say."""
    scheduler_name: str = names.SCHEDULER_NAME
    queue_label: str = names.QUEUE_LABEL
    default_queue: str = names.DEFAULT_QUEUE

    def allows(self, image: str) -> bool:
        """Whether pods may be made of an image."""
        return self.is_plain(image) or any(fnmatchcase(image, each) for each in self.images)

    def is_plain(self, image: str) -> bool:
        """Whether an image has nothing of ours in it."""
        return any(fnmatchcase(image, each) for each in self.plain_images)

    def namespace_of(self, user: str) -> str:
        """Return where pods of a user are made who names no namespace; "" = they must."""
        return self.namespace.replace(_USER, name_of(user))

    def folder_of(self, user: str) -> str:
        """Return the volume claim of a user who names none; "" = none."""
        return self.folder.replace(_USER, name_of(user))


def name_of(user: str) -> str:
    """Return a user's name in the letters that objects may have; two users never share one."""
    plain = _NOT_IN_NAMES.sub("-", user.lower()).strip("-")[:_LONGEST_USER].rstrip("-")
    if plain == user and _MARK not in user:
        return plain
    digest = hashlib.sha256(user.encode()).hexdigest()[:_DIGEST]
    return f"{plain.replace(_MARK, '-') or 'user'}{_MARK}{digest}"


NO_RULES = Rules()


def rules_of(data: Mapping[str, str] | None) -> Rules:
    """Return what the ConfigMap says. Raises `ConfigurationError` with the field that can not be used."""
    text = (data or {}).get(KEY, "")
    try:
        content = yaml.safe_load(text) or {}
        return msgspec.convert(content, Rules)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise ConfigurationError(
            f"The rules of what may be started can not be read: {error}.",
            why=f"They stand in the ConfigMap {CONFIG_MAP}, under {KEY}.",
            hint="Whoever keeps the cluster must correct them; the chart writes them from 'submit'.",
        ) from error
