"""B. Montazeri, Y. Li, M. Alizadeh, J. Ousterhout, "Homa: A Receiver-Driven Low-Latency Transport Protocol
Using Network Priorities" (SIGCOMM 2018): the published data of its figures on slowdown by message size.
"""
