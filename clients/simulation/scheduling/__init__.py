"""The simulated scheduler: kube-scheduler's filters and default scores over columns, one pod at a time."""
