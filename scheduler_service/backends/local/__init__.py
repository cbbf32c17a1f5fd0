"""This machine as a cluster of one node: pods are processes, started by their owner's runner."""
