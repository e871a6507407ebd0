"""
A Kubernetes for tests: an API server of pods on loopback, with a node whose pods are processes.

Start with `server`, which answers requests; `pods` keeps the objects, `kubelet` runs them. Requests
and answers are checked against Kubernetes' own `schema`.
"""
