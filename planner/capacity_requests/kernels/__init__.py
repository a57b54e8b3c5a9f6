"""Compiled loops of ProvisioningRequests."""
