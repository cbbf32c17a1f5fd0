// Modules whose CRDs the tests apply. Nothing here is built, so `go mod tidy` would empty it:
// after a change run `go mod download`, which writes go.sum.
module kai-jupyter/tests/cluster/operators

go 1.24.0

require (
	github.com/kubeflow/training-operator v1.9.3
	sigs.k8s.io/jobset v0.10.1
	sigs.k8s.io/lws v0.7.0
)
