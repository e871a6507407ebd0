"""
Metrics: what a bastion and a page server report to Prometheus.

The input is the views that a bastion publishes, and what it does while it runs. The output is
metrics in OpenMetrics. Read `meter` (what a loop reports; needs no installation), `gauges` (the
values of the views), `use_gauges` (how much devices are used), `prometheus` (the meter that
counts), `metered_store` (a store whose calls are counted) and `port` (where a bastion answers).
Only `gauges`, `prometheus` and `port` import the client library, and only if metrics are enabled.
"""
