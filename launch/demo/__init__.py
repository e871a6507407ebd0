"""The demo: a real bastion, real jobs and a real preemption on this machine."""
