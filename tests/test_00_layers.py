"""The tree is the data flow: a module imports from its own line or from a line above it."""

import ast
import re
from pathlib import Path

import isthmus

LAYERS = [
    {
        "types",
        "errors",
        "_optional",
        "atomic",
        "budget",
        "checksums",
        "devices",
        "files",
        "prefetch",
        "service",
        "spans",
        "urls",
    },
    {"isolated", "ocr"},
    {"registry", "kinds", "documents", "samples"},
    {"sources", "encoders", "calibration", "index", "queries", "words"},
    {"storage", "bulk"},
    {"align"},
    {"search"},
    {"evaluate", "diagnose", "plan"},
    {"stores"},
    {"train"},
    {"client"},
    {"serve"},
    {"agents", "integrations"},
    {"cli", "__main__"},
]
PARTS = LAYERS[3]
ROOT = Path(isthmus.__file__).parent


def layer(name: str) -> int:
    return next(depth for depth, names in enumerate(LAYERS) if name in names)


def imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    full = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            full |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in full if name.startswith("isthmus.")}


def test_only_the_sqlite_engine_knows_sqlite() -> None:
    others = {
        "words/bm25.py",
        "words/tokens.py",
        "encoders/cache.py",
        "cli/doctor.py",
    }  # databases of their own, or its version
    for path in ROOT.rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith("storage/sqlite/") and name not in others:
            assert "import sqlite3" not in path.read_text(), name
    for path in (ROOT / "search").rglob("*.py"):
        assert not re.search(r"\b(SELECT|INSERT INTO|DELETE FROM|UPDATE \w+ SET|PRAGMA) ", path.read_text()), path.name


def test_the_layers_list_what_exists() -> None:
    found = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    listed = [name for names in LAYERS for name in names]
    assert sorted(listed) == sorted(found - {"__init__"})


def test_a_module_imports_only_from_its_own_layer_or_below_and_parts_are_blind_to_each_other() -> None:
    modules = [path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py"]
    assert len(modules) > 20
    for path in modules:
        own = path.relative_to(ROOT).parts[0].removesuffix(".py")
        for other in imports(path) - {own, "__version__"}:  # a string of the root, no module
            assert layer(other) <= layer(own), f"{path} imports {other}"
            assert not {own, other} <= PARTS, f"{path}: parts meet in search, as arrays"


# Where kinds are named: their table, what reads, makes or encodes texts and pictures, and the fields of JSON.
NAME_KINDS = (
    *(
        "kinds/",
        "encoders/",
        "sources/",
        "isolated/",
        "ocr/",
        "words/",
        "align/",
        "queries/",
        "samples/",
        "evaluate/",
        "train/",
    ),
    *(
        "search/json_forms.py",
        "search/json_details.py",
        "search/request.py",
        "cli/options.py",
        "storage/sqlite/schema.py",
        "serve/answers.py",
    ),
    *("storage/sqlite/migrations.py", "cli/evaluate.py"),  # names of columns; a format of tables
)


def test_no_kind_is_named_outside_its_table_its_readers_and_its_encoders() -> None:
    found: list[str] = []
    for path in ROOT.rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(NAME_KINDS):
            nodes = (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Constant))
            found += [f"{name}:{node.lineno}" for node in nodes if node.value in ("text", "image", "image+text")]
    assert found == []


USE_TORCH = ("encoders/", "align/", "train/", "devices.py", "index/device.py", "index/tiles.py", "evaluate/mteb.py")


def test_torch_is_used_where_the_architecture_says() -> None:
    for path in ROOT.rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith((*USE_TORCH, "search/handle.py")):  # which asks whether there is a GPU
            assert not re.search(r'import torch|need\("torch"', path.read_text()), name
