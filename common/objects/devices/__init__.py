"""Devices of dynamic resource allocation: slices, classes and claims as columns; what a pod claims. Decides nothing
about which device a claim gets. Source: Kubernetes API, resource/v1; scheduler plugin dynamicresources.
"""
