"""A checkout is read from its files: nothing of it is imported, nothing of it is believed."""

from __future__ import annotations

import json
import shutil
import statistics
from pathlib import Path

import pytest

import mlebench_checkout as made
from calls import Call
from tidegauge.bench.mlebench.checkout import Checkout, open_checkout, read_leaderboard
from tidegauge.bench.mlebench.competition import checkout_competition, open_checkout_prepared
from tidegauge.bench.mlebench.facts import all_facts, facts_of
from tidegauge.bench.mlebench.notices import KINDS, NOTICES, notices_of
from tidegauge.bench.sources import find_competition, open_competition
from tidegauge.errors import InputError

NAME = "harbour-depths"


@pytest.fixture
def own(root: Path, tmp_path: Path) -> Path:
    """A copy of the checkout to spoil."""
    return Path(shutil.copytree(root, tmp_path / "own"))


def config_of(own: Path) -> Path:
    return own / "mlebench" / "competitions" / NAME / "config.yaml"


def test_listing_imports_nothing_of_the_checkout(own: Path, data: Path, call: Call) -> None:
    for module in (own / "mlebench").rglob("*.py"):
        if module.name in ("grade.py", "prepare.py", "utils.py", "__init__.py"):
            module.write_text(module.read_text() + "\nraise SystemExit('imported')\n")
    said = call(
        "bench", "list", "--source", "mlebench", "--mlebench", own, "--data", data, "--json"
    )
    assert said.code == 0, said.err
    rows = {row["competition_id"]: row for row in json.loads(said.out)["competitions"]}
    assert rows.keys() == made.MADE.keys()
    salt = rows["tgs-salt-identification-challenge"]
    assert (salt["split"], salt["teams"], salt["is_prepared"]) == ("medium", 600, True)
    assert salt["notices"] == ["setup: Needs pandas below 3."]
    assert rows["nomad2018-predict-transparent-conductors"]["is_lower_better"] is True


def test_splits_have_blank_lines_and_no_newline_at_the_end(checkout: Checkout) -> None:
    low, medium, high = map(checkout.split, ("low", "medium", "high"))
    assert checkout.split("split75") == [*low, *medium, *high]
    assert checkout.split_of("AI4Code") == "medium"
    with pytest.raises(InputError, match="did you mean low"):
        checkout.split("lwo")


@pytest.mark.parametrize("n_teams", [1, 7, 70, 99, 100, 249, 250, 999, 1000, 2345])
def test_thresholds_are_those_at_the_ranks_in_the_order_of_the_file(
    n_teams: int, tmp_path: Path
) -> None:
    scores = [round(1 - number / 7 % 1, 5) for number in range(n_teams)]  # not sorted
    (board := tmp_path / "leaderboard.csv").write_text("\n".join(["score", *map(str, scores)]))
    found = read_leaderboard(board)
    n = n_teams
    if n < 100:
        rows = [max(1, int(share * n)) for share in (0.1, 0.2, 0.4)]
    elif n < 250:
        rows = [10, int(0.2 * n), int(0.4 * n)]
    elif n < 1000:
        rows = [int(10 + 0.002 * n), 50, 100]
    else:
        rows = [int(10 + 0.002 * n), int(0.05 * n), int(0.1 * n)]
    at = found.thresholds
    assert [at.gold, at.silver, at.bronze] == [scores[row - 1] for row in rows]
    assert at.median == statistics.median(scores)
    assert found.lower_is_better == (scores[0] < scores[-1])


def test_lfs_pointers_are_named_and_cost_the_medals_only(
    data: Path, tmp_path: Path, reference: made.Reference, call: Call
) -> None:
    root = made.write_checkout(tmp_path / "pointers", lfs=True)
    name = "nomad2018-predict-transparent-conductors"
    competition = checkout_competition(open_checkout(root), name)
    assert competition.lower_is_better is True  # from the table of facts
    assert "git lfs pull" in (competition.lacks or "")
    prepared = open_checkout_prepared(competition, data / name)
    grade = prepared.grade(reference.sample(name))
    report = grade.report(competition)
    assert report["score"] == reference.sample_score(name)
    assert report["valid_submission"] is True
    assert (report["gold_threshold"], report["any_medal"], report["p_gold"]) == (None, False, None)
    assert report["score_se"] > 0
    assert any("git lfs pull" in note for note in report["notes"])
    said = call("bench", "check", name, "--mlebench", root, "--data", data)
    assert said.code == 1
    assert "git lfs pull" in said.out
    own = checkout_competition(open_checkout(root), NAME)
    assert own.lower_is_better is None  # nobody knows


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("id: harbour", "id: [harbour", "not readable as YAML"),
        ("id: harbour-depths", "id: 7", "id is missing or no text"),
        ("id: harbour-depths", "id: other", "not the folder's name"),
        ("answers: harbour-depths/prepared", "answers: ../other", "is not below"),
        ("prepared/private/test.csv", "prepared/../../x.csv", "is not below"),
        ("grade:grade", "grade", "no module:function"),
        ("grade_fn: mlebench.", "grade_fn: os.", "no module:function"),
        ("description: mlebench", "description: /etc", "leads out of the checkout"),
        ("dataset:", "data:", "dataset.answers is missing"),
        ("preparer:", "prepare:", "preparer is missing"),
    ],
)
def test_strange_yaml_is_refused_and_hides_no_other_competition(
    own: Path, data: Path, call: Call, old: str, new: str, message: str
) -> None:
    path = config_of(own)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(InputError, match=message) as caught:
        checkout_competition(open_checkout(own), NAME)
    assert str(path) in str(caught.value)
    said = call("bench", "list", "--source", "mlebench", "--mlebench", own, "--data", data)
    assert said.code == 0
    assert "spaceship-titanic" in said.out
    assert NAME not in said.out
    assert message in said.err


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "just text", "id: &a [*a]"])
def test_yaml_that_is_no_mapping_is_refused(own: Path, text: str) -> None:
    config_of(own).write_text(text)
    with pytest.raises(InputError):
        checkout_competition(open_checkout(own), NAME)


