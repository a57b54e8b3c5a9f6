"""The least price that replacement can lead to, without planner code."""
