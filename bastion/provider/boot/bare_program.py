"""The program that a start-up script carries, without the parts that are not needed at run time."""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path


@cache
def bootstrap(*more: str) -> str:
    """
    Return the program that the script carries, without its comments and annotations.

    `more` are parts that only some machines need: EC2 allows 16 kB.
    """
    parts = [_bare(name) for name in ("bucket_call", *more, "bootstrap")]
    text = "\n".join(ast.unparse(part) for part in parts)
    # Indenting with one blank per level reduces the program's size by a fifth.
    return re.sub(r"^( {4})+", lambda found: " " * (len(found[0]) // 4), text, flags=re.MULTILINE)


def _bare(name: str) -> ast.Module:
    found = find_spec(f"bastion.provider.boot.{name}")
    assert found is not None and found.origin is not None
    tree: ast.Module = _Bare().visit(ast.parse(Path(found.origin).read_text()))
    return ast.fix_missing_locations(tree)


class _Bare(ast.NodeTransformer):
    """Removes the parts that a program does not need at run time."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.returns = None
        for each in (*node.args.args, *node.args.kwonlyargs):
            each.annotation = None
        return node

    def visit_If(self, node: ast.If) -> ast.If | None:
        is_for_types = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        if is_for_types:
            return None
        self.generic_visit(node)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.Assign:
        assert node.value is not None
        return ast.Assign(targets=[node.target], value=node.value)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom | None:
        module = node.module or ""
        is_part = module in ("__future__", "typing") or module.startswith("bastion.")
        return None if is_part else node
