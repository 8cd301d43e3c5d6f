"""Y. Zhu et al., "Congestion Control for Large-Scale RDMA Deployments" (2015): DCQCN (from memory)."""
