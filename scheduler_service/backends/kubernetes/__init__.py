"""A Kubernetes cluster as the world: watch, decode, apply, and the controllers, binder and webhook around it."""
