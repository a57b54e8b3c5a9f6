"""The external cloud provider of the Cluster Autoscaler."""
