"""G. Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control" (2020; from memory)."""
