"""Clouds behind the Cluster Autoscaler's external provider: its messages, and a provider that calls it."""
