"""
Google's machines: VMs of Compute Engine (`gce`) and slices of Cloud TPU (`gcp_tpu`).

Pools and machines come in; calls of Google's APIs, made by Google's own client, go out. Read
`names` first, then `verdicts` (what an error means), `api` (how a call is made), then `gce` with
`gce_request`, and `tpu` with `tpu_request`. The requests and the verdicts are pure.

`answers` are those that are no success, `request_ids` make a call that is sent twice one, `rights`
is what an identity may not do, `script` how a machine learns its name, and `tpu_states` what is
said of a slice.
"""
