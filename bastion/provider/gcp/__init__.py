"""
Google's machines: VMs of Compute Engine (`gce`) and slices of Cloud TPU (`gcp_tpu`).

The input is pools and machines. The output is calls to Google's APIs, made by Google's own client.
Read `verdicts` first (what an error means), then `api` (how a call is made), then `gce` with
`gce_request`, and `tpu` with `tpu_request`. The requests and the verdicts are pure.

`answers` handles unsuccessful answers, `request_ids` makes a call that is sent twice count once,
`rights` reports what an identity may not do, `script` is how a machine learns its name, and
`tpu_states` reads the state of a slice.
"""
