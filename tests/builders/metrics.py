"""Metrics that the services promise, with their labels and the values that are checked.

Tests of running services compare the served metrics with these tables; tests of rules and dashboards compare their
queries with them.
"""

PLANNER: dict[str, dict[str, set[str]]] = {
    "function_duration_seconds": {"function": {"decode", "columns", "classes", "simulate"}},
    "plans_total": {"decision": {"SCALE_DOWN"}, "result": set()},
    "snapshot_bases_total": {"kind": {"whole"}},
    "grpc_server_call_duration_seconds": {"method": {"Plan"}, "code": {"OK"}},
}
ACTUATOR: dict[str, dict[str, set[str]]] = {
    "scaled_down_nodes_total": {"reason": {"underutilized", "empty"}},
    "scaled_down_gpu_nodes_total": {"reason": {"empty"}},
    "function_duration_seconds": {"function": {"start_deletion", "apply_taints"}, "work": {"empty", "non_empty"}},
    "evictions_total": {"result": {"granted"}, "kind": {"moved", "daemon"}},
    "scale_down_duration_seconds": {"kind": {"drain", "empty"}},
    "deletions_in_progress": {"state": {"TAINTED", "DRAINING", "DELETING"}, "age": {"1m", "10m", "1h", "more"}},
    "oldest_deletion_age_seconds": {"state": {"TAINTED", "DRAINING"}},
    "failed_scale_downs_total": {"reason": {"CANCELLED"}, "kind": {"drain"}},
    "leading": {},
    "unknown_taints": {},
    "grpc_server_call_duration_seconds": {"method": {"StartDeletion"}, "code": {"OK"}},
}
HISTOGRAMS = {"function_duration_seconds", "scale_down_duration_seconds", "grpc_server_call_duration_seconds"}
