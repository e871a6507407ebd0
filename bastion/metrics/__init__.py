"""
Metrics: what a bastion and a page server tell Prometheus.

Comes in: the views that a bastion publishes, and what it does while it runs. Goes out: metrics in
OpenMetrics. Read `meter` (what a loop reports, with nothing installed), `gauges` (what the views
say), `use_gauges` (how much devices are used), `prometheus` (the meter that counts),
`metered_store` (a store whose calls are counted) and `port` (where a bastion answers). The client
library is imported by `gauges`, `prometheus` and `port` alone, and only where metrics are asked
for.
"""
