"""What a request says of where it is made: this machine, or beside a cluster."""

import sys
from pathlib import Path

from kai_jupyter.surroundings import cluster_ask, own_image, work_of
from scheduler_service.wire.pod_group import ClusterAsk

IMAGE = "example.local/notebook:3"


def test_on_this_machine_the_work_runs_as_here():
    work = work_of("d", None, {})

    assert (work.python, work.workdir) == (sys.executable, str(Path.cwd()))


def test_pods_of_the_notebooks_own_image_run_as_here():
    hub = {"JUPYTER_IMAGE_SPEC": IMAGE}
    ask = cluster_ask(None, hub)

    assert ask.image == own_image(hub) == IMAGE
    assert work_of("d", ask, hub).python == sys.executable


def test_pods_of_another_image_know_nothing_of_this_interpreter():
    for environ, chosen in (({}, None), ({"KAI_IMAGE": IMAGE}, ClusterAsk(image="other"))):
        work = work_of("d", cluster_ask(chosen, environ), environ)

        assert (work.python, work.workdir) == (None, None)


def test_what_a_person_chose_wins_over_what_the_pod_of_the_notebook_has():
    environ = {"KAI_NAMESPACE": "lab", "KAI_FOLDER": "home", "KAI_IMAGE": IMAGE}

    assert cluster_ask(None, environ) == ClusterAsk(namespace="lab", folder="home", image=IMAGE)
    chosen = ClusterAsk(namespace="mine", folder="", profile="big")
    assert cluster_ask(chosen, environ) == chosen, "a profile brings its own image"
