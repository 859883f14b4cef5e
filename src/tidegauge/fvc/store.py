"""A fitted blend on disk: ``model.json`` and ``arrays.npz``, numbers only, nothing executable."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tidegauge.engine.store import MANIFEST, manifest, read_npz, write_json
from tidegauge.errors import InputError
from tidegauge.fvc.forecasters.stack import Blend, Member
from tidegauge.fvc.recalibration import Calibration
from tidegauge.fvc.selection import FORECASTERS, FittedModel
from tidegauge.io import atomic_folder, check_complete, read_file, sha256_of

FORMAT = "tidegauge-fvc-model"
VERSION = 2
_JSON, _ARRAYS = "model.json", "arrays.npz"
_BLENDS = ("blend", "outlook")
_MAX_BYTES = 2**30


def save_model(model: FittedModel, folder: Path) -> None:
    """Write a model folder; a kill leaves the old one or none."""
    arrays: dict[str, Any] = {}
    blends = {name: _pack(name, getattr(model, name), arrays) for name in _BLENDS}
    with atomic_folder(folder) as staging:
        np.savez(staging / _ARRAYS, **arrays)
        content = {
            "format": FORMAT,
            "version": VERSION,
            "chosen": model.chosen,
            **blends,
            "feature_names": list(model.feature_names),
            "training": model.training,
            "sha256": sha256_of(staging / _ARRAYS),
        }
        (staging / _JSON).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        described = manifest(kind="fvc/fit", inputs={}, settings={"training": model.training})
        write_json(staging / MANIFEST, described)


def _pack(name: str, blend: Blend, arrays: dict[str, Any]) -> dict[str, Any]:
    """Put a blend's arrays among the others and return the rest of it."""
    members = []
    for i, member in enumerate(blend.members):
        state = member.fitted.state()
        arrays |= {f"{name}.{i}.{key}": np.asarray(value) for key, value in state.items()}
        calibrations = [asdict(one) for one in (member.calibration, *member.by_visits)]
        members.append({"name": member.name, "calibrations": calibrations, "arrays": sorted(state)})
    return {"members": members, "weights": list(blend.weights)}


def _unpack(name: str, entry: dict[str, Any], arrays: Any) -> Blend:
    members = []
    for i, one in enumerate(entry["members"]):
        state = {key: arrays[f"{name}.{i}.{key}"] for key in one["arrays"]}
        fitted = FORECASTERS[one["name"]].restore(state)
        first, *more = (Calibration(**values) for values in one["calibrations"])
        members.append(Member(one["name"], fitted, first, tuple(more)))
    return Blend(tuple(members), tuple(float(w) for w in entry["weights"]))


def load_model(folder: Path) -> FittedModel:
    """Read a model folder.

    Raises
    ------
    InputError
        No model there, one of another version, or a damaged one.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such model folder; make one with `tidegauge fvc fit`")
    check_complete(folder)
    content = _read_content(folder / _JSON)
    path = folder / _ARRAYS
    data = read_file(path, max_bytes=_MAX_BYTES) if path.is_file() else b""
    if hashlib.sha256(data).hexdigest() != content.get("sha256"):
        if _read_content(folder / _JSON) != content:
            return load_model(folder)  # another command replaced it meanwhile
        raise InputError(f"{path}: missing or damaged; fit the model again")
    arrays = read_npz(path, data)
    try:
        blend, outlook = (_unpack(name, content[name], arrays) for name in _BLENDS)
        return FittedModel(
            blend,
            outlook,
            str(content["chosen"]),
            tuple(content["feature_names"]),
            dict(content["training"]),
        )
    except (AttributeError, LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise InputError(f"{folder}: damaged model ({error}); fit the model again") from error


def _read_content(path: Path) -> dict[str, Any]:
    try:
        if not path.is_file():
            raise InputError(f"{path}: not found; make a model with `tidegauge fvc fit`")
        content = json.loads(read_file(path, max_bytes=_MAX_BYTES))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path}: damaged ({error}); fit the model again") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f"{path}: not a tidegauge fvc model; give the folder that `fit` wrote")
    if content.get("version") != VERSION:
        raise InputError(
            f"{path}: format version {content.get('version')}, this tidegauge reads {VERSION}; "
            "fit the model again with this version"
        )
    return content
