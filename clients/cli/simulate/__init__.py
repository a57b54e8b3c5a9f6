"""`trimtab simulate`: simulations of a scenario, and comparisons of settings."""
