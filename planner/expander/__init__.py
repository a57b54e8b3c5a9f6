"""The expander service of the Cluster Autoscaler, `grpcplugin.Expander`: answers with the planner's choices."""
