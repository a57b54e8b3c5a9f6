"""Tests of the rules with promtool, and of rules and dashboard with a real Prometheus server: `python -m
tests.promtool.observed`.
"""
