"""The package as others get it: what importing it loads, and what the wheel holds."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import budgerigar

ROOT = Path(__file__).resolve().parents[1]

TORCH_FREE = (
    "budgerigar",
    "budgerigar.api",
    "budgerigar.api.cards",
    "budgerigar.api.data",
    "budgerigar.cli",
    "budgerigar.errors",
    "budgerigar.generation.options",
    "budgerigar.generation.translation_options",
    "budgerigar.layers.config",
    "budgerigar.models.configs",
    "budgerigar.progress",
    "budgerigar.text.catalogue",
    "budgerigar.training.recipe",
)


@pytest.mark.parametrize("name", TORCH_FREE)
def test_importing_loads_no_torch(name: str) -> None:
    heavy = ("torch", "tokenizers", "matplotlib")
    code = (
        f"import sys, {name}; loaded = set({heavy}) & set(sys.modules); assert not loaded, loaded"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_public_names_are_there() -> None:
    for name in budgerigar.__all__:
        assert getattr(budgerigar, name) is not None
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = budgerigar.no_such_thing


def test_the_wheel_holds_the_package_data(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        source.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", source / "src", ignore=ignored)
    code = "from setuptools import build_meta; print(build_meta.build_wheel('dist'))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (wheel,) = (source / "dist").glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src").rglob("*")
        if path.suffix in (".py", ".toml", ".json", ".typed", ".html", ".css", ".js", ".md")
        and "__pycache__" not in path.parts
        and not path.parent.name.endswith(".egg-info")
    }
    assert wanted <= held, sorted(wanted - held)
    assert any(name.endswith("entry_points.txt") for name in held)


def test_constraints_pin_what_is_required() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, version = line.partition("==")
            assert version, f"{line!r} is not pinned"
            pinned[name] = version
    for requirement in [*project["dependencies"], *project["optional-dependencies"]["dev"]]:
        name = requirement.split(">")[0].split("=")[0].strip()
        assert name in pinned, f"{name} is not in constraints.txt"


def test_make_targets_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("install", "demo", "test", "test-slow", "check"):
        assert f"\n{target}:" in makefile
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100
