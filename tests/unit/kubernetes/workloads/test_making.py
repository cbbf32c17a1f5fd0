"""What the API makes: read as objects, nothing of a cluster needed."""

from __future__ import annotations

import json

import pytest

from scheduler_service.backends.kubernetes.workloads.making import make
from scheduler_service.backends.kubernetes.workloads.rules import Profile, Rules
from scheduler_service.backends.kubernetes.workloads.wish import Folder, object_name
from scheduler_service.ports import NotAllowed, RefusedRequest
from scheduler_service.wire.pod_group import ClusterAsk, Origin, Submit, Work

RULES = Rules(
    images=("registry.example/team/*",),
    plain_images=("registry.example/plain:*",),
    default_image="registry.example/notebook:1",
    folder="claim-{user}",
    profiles={
        "large": Profile(
            image="registry.example/large:1",
            cpu="8",
            memory="64GiB",
            node_selector={"pool": "big"},
            tolerations=({"key": "big", "operator": "Exists"},),
        )
    },
)
COMMAND = Work(command=("python", "train.py"))
PLAIN = ClusterAsk(image="registry.example/plain:2")


def ask(**parts):
    defaults = {"kind": "batch", "queue": "team", "work": COMMAND, "signature": "s"}
    return Submit(**{**defaults, **parts})


def made(of=None, rules=RULES, **parts):
    return make(of or ask(**parts), owner="ana", namespace="lab", name="batch-1", rules=rules)


def pod(**parts):
    (one,) = made(**parts)
    assert one["kind"] == "Pod"
    return one


def container(one):
    spec = one["spec"] if one["kind"] == "Pod" else one["spec"]["template"]["spec"]
    (main,) = spec["containers"]
    return main


def variables(one):
    return {entry["name"]: entry.get("value") for entry in container(one)["env"]}


def refusal(**parts):
    with pytest.raises(RefusedRequest) as caught:
        made(**parts)
    problem = caught.value.problem
    assert problem.title, problem
    assert problem.detail.endswith("."), problem
    assert problem.hint.endswith("."), problem
    return problem


def test_one_worker_is_a_pod_and_more_are_an_indexed_job_with_its_service():
    assert [one["kind"] for one in made()] == ["Pod"]
    job, service = made(kind="gang", workers=4)
    assert (job["kind"], service["kind"]) == ("Job", "Service")
    spec = job["spec"]
    assert (spec["completionMode"], spec["parallelism"], spec["completions"]) == ("Indexed", 4, 4)
    assert spec["backoffLimit"] == 0
    assert job["metadata"]["annotations"]["kai.scheduler/batch-min-member"] == "4"
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": "batch-1"}
    assert spec["template"]["spec"]["subdomain"] == service["metadata"]["name"]


def test_a_gang_may_start_with_fewer_than_it_wants():
    job, _ = made(kind="gang", workers=4, min_members=2)
    assert job["metadata"]["annotations"]["kai.scheduler/batch-min-member"] == "2"


def test_workers_find_each_other_in_order_of_rank():
    job, _ = made(kind="gang", workers=3)
    told = variables(job)
    hosts = [f"batch-1-{rank}.batch-1:29501" for rank in range(3)]
    assert told["KAI_GANG_HOSTS"] == ",".join(hosts)
    assert (told["MASTER_ADDR"], told["MASTER_PORT"]) == ("batch-1-0.batch-1", "29500")
    assert (told["WORLD_SIZE"], told["LOCAL_RANK"], told["LOCAL_WORLD_SIZE"]) == ("3", "0", "1")
    (rank,) = (entry for entry in container(job)["env"] if entry["name"] == "RANK")
    path = "metadata.labels['batch.kubernetes.io/job-completion-index']"
    assert rank["valueFrom"] == {"fieldRef": {"fieldPath": path}}


def test_the_restricted_standard_and_an_account_without_rights():
    one = pod()
    spec = one["spec"]
    assert spec["serviceAccountName"] == "kai-work"
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container(one)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostPath", "secret", "configMap"} & {
        key for volume in spec["volumes"] for key in volume
    }


def test_the_only_token_is_for_us_and_bound_to_the_pod():
    (token,) = (v for v in pod()["spec"]["volumes"] if v["name"] == "kai-token")
    (source,) = token["projected"]["sources"]
    assert source["serviceAccountToken"]["audience"] == "kai"


