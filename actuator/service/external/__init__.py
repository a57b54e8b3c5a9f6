"""The actuator as the Cluster Autoscaler's external cloud provider: any of our clouds, with the journal."""