def test_a_folder_that_is_no_checkout_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="no checkout of MLE-bench"):
        open_checkout(tmp_path)
    monkeypatch.delenv("TIDEGAUGE_MLEBENCH", raising=False)
    with pytest.raises(InputError, match="--mlebench"):
        open_checkout()


def test_the_interpreter_is_the_given_one_or_the_checkouts_own(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    assert open_checkout(own).python == Path(sys.executable)
    (own / ".venv" / "bin").mkdir(parents=True)
    (own / ".venv" / "bin" / "python").symlink_to(sys.executable)
    assert open_checkout(own).python == own / ".venv" / "bin" / "python"
    monkeypatch.setenv("TIDEGAUGE_MLEBENCH_PYTHON", sys.executable)
    assert open_checkout(own).python == Path(sys.executable)
    with pytest.raises(InputError, match="no program"):
        open_checkout(own, tmp_path / "nothing")


@pytest.mark.usefixtures("environment")
def test_names_with_and_without_prefix(data: Path) -> None:
    assert find_competition(f"mlebench/{NAME}").competition_id == NAME
    assert find_competition(NAME).name == f"mlebench/{NAME}"
    assert find_competition("osic").name == "osic"
    assert open_competition(NAME).public == data / NAME / "prepared" / "public"
    with pytest.raises(InputError, match="did you mean harbour-depths"):
        find_competition("mlebench/harbor-depths")
    with pytest.raises(InputError, match="--prepared"):
        open_competition("osic")


def test_commit_is_read_without_git(own: Path) -> None:
    assert open_checkout(own).commit() is None
    (own / ".git" / "refs" / "heads").mkdir(parents=True)
    (own / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (own / ".git" / "packed-refs").write_text(f"# pack-refs\n{'a' * 40} refs/heads/main\n")
    assert open_checkout(own).commit() == "a" * 40
    (own / ".git" / "refs" / "heads" / "main").write_text("b" * 40 + "\n")
    assert open_checkout(own).commit() == "b" * 40


def test_imports_are_followed_through_relative_and_shared_modules(own: Path) -> None:
    folder = own / "mlebench" / "competitions" / NAME
    (folder / "units.py").write_text("import shapely.geometry\nimport os\nMETRES = 1\n")
    utils = own / "mlebench" / "competitions" / "utils.py"
    utils.write_text(utils.read_text() + "\nfrom PIL import Image\n")
    checkout = open_checkout(own)
    assert checkout.imports(NAME, "grade") == ["PIL", "numpy", "pandas", "shapely"]
    # What no import statement shows comes from the table.
    assert facts_of("icecube-neutrinos-in-deep-ice") is not None
    folder.rename(folder.with_name("icecube-neutrinos-in-deep-ice"))
    assert "fastparquet" in open_checkout(own).imports("icecube-neutrinos-in-deep-ice", "prepare")


def test_the_table_of_facts_is_whole() -> None:
    facts = all_facts()
    assert len(facts) == 82
    splits = [fact.split for fact in facts.values()]
    assert [splits.count(name) for name in ("low", "medium", "high", "dev")] == [22, 38, 15, 7]
    assert sum(fact.lower_is_better for fact in facts.values()) == 22
    units = {name: fact.unit for name, fact in facts.items() if fact.unit.column}
    assert len(units) == 16
    assert units["mlsp-2013-birds"].part == "// 100"
    assert units["champs-scalar-coupling"].column == "molecule_name"
    assert units["rsna-breast-cancer-detection"].part == "last"
    assert facts["smartphone-decimeter-2022"].key == ("tripId", "UnixTimeMillis")


def test_notices_are_of_known_competitions_and_hide_what_they_name() -> None:
    assert NOTICES.keys() <= all_facts().keys()
    assert {notice.kind for found in NOTICES.values() for notice in found} <= set(KINDS)
    hubmap = notices_of("hubmap-kidney-segmentation")[0]
    assert hubmap.hides(Path("test/abc.json"))
    assert not hubmap.hides(Path("test/abc-anatomical-structure.json"))
    phone = notices_of("smartphone-decimeter-2022")[0]
    assert phone.hides(Path("test/2021-01/pixel/span_log.nmea"))
    assert not phone.hides(Path("train/2021-01/pixel/span_log.nmea"))
    assert notices_of("harbour-depths") == ()
