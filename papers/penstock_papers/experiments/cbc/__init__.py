"""Collective bandwidth control (K. Kant): every figure of the paper and the statements drawn from them."""
