"""The durable log of events: what has been answered or begun survives a crash at any instant."""
