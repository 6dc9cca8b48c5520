"""Reaching the web on a model's behalf: which addresses, what comes back, who searches."""
