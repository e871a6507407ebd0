"""
Pods of a Kubernetes cluster as machines.

A pool and a batch of machines come in, calls of `kubectl` go out. Read `kubernetes`, then
`pod_request` (a machine as a pod) with its `pool_options` and `names`, `pod_states` (what a pod
says) with `pod_events` (what is done before its container begins), and `kubectl` (how the cluster
is asked, and what its failures mean).
"""
