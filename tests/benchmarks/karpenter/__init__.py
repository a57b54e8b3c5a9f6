"""Karpenter's own scheduling benchmark, solved by Karpenter and by Trimtab; README.md says how."""
