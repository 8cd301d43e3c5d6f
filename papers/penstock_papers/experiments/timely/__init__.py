"""R. Mittal et al., "TIMELY: RTT-based Congestion Control for the Datacenter" (2015; from memory)."""
