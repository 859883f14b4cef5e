"""Files are whole or not there, folders replace as one, and lines never mix."""

from __future__ import annotations

import errno
import gzip
import multiprocessing
import os
import random
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

from tidegauge.errors import InputError
from tidegauge.io import (
    append_line,
    atomic_folder,
    atomic_write,
    atomic_write_bytes,
    check_complete,
    check_writable,
    finish_commit,
    make_folder,
    open_binary,
    read_file,
    read_yaml,
    sha256_of,
)

FORK = multiprocessing.get_context("fork")
OWNED = ("a.txt", "b.txt", "plots")


def contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_atomic_write_replaces_and_makes_folders(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deep" / "file.txt"
    for text in ("first\n", "second: é\r\n"):
        with atomic_write(path) as handle:
            handle.write(text)
        assert path.read_bytes() == text.encode()
    assert os.listdir(path.parent) == ["file.txt"]


def test_atomic_write_bytes_writes_bytes(tmp_path: Path) -> None:
    with atomic_write_bytes(tmp_path / "file.bin") as handle:
        handle.write(b"\x00\xff")
    assert (tmp_path / "file.bin").read_bytes() == b"\x00\xff"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, error: type[BaseException]
) -> None:
    path = tmp_path / "file.txt"
    path.write_text("old")
    with pytest.raises(error), atomic_write(path) as handle:  # noqa: PT012
        handle.write("new")
        raise error
    assert contents(tmp_path) == {"file.txt": "old"}


def test_a_replaced_file_keeps_its_permissions_and_a_new_one_follows_the_umask(
    tmp_path: Path,
) -> None:
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.write_text("")
    old.chmod(0o640)
    before = os.umask(0o027)
    try:
        for path in (old, new):
            with atomic_write(path) as handle:
                handle.write("x")
        assert os.umask(0o027) == 0o027  # looking at the umask does not change it
    finally:
        os.umask(before)
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert stat.S_IMODE(new.stat().st_mode) == 0o640


def test_a_link_stays_a_link_to_the_new_content(tmp_path: Path) -> None:
    target, link = tmp_path / "target.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    with atomic_write(link) as handle:
        handle.write("new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_pipe_is_written_to_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with atomic_write(pipe) as handle:
        handle.write("through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_place_that_cannot_be_written_is_the_users_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a folder"), atomic_write(tmp_path):
        pass
    for attempt in (
        lambda: make_folder(tmp_path / "file"),
        lambda: make_folder(tmp_path / "file" / "below"),
        lambda: append_line(tmp_path, "x"),
        lambda: atomic_folder(tmp_path / "file").__enter__(),
        lambda: atomic_write(tmp_path / "file" / "below.txt").__enter__(),
    ):
        with pytest.raises(InputError, match="choose another place"):
            attempt()
    assert contents(tmp_path) == {"file": ""}


def test_check_writable_says_so_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    check_writable(tmp_path)
    check_writable(tmp_path / "new" / "deep")
    for folder in (tmp_path / "file", tmp_path / "file" / "below" / "it"):
        with pytest.raises(InputError, match="is not a folder; choose another place"):
            check_writable(folder)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_check_writable_refuses_a_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="is not writable"):
        check_writable(tmp_path / "new")


def test_open_binary_tells_gzip_by_its_bytes_and_closes_what_it_opened(tmp_path: Path) -> None:
    (tmp_path / "plain.gz").write_bytes(b"plain in spite of its name")
    (tmp_path / "zipped").write_bytes(gzip.compress(b"zipped"))
    (tmp_path / "empty").write_bytes(b"")
    for name, expected in (
        ("plain.gz", b"plain in spite of its name"),
        ("zipped", b"zipped"),
        ("empty", b""),
    ):
        stream = open_binary(tmp_path / name)
        assert stream.read() == expected
        stream.close()  # a file left open would be a warning, hence a failure


def test_append_line_ends_every_line_and_closes_a_half_one(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "log"
    append_line(path, "one")
    append_line(path, "two\n")
    with open(path, "a") as handle:
        handle.write("half")
    append_line(path, "three")
    assert path.read_text() == "one\ntwo\nhalf\nthree\n"
    with pytest.raises(ValueError, match="single line"):
        append_line(path, "four\nfive")


def test_a_full_disk_leaves_the_records_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runs.jsonl"
    append_line(path, "one")
    write = os.write

    def full_after_three_bytes(descriptor: int, data: bytes) -> int:
        if len(data) <= 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[:3])

    monkeypatch.setattr(os, "write", full_after_three_bytes)
    with pytest.raises(InputError, match="No space left"):
        append_line(path, "a long line")
    monkeypatch.undo()
    assert path.read_text() == "one\n"
    append_line(path, "two")
    assert path.read_text() == "one\ntwo\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
