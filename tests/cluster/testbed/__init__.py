"""A real Kubernetes on this machine, for tests and benchmarks; nothing here knows what is tested.

`tests/cluster/conftest.py` makes fixtures of these parts; its first lines say how to use them.
A benchmark takes the parts themselves:

    space = NetworkNamespace()                        # root; else own_namespace=False and no space
    with space.entered(), Cluster.started(folder, own_namespace=True) as cluster:
        cluster.install(DEPLOY / "manifests")
        cluster.nodes.add("node", count=500, gpus=8)
"""
