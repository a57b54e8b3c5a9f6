"""Tests of the alerting rules with promtool."""
