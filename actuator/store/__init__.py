"""The durable log of events: what was answered or begun survives a crash at any time."""
