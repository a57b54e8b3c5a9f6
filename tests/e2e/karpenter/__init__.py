"""Karpenter with its kwok provider on a real control plane, alone and with a planner."""
