"""The blockers that can be lifted, each with the edit that lifts it: found in the base plan, one module for each part
of the input that changes.
"""
