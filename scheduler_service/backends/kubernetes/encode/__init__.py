"""Values of the model in, manifests and patches out. Pure; one small file an object."""
