"""M. Handley et al., "Re-architecting datacenter networks and stacks for low latency and high performance"
(NDP; 2017; from memory).
"""
