"""The durable log of events: whatever was answered or begun survives a crash."""
