"""Naive twins of the kernels of ProvisioningRequests."""
