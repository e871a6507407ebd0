"""
Pods of a Kubernetes cluster as machines.

The input is a pool and a batch of machines. The output is calls of `kubectl`. Read `kubernetes`,
then `pod_request` (a machine as a pod) with its `pool_options` and `names`, `pod_states` (the state
of a pod) with `pod_events` (what happens before its container starts), and `kubectl` (how the
cluster is called, and what its failures mean).
"""
