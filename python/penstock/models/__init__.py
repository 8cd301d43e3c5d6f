"""Analytic models: the equation view of each protocol, as vectorised NumPy functions."""
