"""`trimtab admin certificates`: a private CA, and certificates for the components of Trimtab."""
