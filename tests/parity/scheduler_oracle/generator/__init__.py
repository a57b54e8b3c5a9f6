"""Random Kubernetes clusters for the scheduler oracle; deterministic in the seed."""
