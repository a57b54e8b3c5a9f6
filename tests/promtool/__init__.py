"""The rules by promtool, and rules and dashboard by a real Prometheus server: `python -m tests.promtool.observed`."""
