"""Shares of GPUs through reservations and through the device registry: given, seen, cleaned up, never in danger."""

from __future__ import annotations

import json

import pytest

from tests.cluster.binding import RESERVATIONS, Bench, binder_config, config


@pytest.fixture
def bench(kai_cluster, namespace):
    found = Bench(kai_cluster, namespace)
    yield found
    found.admin.delete(RESERVATIONS, grace_s=0)


def test_two_halves_share_one_device_and_the_last_to_go_frees_it(bench):
    """ALC-12, ALC-45: both see the same UUID; the reservation goes with its last user, not before."""
    bench.cluster.nodes.add("n", gpus=2)
    with bench.binder():
        for name in ("a", "b"):
            bench.share(name, "n", "g")
            bench.bound(name)
            bench.running(name)
        device = bench.reservations()["g"]
        for name in ("a", "b"):
            assert bench.variables(name) == {
                "NVIDIA_VISIBLE_DEVICES": device,
                "GPU_PORTION": "0.50",
                "RUNAI_NUM_OF_GPUS": "0.50",
            }
            meta = bench.admin.get(f"{bench.pods}/{name}")["metadata"]
            assert meta["labels"]["runai-gpu-group"] == "g"
            assert meta["annotations"]["received-resource-type"] == "Fraction"
            assert bench.assigned(name) == {"g": device}
        bench.cluster.nodes.finish(f"{bench.pods}/a")
        bench.admin.wait_for_one(
            f"{bench.pods}/a", lambda one: one["status"]["phase"] == "Succeeded", "a ended"
        )
        wait_for_marks(bench, "g", {"b"})
        bench.share("c", "n", "g")
        bench.bound("c")
        bench.admin.delete(f"{bench.pods}/b", grace_s=0)
        wait_for_marks(bench, "g", {"c"})
        assert bench.reservations() == {"g": device}
        bench.admin.delete(f"{bench.pods}/c", grace_s=0)
        bench.wait_for_reservations(set())


def test_several_devices_are_held_and_freed_together(bench):
    """F3: KAI did not notice the end of a pod with several devices."""
    bench.cluster.nodes.add("n", gpus=4)
    with bench.binder():
        bench.share("p", "n", "g1", "g2")
        bench.bound("p")
        bench.running("p")
        held = bench.reservations()
        assert set(held) == {"g1", "g2"}
        assert len(set(held.values())) == 2
        labels = bench.admin.get(f"{bench.pods}/p")["metadata"]["labels"]
        assert labels["runai-gpu-group/g1"] == "g1"
        assert labels["runai-gpu-group/g2"] == "g2"
        assert "runai-gpu-group" not in labels
        seen = bench.variables("p")["NVIDIA_VISIBLE_DEVICES"].split(",")
        assert seen == [held["g1"], held["g2"]]
        bench.cluster.nodes.finish(f"{bench.pods}/p")
        bench.wait_for_reservations(set())


def test_many_shares_at_once_hold_each_device_once(bench):
    """ALC-46: four devices, eight halves, all at the same moment."""
    bench.cluster.nodes.add("n", gpus=4)
    with bench.binder():
        bench.admin.in_parallel(
            lambda number: bench.share(f"p{number}", "n", f"g{number % 4}"), range(8)
        )
        for number in range(8):
            bench.bound(f"p{number}")
        held = bench.reservations()
        assert sorted(held) == ["g0", "g1", "g2", "g3"]
        assert len(set(held.values())) == 4
        for number in range(8):
            bench.running(f"p{number}")
            assert bench.variables(f"p{number}")["NVIDIA_VISIBLE_DEVICES"] == held[f"g{number % 4}"]


def test_a_device_is_not_promised_beyond_itself(bench):
    bench.cluster.nodes.add("n", gpus=1)
    with bench.binder():
        bench.share("a", "n", "g", portion="0.70")
        bench.bound("a")
        bench.share("b", "n", "g", portion="0.50")
        status = bench.failed("b")
        assert "has no room for 0.50. 0.70 of it is given to others meanwhile." in status["reason"]
        assert set(bench.reservations()) == {"g"}
        bench.running("a")


