"""
Google's machines: VMs of Compute Engine (`gce`) and slices of Cloud TPU (`gcp_tpu`).

Pools and machines come in; calls of Google's APIs, made by Google's own client, go out. Read
`names` first, then `verdicts` (what an error means), `api` (how a call is made), then `gce` with
`gce_request`, and `tpu` with `tpu_request`. The requests and the verdicts are pure.
"""