def test_labels_say_queue_priority_and_preemptibility():
    labels = pod(kind="lease", preemptible=False)["metadata"]["labels"]
    assert labels["kai.scheduler/queue"] == "team"
    assert labels["priorityClassName"] == "build"
    assert labels["kai.scheduler/preemptibility"] == "non-preemptible"
    assert labels["kai.scheduler/request"] == "batch-1"
    plain = pod()["metadata"]["labels"]
    assert plain["priorityClassName"] == "train"
    assert "kai.scheduler/preemptibility" not in plain


@pytest.mark.parametrize(
    ("priority", "name"),
    [(0, "train"), (50, "train"), (74, "train"), (75, "build-preemptible"), (500, "inference")],
)
def test_a_priority_is_the_nearest_class_below(priority, name):
    assert pod(priority=priority)["metadata"]["labels"]["priorityClassName"] == name


def test_the_owner_and_what_was_asked_are_written_down_without_the_work():
    notes = pod(origin=Origin(notebook="a.ipynb"), declared_run_s=60)["metadata"]["annotations"]
    assert notes["kai.scheduler/owner"] == "ana"
    told = json.loads(notes["kai.scheduler/asked"])
    assert told["declared_run_s"] == 60
    assert told["origin"]["notebook"] == "a.ipynb"
    assert not {"work", "signature", "process"} & told.keys()


def test_the_pods_of_a_job_name_no_owner_themselves():
    """They are made by a controller, whose word on that is not believed; their group has it from the Job."""
    job, _ = made(kind="gang", workers=2)
    assert "kai.scheduler/owner" in job["metadata"]["annotations"]
    assert "kai.scheduler/owner" not in job["spec"]["template"]["metadata"].get("annotations", {})


def test_whole_gpus_are_a_resource():
    one = pod(gpu=2, cpu="4", memory="8GiB")
    wanted = {"nvidia.com/gpu": "2", "cpu": "4000m", "memory": str(8 * 2**30)}
    assert container(one)["resources"] == {"requests": wanted, "limits": wanted}
    assert "NVIDIA_VISIBLE_DEVICES" not in variables(one)


@pytest.mark.parametrize(
    ("parts", "notes"),
    [
        ({"gpu": "0.5"}, {"gpu-fraction": "0.5"}),
        ({"gpu": 0.125, "devices": 2}, {"gpu-fraction": "0.125", "gpu-fraction-num-devices": "2"}),
        ({"gpu_memory": "8GiB"}, {"gpu-memory": "8192"}),
    ],
)
def test_shares_are_the_annotations_of_kai(parts, notes):
    one = pod(**parts)
    assert notes.items() <= one["metadata"]["annotations"].items()
    assert "resources" not in container(one)
    job, _ = made(kind="gang", workers=2, **parts)
    assert notes.items() <= job["spec"]["template"]["metadata"]["annotations"].items()