def test_a_disk_that_is_full_while_appending_tears_no_line(tmp_path: Path) -> None:
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "x", tmp_path]).returncode:
        pytest.skip("may not mount here")
    try:
        path = tmp_path / "runs.jsonl"
        line = "x" * 999
        with pytest.raises(InputError, match="No space left"):  # noqa: PT012
            for _ in range(100):
                append_line(path, line)
        assert set(path.read_text().splitlines()) == {line}
        assert path.read_bytes().endswith(b"\n")
    finally:
        subprocess.run(["umount", tmp_path], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
@pytest.mark.parametrize("write", ["file", "folder"])
def test_a_disk_that_is_full_while_writing_is_the_users_error(write: str, tmp_path: Path) -> None:
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "x", tmp_path]).returncode:
        pytest.skip("may not mount here")
    try:
        (tmp_path / "a.txt").write_text("old")
        with pytest.raises(InputError, match=r"No space left on device\); make room"):  # noqa: PT012
            if write == "file":
                with atomic_write(tmp_path / "a.txt") as handle:
                    handle.write("x" * 100_000)
            else:
                write_result(tmp_path, "x" * 100_000)
        assert contents(tmp_path) == {"a.txt": "old"}
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def hostile_commit(folder: Path, outside: Path) -> None:
    """A result folder as an archive could bring it: its commit names and links lead outside."""
    commit = folder / ".tidegauge-commit"
    (commit / "link").mkdir(parents=True)
    (commit / "link" / "victim.txt").write_text("overwritten")
    (commit / "a.txt").write_text("planted")
    (folder / "link").symlink_to(outside)
    names = "\0".join([str(outside / "tree"), "../outside/victim.txt"])
    (commit / ".stale").write_text(names)  # as it was called before
    (commit / ".commit").write_text(f"0:0\0{names}")


