"""`trimtab report`: one page with charts that works offline, from a simulation or a cluster."""
