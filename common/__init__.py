"""The floor that planner, actuator and clients share: documents, calls, Kubernetes objects, and snapshots of them."""
