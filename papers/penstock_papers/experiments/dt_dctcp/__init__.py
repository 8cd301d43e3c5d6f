"""Ease the Queue Oscillation: Analysis and Enhancement of DCTCP (Chen, Cheng, Ren, Shu, Lin)."""