def test_a_pod_without_a_gpu_sees_none():
    assert variables(pod())["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_a_lease_ends_so_long_after_its_pod_started():
    assert pod(lease_s=600)["spec"]["activeDeadlineSeconds"] == 600
    lease = pod(kind="lease", lease_s=600)["spec"]
    assert "activeDeadlineSeconds" not in lease, "its end can be moved, and a deadline can not"
    job, _ = made(kind="gang", workers=2, lease_s=600)
    assert job["spec"]["template"]["spec"]["activeDeadlineSeconds"] == 600
    assert "activeDeadlineSeconds" not in job["spec"], "that would count while it waits"


def test_a_companion_is_like_its_notebook_as_far_as_that_may_travel():
    env = {"OMP_NUM_THREADS": "4", "HF_TOKEN": "secret", "JUPYTERHUB_USER": "ana", "EDITOR": "vi"}
    like = Work(workdir="/home/jovyan/$x", python="/opt/conda/bin/python", env=env)
    one = pod(kind="lease", work=like, signature=None, gpu=1)
    told = variables(one)
    assert told["OMP_NUM_THREADS"] == "4"
    assert not {"HF_TOKEN", "JUPYTERHUB_USER", "EDITOR"} & set(told), "left out, not refused"
    main = container(one)
    assert main["command"][0] == "/opt/conda/bin/python"
    assert main["args"] == ["--hold", "--workdir", "/home/jovyan/$$x"]


def test_a_lease_of_nothing_holds_its_device():
    one = pod(kind="lease", work=None, signature=None, gpu=1)
    assert container(one)["args"] == ["--hold"]


def test_a_kernel_is_one_pod_that_runs_what_was_signed_with_its_keys_as_a_file():
    work = Work(command=("python", "-m", "host", "{payload}"), payload_sha256="ab" * 32)
    one = pod(kind="kernel", work=work, gpu="0.5", lease_s=60)
    assert one["metadata"]["labels"]["kai.scheduler/kind"] == "kernel"
    assert one["metadata"]["labels"]["priorityClassName"] == "build"
    assert json.loads(container(one)["args"][1])["payload_sha256"] == work.payload_sha256
    assert not [v for v in one["spec"]["volumes"] if "secret" in v], "no key is in an object"
    assert refusal(kind="kernel", workers=2).code == "too_many_workers"


def test_work_goes_signed_to_our_entry_point():
    main = container(pod(work=Work(command=("sh", "-c", "echo $HOME"), python="/opt/py")))
    assert main["command"] == ["/opt/py", "-m", "scheduler_service.runner.in_pod"]
    told = dict(zip(main["args"][::2], main["args"][1::2], strict=True))
    assert told["--signature"] == "s"
    text = told["--work"]
    assert "$$HOME" in text, "Kubernetes would put its own value for $(NAME) there"
    assert json.loads(text.replace("$$", "$"))["command"] == ["sh", "-c", "echo $HOME"]


def test_an_image_without_us_runs_the_command_as_it_is():
    one = pod(cluster=PLAIN, signature=None, work=Work(command=("echo", "$(HOME)"), workdir="/d"))
    main = container(one)
    assert (main["command"], main["args"], main["workingDir"]) == (["echo", "$$(HOME)"], [], "/d")


def test_the_folder_is_the_persons_own_by_the_rules():
    one = pod()
    (claim,) = (v for v in one["spec"]["volumes"] if v["name"] == "folder")
    assert claim["persistentVolumeClaim"] == {"claimName": "claim-ana"}
    assert variables(one)["HOME"] == "/home/jovyan"
    assert variables(one)["KAI_SIGNING_KEY_FILE"] == "/home/jovyan/.local/state/kai/signing.key"


def test_a_folder_that_can_be_used_on_one_node_ties_the_pods_to_it():
    (one,) = make(
        ask(),
        owner="ana",
        namespace="lab",
        name="b",
        rules=RULES,
        folder=Folder("claim-ana", "node-7"),
    )
    terms = one["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    assert terms[0]["matchFields"][0]["values"] == ["node-7"]


def test_a_profile_gives_what_the_person_left_out():
    one = pod(cluster=ClusterAsk(profile="large"), cpu=2)
    main = container(one)
    assert main["image"] == "registry.example/large:1"
    assert main["resources"]["limits"] == {"cpu": "2000m", "memory": str(64 * 2**30)}
    assert one["spec"]["nodeSelector"] == {"pool": "big"}
    assert one["spec"]["tolerations"] == [{"key": "big", "operator": "Exists"}]


def test_variables_travel_by_a_list():
    work = Work(command=("x",), env={"OMP_NUM_THREADS": "4", "PYTHONPATH": "$x"})
    told = variables(pod(work=work))
    assert told["OMP_NUM_THREADS"] == "4"
    assert told["PYTHONPATH"] == "$$x"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("HF_TOKEN", "secret"),
        ("JUPYTERHUB_API_URL", "secret"),
        ("aws_secret_access_key", "secret"),
        ("NVIDIA_VISIBLE_DEVICES", "was given"),
        ("KAI_SERVICE_URL", "was given"),
        ("LD_PRELOAD", "was given"),
        ("LEARNING_RATE", "none that travels"),
    ],
)
def test_other_variables_are_refused_with_a_sentence(name, says):
    every = {"*"} if says != "none that travels" else set(RULES.environment)
    rules = Rules(default_image="i", folder="f", environment=tuple(every))
    problem = refusal(rules=rules, work=Work(command=("x",), env={name: "1"}))
    assert problem.code == "bad_variable"
    assert name in problem.detail
    assert says in problem.detail


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ({"kind": "server"}, "not_in_a_cluster"),
        ({"kind": "lease", "workers": 2}, "too_many_workers"),
        ({"workers": 100_000}, "too_many_workers"),
        ({"workers": 0}, "too_many_workers"),
        ({"work": None}, "nothing_to_run"),
        ({"work": Work()}, "nothing_to_run"),
        ({"signature": None}, "unsigned"),
        ({"cluster": ClusterAsk(folder="")}, "folder_needed"),
        ({"cluster": ClusterAsk(folder="../x")}, "bad_folder"),
        ({"cluster": ClusterAsk(image="elsewhere.example/x")}, "image_not_allowed"),
        ({"cluster": ClusterAsk(profile="huge")}, "unknown_profile"),
        ({"cluster": PLAIN, "work": Work(payload_sha256="a")}, "not_in_a_cluster"),
        ({"gpu": 1.5}, "bad_amount"),
        ({"gpu": 0}, "bad_amount"),
        ({"gpu": "many"}, "bad_amount"),
        ({"gpu": 1, "gpu_memory": "1GiB"}, "bad_amount"),
        ({"gpu": 2, "devices": 2}, "bad_amount"),
        ({"cpu": "fast"}, "bad_amount"),
        ({"memory": "8 elephants"}, "bad_amount"),
    ],
)
def test_what_is_never_made_is_refused_with_a_sentence(parts, code):
    assert refusal(**parts).code == code


