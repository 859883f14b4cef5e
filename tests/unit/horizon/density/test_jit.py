"""The cache of compiled functions follows what they are made from, not when it was saved."""

from __future__ import annotations

from pathlib import Path

import numba
import pytest

from tidegauge.horizon.density import jit


def test_the_key_follows_contents_and_names_but_not_times(tmp_path: Path) -> None:
    def key() -> str:
        jit.source_hash.cache_clear()
        return jit.source_hash(tmp_path)

    (tmp_path / "one.py").write_text("A = 1")
    first = key()
    (tmp_path / "one.py").write_text("A = 1")  # written again: another time, the same contents
    assert key() == first
    (tmp_path / "one.py").write_text("A = 2")
    second = key()
    (tmp_path / "one.py").rename(tmp_path / "two.py")
    assert len({first, second, key()}) == 3


def test_functions_of_another_source_are_compiled_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def declared() -> object:
        @jit.jit
        def one() -> int:
            return 1

        assert one() == 1
        return one.stats.cache_hits

    assert [sum(declared().values()) for _ in range(2)] == [0, 1]
    monkeypatch.setattr(jit, "source_hash", lambda *_: "changed")
    assert sum(declared().values()) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["tidegauge-changed"]
    assert str(tmp_path) == numba.config.CACHE_DIR
