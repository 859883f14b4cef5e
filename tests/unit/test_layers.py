"""Imports point down only, and heavy libraries stay where they are named."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "tidegauge"
MODULES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))

FRONT_DOOR = ("__init__", "__main__")
# The public names of a capability: they may also call what draws and writes pages, lazily.
PUBLIC = {"horizon/__init__.py": {"report"}, "horizon/result.py": {"report"}}
# A module may import from its own layer's package and from the layers listed for it.
BASE = {"arrays", "errors", "system", "io", "manifest", "scores", "progress"}
MAY_IMPORT = {
    "errors": set(),
    "system": {"errors"},
    "io": {"errors", "system"},
    "manifest": {"errors", "io"},
    "arrays": set(),
    "scores": {"arrays"},
    "progress": set(),
    "schema": BASE,
    "simulate": BASE | {"schema"},
    "engine": BASE | {"schema"},
    "horizon": BASE | {"schema", "simulate", "engine"},
    "fvc": BASE | {"schema", "simulate", "engine"},
    "bench": BASE | {"schema", "simulate"},
    "report": BASE | {"schema", "engine", "horizon", "fvc", "bench"},
    "cli": BASE | {"schema", "simulate", "engine", "horizon", "fvc", "bench", "report"},
}
# Rooms of the horizon package: each may import those before it, and none after it.
ROOMS = (
    *("data", "model", "density", "sampler", "horizons", "methods", "trend", "studies", "store"),
    "analysis",
)
KEPT_IN = {
    # The specification of the horizon model is split over files of their own, all named so.
    "pymc": ("engine/", "horizon/model/specification", "fvc/model/specification.py"),
    "numba": ("horizon/density/", "horizon/sampler/", "fvc/model/density.py"),
    "nutpie": ("engine/sampling.py",),
    "pydicom": ("fvc/scans/dicom.py", "simulate/osic.py", "simulate/phantoms.py"),
    "altair": ("report/",),
    "inspect_ai": ("bench/inspect_tasks.py",),
    "dask": ("engine/parallel.py",),
    "distributed": ("engine/parallel.py",),
}


def imports_of(module: str) -> list[tuple[str, bool]]:
    """Every imported name, and whether it is only for the type checker."""
    tree = ast.parse((SOURCE / module).read_text())
    typing_only = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, node in typing_only) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{module}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [(name, node in typing_only) for name in names]
    return found


def test_imports_point_down() -> None:
    wrong = []
    for module in MODULES:
        layer = module.removesuffix(".py").split("/")[0]
        for name, _ in [] if layer in FRONT_DOOR else imports_of(module):
            if name.startswith("tidegauge.") and name != "tidegauge.__version__":
                target = name.split(".")[1]
                allowed = MAY_IMPORT[layer] | PUBLIC.get(module, set())
                if target != layer and target not in allowed:
                    wrong.append(f"{module} imports {name}")
    assert wrong == []
    assert rooms_imported_upwards() == set()


def rooms_imported_upwards() -> set[tuple[str, str]]:
    """Modules in a room of horizon with the later rooms they import."""
    found = set()
    for module in MODULES:
        layer, room, *rest = [*module.split("/"), ""]
        for name, _ in imports_of(module) if layer == "horizon" and rest != [""] else []:
            target = [*name.split("."), "", ""][2] if name.startswith("tidegauge.horizon.") else ""
            if target in ROOMS and ROOMS.index(target) > ROOMS.index(room):
                found.add((module, target))
    return found


def test_heavy_libraries_stay_where_they_are_named() -> None:
    wrong = []
    for module in MODULES:
        for name, typing_only in imports_of(module):
            allowed = KEPT_IN.get(name.split(".")[0])
            if allowed and not typing_only and not module.startswith(allowed):
                wrong.append(f"{module} imports {name}")
    assert wrong == []