def test_an_image_off_the_list_is_not_the_callers_to_use():
    with pytest.raises(NotAllowed, match="elsewhere"):
        made(cluster=ClusterAsk(image="elsewhere.example/x"))


def test_without_rules_nothing_can_be_made():
    assert refusal(rules=Rules()).code == "image_needed"


def test_the_payload_is_named_by_its_digest_alone():
    one = pod(work=Work(payload_sha256="abc"))
    assert one["metadata"]["annotations"]["kai.scheduler/payload"] == "abc"
    job, _ = made(kind="gang", workers=2, work=Work(payload_sha256="abc"))
    assert job["metadata"]["annotations"]["kai.scheduler/payload"] == "abc"


def test_the_name_follows_from_owner_place_and_key():
    def name(owner="ana", namespace="lab", key="k", **parts):
        return object_name(ask(**parts), owner=owner, namespace=namespace, key=key)

    assert name() == name()
    assert len({name(), name(owner="bob"), name(namespace="x"), name(key="l")}) == 4
    assert name(name="sweep.lr").startswith("sweep-lr-")
    assert name(name="3d").startswith("kai-3d-")
    assert len(name(name="x" * 50)) + len("-worker-100") <= 63


def test_a_pytorch_job_has_a_master_and_workers_with_one_template():
    (one,) = made(kind="gang", workers=3, gpu=1, cluster=ClusterAsk(workload="PyTorchJob"))
    assert (one["apiVersion"], one["kind"]) == ("kubeflow.org/v1", "PyTorchJob")
    roles = one["spec"]["pytorchReplicaSpecs"]
    assert {role: spec["replicas"] for role, spec in roles.items()} == {"Master": 1, "Worker": 2}
    spec = roles["Worker"]["template"]["spec"]
    assert spec["containers"][0]["name"] == "pytorch"
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert one["spec"]["runPolicy"]["schedulingPolicy"] == {"minAvailable": 3}
    assert one["metadata"]["annotations"]["kai.scheduler/owner"] == "ana"


def test_a_ray_job_runs_our_entry_point_on_a_cluster_of_as_many_pods():
    work = Work(command=("python", "-c", "print('$HOME')"))
    (one,) = made(kind="gang", workers=3, work=work, cluster=ClusterAsk(workload="RayJob"))
    spec = one["spec"]
    assert "scheduler_service.runner.in_pod" in spec["entrypoint"]
    assert "$$" not in spec["entrypoint"]
    (group,) = spec["rayClusterSpec"]["workerGroupSpecs"]
    assert (group["replicas"], group["minReplicas"]) == (2, 2)
    head = spec["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    assert head["automountServiceAccountToken"] is False
    assert "command" not in head["containers"][0]


def test_a_train_job_names_the_runtime_of_the_rules():
    (one,) = made(kind="gang", workers=2, gpu=1, cluster=ClusterAsk(workload="TrainJob"))
    assert one["spec"]["runtimeRef"] == {"name": "torch-distributed"}
    assert one["spec"]["trainer"]["numNodes"] == 2
    assert one["spec"]["trainer"]["resourcesPerNode"]["limits"]["nvidia.com/gpu"] == "1"
    share = refusal(kind="gang", workers=2, gpu=0.5, cluster=ClusterAsk(workload="TrainJob"))
    assert share.code == "bad_amount"
