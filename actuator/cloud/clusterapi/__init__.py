"""Cluster API: MachineDeployments and MachinePools through the Kubernetes API."""
