"""`trimtab simulate`: simulations of a scenario, and settings side by side."""
