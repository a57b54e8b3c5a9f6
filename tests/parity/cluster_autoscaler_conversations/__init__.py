"""Conversations of a real Cluster Autoscaler with our services: how they are recorded, and their form."""
