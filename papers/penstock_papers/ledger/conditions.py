"""Conditions on measured numbers, as causes in claims.toml have them: "{eta 1/drops} < 0.5 * {cbc/drops}".

A field is a path into the measurement, as in the templates of `penstock_papers.ledger.words`. Of an estimate
it is the mean, or its `low` or `high`. `and` joins comparisons; numbers may have + - * / and `abs`.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from types import CodeType
from typing import Any

from penstock_papers.ledger import words
from penstock_papers.ledger.criteria import Estimate

_FIELD = re.compile(r"\{([^{}]+)\}")
_ALLOWED = (
    *(ast.Expression, ast.BoolOp, ast.And, ast.Compare, ast.BinOp, ast.UnaryOp, ast.USub, ast.Constant),
    *(ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Name, ast.Load, ast.Call),
)


@lru_cache(maxsize=1024)
def compiled(condition: str) -> tuple[CodeType, tuple[str, ...]]:
    """A condition and its fields. Raises ValueError for one that has anything else in it."""
    fields = tuple(_FIELD.findall(condition))
    numbers = iter(range(len(fields)))
    text = _FIELD.sub(lambda _: f"_{next(numbers)}", condition)
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        raise ValueError(f"holds = {condition!r}: is no comparison of numbers") from None
    calls = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    if not all(isinstance(node, _ALLOWED) for node in ast.walk(tree)) or calls - {"abs"}:
        raise ValueError(f"holds = {condition!r}: may have comparisons, `and`, + - * / and abs() only")
    return compile(tree, "<condition>", "eval"), fields


def met(condition: str, measurement: Any) -> bool:
    """Whether a condition holds. Raises KeyError for a path that the measurement lacks."""
    code, fields = compiled(condition)
    found = (words.found(field, measurement) for field in fields)
    numbers = {f"_{i}": x.mean if isinstance(x, Estimate) else x for i, x in enumerate(found)}
    return bool(eval(code, {"__builtins__": {}, "abs": abs}, numbers))
