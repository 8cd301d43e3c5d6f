"""Published results judged with penstock: the ledger, and the experiments of every paper."""

__version__ = "0.1.0"
