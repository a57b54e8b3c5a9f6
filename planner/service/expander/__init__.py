"""The expander service of the Cluster Autoscaler, `grpcplugin.Expander`: requests in, choices of the planner out."""
