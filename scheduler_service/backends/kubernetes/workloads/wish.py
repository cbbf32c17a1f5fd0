"""What a request means here: the image, the amounts, the folder; or the refusal of what is never made. Pure."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.workloads import amounts
from scheduler_service.backends.kubernetes.workloads.refusals import refusal
from scheduler_service.backends.kubernetes.workloads.rules import Profile, Rules
from scheduler_service.model.gpu import GpuRequest
from scheduler_service.wire.pod_group import LEASE_KINDS, ClusterAsk, Kind, Submit

PRIORITY_OF_KIND: dict[Kind, int] = {"lease": 100, "kernel": 100, "gang": 50, "batch": 50}
"""The kinds that are made here; a server of a hub is made by the hub's own spawner."""
LONGEST_STEM = 30
"""So that a worker's host name, `<name>-<rank>`, has at most 63 letters in every kind of workload."""
_DIGEST = 10
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_CLAIM = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Folder:
    """A volume claim that becomes the pods' home; `node` where it can be used on that one alone just now."""

    claim: str
    node: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A request as it was understood, with all that decides how its objects look."""

    ask: Submit
    owner: str
    namespace: str
    name: str
    rules: Rules
    profile: Profile
    image: str
    gpu: GpuRequest | None
    limits: dict[str, str]
    folder: Folder | None

    @property
    def is_plain(self) -> bool:
        """Whether the image has nothing of ours in it."""
        return self.rules.is_plain(self.image)

    @property
    def priority_class(self) -> str:
        """The class whose priority comes nearest to what was asked, never above it but for the least."""
        asked = self.ask.priority
        wanted = PRIORITY_OF_KIND[self.ask.kind] if asked is None else asked
        below = [n for n, value in names.PRIORITY_OF_CLASS.items() if value <= wanted]
        return max(below or ["train"], key=names.PRIORITY_OF_CLASS.__getitem__)

    @property
    def min_members(self) -> int:
        """How many workers start together at least."""
        return self.ask.workers if self.ask.min_members is None else self.ask.min_members


def in_cluster(ask: Submit) -> ClusterAsk:
    """Return what a request chooses of the cluster's own things."""
    return ask.cluster or ClusterAsk()


def object_name(ask: Submit, *, owner: str, namespace: str, key: str) -> str:
    """Return the name of all that a request makes: the same key by the same owner, the same name."""
    stem = (
        _NOT_IN_NAMES.sub("-", (ask.name or ask.kind).lower()).strip("-")[:LONGEST_STEM].strip("-")
    )
    if not stem[:1].isalpha():
        stem = f"kai-{stem}".rstrip("-")
    told = "\0".join((owner, namespace, key))
    return f"{stem}-{hashlib.sha256(told.encode()).hexdigest()[:_DIGEST]}"


def folder_name(ask: Submit, owner: str, rules: Rules) -> str:
    """Return the volume claim that a request means; "" = none. Raises a refusal for what can be no name."""
    named = in_cluster(ask).folder
    claim = rules.folder_of(owner) if named is None else named
    if claim and not _CLAIM.fullmatch(claim):
        raise refusal(
            "bad_folder",
            f"{claim!r} can be the name of no volume claim.",
            "'kubectl get pvc' lists them.",
        )
    return claim


def understood(ask: Submit, *, owner: str, namespace: str, name: str, rules: Rules) -> Wish:
    """Return the request in our terms. Raises the refusal of the first thing that is never made."""
    _check_kind(ask, rules)
    profile = _profile(ask, rules)
    image = _image(ask, profile, rules)
    gpu = amounts.gpu_of(ask)
    claim = folder_name(ask, owner, rules)
    wish = Wish(
        ask=ask,
        owner=owner,
        namespace=namespace,
        name=name,
        rules=rules,
        profile=profile,
        image=image,
        gpu=gpu,
        limits=amounts.limits_of(
            gpu, cpu=ask.cpu or profile.cpu or None, memory=ask.memory or profile.memory or None
        ),
        folder=Folder(claim) if claim else None,
    )
    _check_work(wish)
    return wish


def tied(wish: Wish, folder: Folder | None) -> Wish:
    """Return the wish with the folder as it was found."""
    return wish if folder is None else replace(wish, folder=folder)


def _check_kind(ask: Submit, rules: Rules) -> None:
    if ask.kind not in PRIORITY_OF_KIND:
        raise refusal(
            "not_in_a_cluster",
            f"A {ask.kind} is not started by this request in a cluster.",
            "A hub starts servers; %gpu in a notebook starts a companion pod.",
        )
    if ask.process is not None:
        raise refusal(
            "not_in_a_cluster",
            "A pod that runs can not be given a device, so no process of it can hold one.",
            "Ask without a process: a companion pod gets the device.",
        )
    if not 1 <= ask.workers <= rules.most_workers:
        raise refusal(
            "too_many_workers",
            f"You asked for {ask.workers} workers; 1 to {rules.most_workers} are started together here.",
            f"Ask for at most {rules.most_workers}.",
        )
    if ask.kind in LEASE_KINDS and ask.workers != 1:
        raise refusal(
            "too_many_workers",
            f"A {ask.kind} is one pod.",
            "Ask for a gang to have more, with %%gang.",
        )


def _profile(ask: Submit, rules: Rules) -> Profile:
    name = in_cluster(ask).profile
    if name is None:
        return Profile()
    if name not in rules.profiles:
        known = ", ".join(sorted(rules.profiles)) or "none"
        raise refusal("unknown_profile", f"You asked for {name}.", f"There are: {known}.")
    return rules.profiles[name]


def _image(ask: Submit, profile: Profile, rules: Rules) -> str:
    """The owner's own choices (profile, default) need no entry in the list; a person's does."""
    asked = in_cluster(ask).image
    image = asked or profile.image or rules.default_image
    if not image:
        raise refusal(
            "image_needed",
            "Neither the request, nor its profile, nor the rules name an image.",
            "Name one; whoever keeps the cluster lists them under 'submit.images'.",
        )
    if (
        asked is not None
        and asked not in {profile.image, rules.default_image}
        and not rules.allows(asked)
    ):
        known = ", ".join((*rules.images, *rules.plain_images)) or rules.default_image or "none"
        raise refusal(
            "image_not_allowed",
            f"Pods are not made of {asked} here.",
            f"Allowed are: {known}. Whoever keeps the cluster can add it to 'submit.images'.",
            image=asked,
        )
    return image


def _check_work(wish: Wish) -> None:
    ask, work = wish.ask, wish.ask.work
    if work is None or not (work.command or work.payload_sha256):
        if ask.kind == "lease":
            return
        raise refusal(
            "nothing_to_run", "The request names neither a command nor a payload.", "Name one."
        )
    if wish.is_plain:
        if work.payload_sha256:
            raise refusal(
                "not_in_a_cluster",
                f"{wish.image} has no kai-jupyter in it, which runs what a notebook sends.",
                "Use another image, or send a command.",
            )
        return
    if ask.signature is None:
        raise refusal(
            "unsigned",
            "Work is only run if its owner signed it.",
            "Use the kai command or the notebook's magics: they sign.",
        )
    if wish.folder is None:
        raise refusal(
            "folder_needed",
            "The pod checks your signature with the key in your folder, and none is mounted.",
            "Name your volume claim as the folder, or use an image of 'submit.plainImages'.",
        )
