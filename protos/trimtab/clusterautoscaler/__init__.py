"""Interfaces of the Cluster Autoscaler, restated from their public field numbers."""
