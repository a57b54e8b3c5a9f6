"""From Kubernetes objects and live clusters to snapshots of the contract, and from one snapshot to the next."""
