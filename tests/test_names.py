"""A class name is used once in the package, so that a search for it finds one thing."""

import ast
from collections import Counter
from pathlib import Path

import isthmus


def test_a_class_name_is_used_once_in_the_package() -> None:
    trees = (ast.parse(path.read_text("utf-8")) for path in Path(isthmus.__file__).parent.rglob("*.py"))
    counts = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert {name for name, count in counts.items() if count > 1} == set()