def test_a_reservation_that_never_tells_is_given_up_with_everything(bench):
    bench.admin.apply(config(allocationTimeout=2))
    bench.cluster.nodes.add("n", gpus=1)
    bench.pod("taken", gpus=1, nodeName="n")
    bench.running("taken")
    with bench.binder():
        bench.share("p", "n", "g")
        status = bench.failed("p")
        bench.wait_for_reservations(set())
    assert "gave no GPU" in status["reason"] or "did not tell its device" in status["reason"]
    meta = bench.admin.get(f"{bench.pods}/p")["metadata"]
    assert not {key for key in meta.get("labels", {}) if key.startswith("runai-gpu-group")}
    assert bench.config_maps() == set()
    assert bench.condition("p")["reason"] == "BindingError"


def test_a_binder_that_is_killed_in_the_middle_goes_on_where_it_was(bench):
    """F6: KAI's group was stuck until somebody deleted the pod."""
    bench.cluster.nodes.add("n", gpus=1)
    pod = bench.pod(
        "p",
        annotations={"gpu-fraction": "0.50", "runai/shared-gpu-configmap": "p-abc1234-shared-gpu"},
    )
    binder = bench.start()
    player = bench.cluster.nodes.player
    player.kill()  # nobody starts the reservation meanwhile
    try:
        bench.give(pod, "n", "g")
        bench.wait_for_reservations({"g"})
        binder.kill()
        binder.start()
        player.start()
        bench.bound("p")
        assert len(bench.admin.list(RESERVATIONS)) == 1
    finally:
        binder.kill()
        if not player.alive:
            player.start()


def test_kills_while_many_shares_start_and_end_lose_no_device(bench):
    """kill -9 again and again: each pair shares its own device, and in the end every device is free again."""
    bench.cluster.nodes.add("n", count=3, gpus=4)
    count = 24
    binder = bench.start()
    try:
        bench.admin.in_parallel(
            lambda number: bench.share(f"p{number}", f"n-{number // 8}", f"g{number // 2}"),
            range(count),
        )
        for goal in (1, 5, 9, 13, 17, 21):
            bench.admin.wait_for(
                bench.requests,
                lambda all_, goal=goal: sum("status" in one for one in all_.values()) >= goal,
                f"{goal} are carried out",
            )
            binder.kill()
            binder.start()
        for number in range(count):
            bench.bound(f"p{number}")
            bench.running(f"p{number}")
        held = bench.reservations()
        assert set(held) == {f"g{number}" for number in range(12)}
        assert len(set(held.values())) == 12
        for number in range(count):
            seen = bench.variables(f"p{number}")["NVIDIA_VISIBLE_DEVICES"]
            assert seen == held[f"g{number // 2}"]
        bench.admin.delete(bench.pods, grace_s=0)
        bench.admin.wait_for(RESERVATIONS, lambda all_: len(all_) < 12, "some are free")
        binder.kill()
        binder.start()
        bench.wait_for_reservations(set())
    finally:
        binder.kill()


def test_no_user_is_ever_deleted_and_a_lost_reservation_comes_back(bench):
    """F5 and the cost of KAI's clean-up: somebody deletes a reservation by hand while notebooks run."""
    bench.cluster.nodes.add("n", gpus=1)
    with bench.binder():
        bench.share("a", "n", "g")
        bench.bound("a")
        bench.running("a")
        before = bench.admin.list(RESERVATIONS)[0]["metadata"]
        bench.admin.delete(f"{RESERVATIONS}/{before['name']}", grace_s=0)
        after = bench.admin.wait_for(
            RESERVATIONS,
            lambda all_: any(
                one["metadata"]["uid"] != before["uid"]
                and "run.ai/reserve_for_gpu_index" in one["metadata"].get("annotations", {})
                for one in all_.values()
            ),
            "the device is reserved again",
        )
        (one,) = after.values()
        told = one["metadata"]["annotations"]["run.ai/reserve_for_gpu_index"]
        assert told == bench.assigned("a")["g"]
        assert bench.admin.get(f"{bench.pods}/a")["status"]["phase"] == "Running"


def test_a_forged_label_holds_no_device(bench):
    """Somebody copies the label of a group onto a pod elsewhere: it must not keep the device from others."""
    bench.cluster.nodes.add("n", gpus=1)
    bench.cluster.nodes.add("other", gpus=0)
    with bench.binder():
        bench.share("a", "n", "g")
        bench.bound("a")
        bench.pod("forged", labels={"runai-gpu-group": "g"}, nodeName="other")
        bench.running("forged")
        bench.admin.delete(f"{bench.pods}/a", grace_s=0)
        bench.wait_for_reservations(set())
        assert bench.admin.get(f"{bench.pods}/forged")["status"]["phase"] == "Running"


