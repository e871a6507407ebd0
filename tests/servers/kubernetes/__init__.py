"""
A Kubernetes of ours: an API server of pods on loopback, with a node whose pods are processes.

Read `server` first, which answers requests; `pods` keeps the objects, `kubelet` runs them. What is
sent and what is answered is held to Kubernetes' own `schema`.
"""
