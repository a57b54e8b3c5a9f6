"""`trimtab top`: a cluster, its plan and its deletions on one live screen of the terminal."""