def test_a_node_that_vanishes_takes_its_reservations_with_it(bench):
    bench.cluster.nodes.add("n", gpus=1)
    with bench.binder():
        bench.share("a", "n", "g")
        bench.bound("a")
        bench.running("a")
        bench.cluster.nodes.vanish("n")
        bench.admin.delete(f"{bench.pods}/a", grace_s=0)
        bench.wait_for_reservations(set())


def test_a_decision_that_is_withdrawn_while_its_device_is_reserved_leaves_nothing(bench):
    """The scheduler deletes the request, because its node became unfit, while the reservation starts."""
    bench.cluster.nodes.add("n", gpus=1)
    player = bench.cluster.nodes.player
    player.kill()
    try:
        with bench.binder():
            bench.share("p", "n", "g")
            bench.wait_for_reservations({"g"})
            bench.admin.delete(f"{bench.requests}/p")
            bench.wait_for_reservations(set())
            assert not bench.admin.get(f"{bench.pods}/p")["spec"].get("nodeName")
            assert bench.config_maps() == set()
    finally:
        player.start()


def test_what_ended_while_the_binder_was_away_is_cleaned_up_when_it_is_back(bench):
    """F4: the clean-up was done once, in an event handler."""
    bench.cluster.nodes.add("n", gpus=1)
    with bench.binder():
        bench.share("a", "n", "g")
        bench.bound("a")
    bench.admin.delete(f"{bench.pods}/a", grace_s=0)
    bench.admin.wait_until_gone(f"{bench.pods}/a")
    assert set(bench.reservations()) == {"g"}
    with bench.binder():
        bench.wait_for_reservations(set())


def test_a_pod_without_a_place_for_its_gpu_is_told_so(bench):
    bench.cluster.nodes.add("n", gpus=1)
    pod = bench.pod("p", annotations={"gpu-fraction": "0.50"})
    with bench.binder():
        bench.give(pod, "n", "g")
        status = bench.failed("p")
        bench.wait_for_reservations(set())
    assert status["reason"].startswith("The pod has no place where it could learn its GPU.")


def test_a_share_without_a_device_is_decided_anew(bench):
    bench.cluster.nodes.add("n", gpus=1)
    pod = bench.pod("p", annotations={"gpu-fraction": "0.50"})
    with bench.binder():
        bench.give(pod, "n")
        bench.admin.wait_until_gone(f"{bench.requests}/p")


def test_the_form_of_cdi_and_the_memory_limit_come_from_the_configuration(bench):
    plugins = {"hamicore": {"enabled": True}, "gpusharing": {"arguments": {"cdiEnabled": "true"}}}
    bench.admin.apply(binder_config(plugins=plugins))
    bench.cluster.nodes.add("n", gpus=1, gpu_memory_mib=40960)
    with bench.binder():
        bench.share("p", "n", "g")
        bench.bound("p")
    seen = bench.variables("p")
    device = bench.reservations()["g"]
    assert seen["NVIDIA_VISIBLE_DEVICES"] == f"k8s.device-plugin.nvidia.com/gpu={device}"
    assert seen["CUDA_DEVICE_MEMORY_LIMIT"] == "20480m"


def test_the_registry_names_devices_where_no_plug_in_runs(bench):
    devices = {"devices": [{"uuid": "GPU-aaa", "memory_mib": 24576, "mig": False}]}
    note = {"kai.scheduler/gpu-devices": json.dumps(devices)}
    bench.cluster.nodes.add("n", gpus=0, annotations=note)
    with bench.binder("--sharing", "registry"):
        for name in ("a", "b"):
            bench.share(name, "n", "GPU-aaa")
            bench.bound(name)
            assert bench.variables(name)["NVIDIA_VISIBLE_DEVICES"] == "GPU-aaa"
        bench.share("c", "n", "GPU-aaa")
        assert "has no room" in bench.failed("c")["reason"]
    assert bench.reservations() == {}


def wait_for_marks(bench, group, users):
    """Return once exactly these pods are marked as users of a group's reservation."""
    prefix = "reserved-for.kai.scheduler/"

    def marked(one):
        notes = one["metadata"]["annotations"]
        return {value.rpartition("/")[2] for key, value in notes.items() if key.startswith(prefix)}

    bench.admin.wait_for(
        RESERVATIONS,
        lambda all_: any(
            marked(one) == users
            for one in all_.values()
            if one["metadata"]["labels"]["runai-gpu-group"] == group
        ),
        f"{users} use {group}",
    )
