"""Kulkarni and Agrawal, "TCP throughput collapse in data centers" (chapters 1-4): the incast experiments."""
