"""Analytic models: the equation view of each protocol, as vectorised NumPy functions.

A module is loaded on first use, by `penstock.models.marking` as by `from penstock.models import marking`.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    if name.startswith("_") or name not in __dir__():
        raise AttributeError(f"module 'penstock.models' has no attribute {name!r}")
    return importlib.import_module(f"penstock.models.{name}")


def __dir__() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(__path__))
