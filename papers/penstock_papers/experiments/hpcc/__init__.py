"""Y. Li et al., "HPCC: High Precision Congestion Control" (SIGCOMM 2019; from memory)."""