def test_opening_or_writing_a_hostile_folder_touches_nothing_outside(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    (outside / "tree").mkdir(parents=True)
    (outside / "tree" / "file.txt").write_text("mine")
    (outside / "victim.txt").write_text("mine")
    hostile_commit(folder, outside)
    before = contents(outside)
    with pytest.raises(InputError, match="interrupted"):
        check_complete(folder)
    assert (folder / ".tidegauge-commit" / "a.txt").exists()
    write_result(folder, "1", plots=("p.png",))
    assert contents(outside) == before
    assert not (folder / ".tidegauge-commit").exists()
    assert (folder / "a.txt").read_text() == "1"


def test_a_commit_moves_nothing_through_links_even_where_it_is_ours(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    for place in (outside, folder):
        place.mkdir()
    (outside / "p.png").write_text("mine")
    (folder / "plots").symlink_to(outside)
    (folder / "a.txt").symlink_to(outside / "p.png")
    write_result(folder, "1", plots=("p.png", "q.png"))
    assert contents(outside) == {"p.png": "mine"}
    assert (folder / "plots" / "p.png").read_text() == "1"
    assert (folder / "a.txt").read_text() == "1"


def test_yaml_that_is_too_long_or_nested_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "options.yaml"
    bomb = ["&a0 [x, x, x, x, x, x, x, x, x, x]"]
    bomb += [f"&a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    circle = "a: &a [*a]"
    for text in ("a: " + "x" * 2**20, "[" * 5_000, "a: [1", f"a: [{', '.join(bomb)}]", circle):
        path.write_text(text)
        with pytest.raises(InputError, match="not readable as YAML") as raised:
            read_yaml(path)
        assert "\n" not in str(raised.value)


def test_yaml_may_repeat_itself_within_reason(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("a: &a [1, 2]\nb: *a\n")
    assert read_yaml(tmp_path / "x.yaml") == {"a": [1, 2], "b": [1, 2]}


def test_a_file_of_others_is_read_if_it_is_one(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"123")
    assert read_file(tmp_path / "file", max_bytes=3) == b"123"
    for name, problem in (("pipe", "not a regular"), ("no", "No such"), ("file", "larger than 2")):
        with pytest.raises(InputError, match=problem):
            read_file(tmp_path / name, max_bytes=2)
    with pytest.raises(InputError, match="Is a directory"):
        read_file(tmp_path, max_bytes=2)


def test_sha256_of_the_empty_file_is_the_known_one(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert sha256_of(tmp_path / "empty").startswith("e3b0c44298fc1c149afbf4c8996fb924")


def write_result(folder: Path, name: str, *, plots: tuple[str, ...] = ()) -> None:
    with atomic_folder(folder, owned=OWNED) as staging:
        (staging / "a.txt").write_text(name)
        if plots:
            (staging / "plots").mkdir()
        for plot in plots:
            (staging / "plots" / plot).write_text(name)
        (staging / "b.txt").write_text(name)


def test_a_new_result_takes_away_what_only_the_old_one_had(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("foreign")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.txt").write_text("foreign")
    foreign = {"mine.txt": "foreign", "sub/a.txt": "foreign"}
    write_result(tmp_path, "1", plots=("p.png", "q.png"))
    assert contents(tmp_path) == {
        **foreign,
        **{name: "1" for name in ("a.txt", "b.txt", "plots/p.png", "plots/q.png")},
    }
    write_result(tmp_path, "2", plots=("p.png",))
    assert contents(tmp_path) == {
        **foreign,
        **{name: "2" for name in ("a.txt", "b.txt", "plots/p.png")},
    }
    write_result(tmp_path, "3")
    assert contents(tmp_path) == {**foreign, "a.txt": "3", "b.txt": "3"}
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "b.txt", "mine.txt", "sub"]


def test_an_exception_in_the_block_leaves_the_old_result(tmp_path: Path) -> None:
    write_result(tmp_path, "old")
    with pytest.raises(ValueError, match="half-way"), atomic_folder(tmp_path) as staging:  # noqa: PT012
        (staging / "a.txt").write_text("new")
        raise ValueError("half-way")
    assert contents(tmp_path) == {"a.txt": "old", "b.txt": "old"}


def test_a_folder_where_a_file_goes_and_a_file_where_a_folder_goes_are_replaced(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.txt").mkdir()
    (tmp_path / "plots").write_text("a file")
    write_result(tmp_path, "1", plots=("p.png",))
    assert contents(tmp_path) == {"a.txt": "1", "b.txt": "1", "plots/p.png": "1"}


@pytest.mark.parametrize("moved", [0, 1, 2])
def test_a_kill_between_renames_is_completed(tmp_path: Path, moved: int) -> None:
    """The state such a kill leaves, by hand: some files moved, the rest still to commit."""
    commit = tmp_path / ".tidegauge-commit"
    (commit / "plots").mkdir(parents=True)
    (tmp_path / "gone.txt").write_text("old")
    inode = f"{commit.stat().st_dev}:{commit.stat().st_ino}"
    (commit / ".commit").write_text(f"{inode}\0gone.txt\0never-there.txt")
    files = ("a.txt", "b.txt", "plots/p.png")
    for i, name in enumerate(files):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("new" if i < moved else "old")
        if i >= moved:
            (commit / name).write_text("new")
    with pytest.raises(InputError, match="interrupted"):
        check_complete(tmp_path)
    finish_commit(tmp_path)
    check_complete(tmp_path)
    assert contents(tmp_path) == dict.fromkeys(files, "new")
    finish_commit(tmp_path)  # and doing it again does nothing
    assert contents(tmp_path) == dict.fromkeys(files, "new")


def test_the_staging_of_a_dead_process_is_removed_and_of_a_living_one_kept(tmp_path: Path) -> None:
    dead = FORK.Process(target=int)
    dead.start()
    dead.join()
    for pid in (dead.pid, os.getppid()):
        (tmp_path / f".tidegauge-staging-{pid}-x").mkdir()
    write_result(tmp_path, "1")
    hidden = [name for name in os.listdir(tmp_path) if name.startswith(".")]
    assert hidden == [f".tidegauge-staging-{os.getppid()}-x"]


def write_for_ever(folder: Path) -> None:
    while True:
        for name, plots in (("1", ("p.png", "q.png")), ("2", ("p.png",)), ("3", ())):
            write_result(folder, name, plots=plots)


def test_a_kill_at_any_moment_leaves_one_whole_result(tmp_path: Path) -> None:
    expected = {
        "1": {"a.txt", "b.txt", "plots/p.png", "plots/q.png"},
        "2": {"a.txt", "b.txt", "plots/p.png"},
        "3": {"a.txt", "b.txt"},
    }
    rng = random.Random(1)
    for attempt in range(40):
        folder = tmp_path / str(attempt % 4)
        writer = FORK.Process(target=write_for_ever, args=(folder,))
        writer.start()
        time.sleep(0.002 + 0.03 * rng.random())
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        if not folder.exists():
            continue
        finish_commit(folder)
        found = {
            name: text
            for name, text in contents(folder).items()
            if not name.startswith(".tidegauge-staging")
        }
        if found:
            (result,) = set(found.values())
            assert set(found) == expected[result]


def write_some(folder: Path, name: str) -> None:
    for _ in range(30):
        write_result(folder, name, plots=(f"{name}.png",))


def test_two_writers_of_one_folder_leave_one_whole_result(tmp_path: Path) -> None:
    writers = [FORK.Process(target=write_some, args=(tmp_path, name)) for name in "12"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    found = contents(tmp_path)
    (result,) = set(found.values())
    assert set(found) == {"a.txt", "b.txt", f"plots/{result}.png"}
