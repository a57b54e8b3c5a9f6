"""Select which of the unneeded nodes go now."""
