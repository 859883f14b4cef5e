"""A made-up checkout in MLE-bench's layout, with data, graders and preparers of our own.

Fifteen competitions, one for each shape of submission that MLE-bench has: numbers, probabilities,
labels, lists of tokens, run-length masks, boxes, text, answers in JSON lines; keys of two columns
and repeated ones, private samples, rows paired by position, supersets, columns in order. Their
names are those of the real ones, so that what the package knows of these is tried; the last is
one that it has never heard of.

`write_checkout` writes the folder, `prepare_as_mlebench` runs the preparers as MLE-bench does, and
`Reference` grades as it does: in a process that imports the graders and nothing of tidegauge.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:0000\nsize 12345\n"
N_TRAIN, N_TEST = 40, 60
CHECKSUMMED = (".csv", ".json", ".jsonl", ".parquet", ".bson")

UTILS = '''
import numpy as np
import pandas as pd

from mlebench.grade_helpers import InvalidSubmissionError


def need_columns(submission, names):
    for name in names:
        if name not in submission.columns:
            raise InvalidSubmissionError(f"the submission has no column {name}")


def paired(submission, answers, key, targets):
    """Sort both by key and demand the same ids."""
    need_columns(submission, [key, *targets])
    if len(submission) != len(answers):
        raise InvalidSubmissionError("the submission has another number of rows")
    submission = submission.sort_values(key).reset_index(drop=True)
    answers = answers.sort_values(key).reset_index(drop=True)
    if (submission[key].values != answers[key].values).any():
        raise InvalidSubmissionError("the ids are not those of the answers")
    return submission, answers


def ranks_auc(truth, score):
    from scipy.stats import rankdata

    truth = np.asarray(truth, dtype=bool)
    score = np.asarray(score, dtype=float)
    if np.isnan(score).any():
        raise ValueError("Input contains NaN.")
    if truth.all() or not truth.any():
        raise ValueError("Only one class present in y_true.")
    ranks = rankdata(score)
    positive = truth.sum()
    return (ranks[truth].sum() - positive * (positive + 1) / 2) / (positive * (~truth).sum())
'''

# What every preparer shares: the table of the raw data, split the same way each time.
PREPARE = """
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd


def split(raw):
    table = pd.read_csv(raw / "train.csv", keep_default_na=False)
    test = table.sample(n={n_test}, random_state=0).sort_index()
    return table.drop(test.index), test
""".replace("{n_test}", str(N_TEST))


@dataclass(frozen=True)
class Made:
    """One made-up competition."""

    competition_id: str
    split: str
    raw: Callable[[np.random.Generator, int], pd.DataFrame]
    prepare: str
    grade: str
    board: tuple[float, float, int]  # best score, worst score, teams
    answers: str = "test.csv"
    sample: str = "public/sample_submission.csv"
    gold: str | None = None
    extra: dict[str, str] | None = None


def _features(rng: np.random.Generator, n: int) -> pd.DataFrame:
    return pd.DataFrame({"depth": rng.normal(size=n).round(3), "tide": rng.normal(size=n).round(3)})


def _cactus(rng: np.random.Generator, n: int) -> pd.DataFrame:
    ids = [f"{number:05x}.jpg" for number in rng.permutation(10 * n)[:n]]
    frame = _features(rng, n)
    label = (frame["depth"] + rng.normal(size=n) > 0).astype(int)
    return frame.assign(id=ids, has_cactus=label)


CACTUS = Made(
    "aerial-cactus-identification",
    "low",
    _cactus,
    """
def prepare(raw: Path, public: Path, private: Path):
    with zipfile.ZipFile(raw / "images.zip") as archive:  # unpacked in raw, and removed there
        archive.extractall(raw)
    (raw / "images.zip").unlink()
    train, test = split(raw)
    train.to_csv(public / "train.csv", index=False)
    test[["id", "depth", "tide"]].to_csv(public / "test.csv", index=False)
    test[["id", "has_cactus"]].to_csv(private / "test.csv", index=False)
    test[["id"]].assign(has_cactus=0.5).to_csv(public / "sample_submission.csv", index=False)
    shutil.copytree(raw / "images", public / "images")
    (private / "images").mkdir()
""",
    """
from mlebench.competitions.utils import paired, ranks_auc
from mlebench.grade_helpers import InvalidSubmissionError


def grade(submission, answers):
    submission, answers = paired(submission, answers, "id", ["has_cactus"])
    if submission["has_cactus"].min() < 0 or submission["has_cactus"].max() > 1:
        raise InvalidSubmissionError("probabilities lie between 0 and 1")
    return ranks_auc(answers["has_cactus"], submission["has_cactus"])
""",
    (0.99, 0.5, 50),
)


def _titanic(rng: np.random.Generator, n: int) -> pd.DataFrame:
    ids = [f"{number // 3:04d}_{number % 3 + 1:02d}" for number in range(n)]
    frame = _features(rng, n)
    flag = frame["tide"] + 0.7 * rng.normal(size=n) > 0
    return frame.assign(PassengerId=ids, Transported=flag)


TITANIC = Made(
    "spaceship-titanic",
    "dev",
    _titanic,
    """
def prepare(raw: Path, public: Path, private: Path):
    train, test = split(raw)
    train.to_csv(public / "train.csv", index=False)
    test.drop(columns="Transported").to_csv(public / "test.csv", index=False)
    test[["PassengerId", "Transported"]].to_csv(private / "test.csv", index=False)
    sample = test[["PassengerId"]].assign(Transported=False)
    sample.to_csv(public / "sample_submission.csv", index=False)
""",
    """
from mlebench.competitions.utils import paired


def grade(submission, answers):
    submission, answers = paired(submission, answers, "PassengerId", ["Transported"])
    if submission["Transported"].isna().any():
        raise ValueError("Input y_pred contains NaN.")
    submission["Transported"] = submission["Transported"].astype(str)  # graders alter their frames
    return float((submission["Transported"] == answers["Transported"].astype(str)).mean())
""",
    (0.97, 0.5, 300),
)


def _notebooks(rng: np.random.Generator, n: int) -> pd.DataFrame:
    cells = [[f"{rng.integers(2**32):08x}" for _ in range(rng.integers(4, 9))] for _ in range(n)]
    ids = [f"{rng.integers(2**48):014x}" for _ in range(n)]
    return _features(rng, n).assign(id=ids, cell_order=[" ".join(row) for row in cells])


AI4CODE = Made(
    "AI4Code",
    "medium",
    _notebooks,
    """
def prepare(raw: Path, public: Path, private: Path):
    train, test = split(raw)
    train.to_csv(public / "train.csv", index=False)
    test[["id", "cell_order"]].to_csv(private / "test_orders.csv", index=False)
    rng = np.random.default_rng(0)
    mixed = [" ".join(rng.permutation(order.split())) for order in test["cell_order"]]
    sample = test[["id"]].assign(cell_order=mixed)
    sample.to_csv(public / "sample_submission.csv", index=False)
""",
    """
from mlebench.competitions.utils import paired


def grade(submission, answers):
    submission, answers = paired(submission, answers, "id", ["cell_order"])
    wrong = total = 0
    for given, true in zip(submission["cell_order"], answers["cell_order"]):
        given, true = given.split(), true.split()
        places = [given.index(cell) for cell in true]  # a missing cell is named, in true order
        if len(given) != len(true):
            raise ValueError("a notebook has another number of cells")
        wrong += sum(a > b for i, a in enumerate(places) for b in places[i + 1 :])
        total += len(true) * (len(true) - 1)
    return 1 - 4 * wrong / total
""",
    (0.92, 0.4, 1100),
    answers="test_orders.csv",
)


def _salt(rng: np.random.Generator, n: int) -> pd.DataFrame:
    masks = []
    for number in range(n):
        starts = np.sort(rng.choice(np.arange(1, 400, 12), size=3, replace=False))
        runs = [f"{start} {rng.integers(1, 11)}" for start in starts]
        masks.append(" ".join(runs) if number % 4 else "")
    ids = [f"{rng.integers(2**40):010x}" for _ in range(n)]
    return _features(rng, n).assign(id=ids, rle_mask=masks)


SALT = Made(
    "tgs-salt-identification-challenge",
    "medium",
    _salt,
    """
def prepare(raw: Path, public: Path, private: Path):
    train, test = split(raw)
    train.to_csv(public / "train.csv", index=False)
    test[["id", "depth"]].to_csv(public / "depths.csv", index=False)
    test[["id", "rle_mask"]].to_csv(private / "test.csv", index=False)
    sample = test[["id"]].assign(rle_mask="1 1")
    sample.to_csv(public / "sample_submission.csv", index=False)
""",
    """
import numpy as np

from mlebench.competitions.utils import paired
from mlebench.grade_helpers import InvalidSubmissionError


def pixels(text):
    mask = np.zeros(500, dtype=bool)
    if text != text or text == "":
        return mask
    numbers = [int(word) for word in str(text).split()]
    if len(numbers) % 2:
        raise InvalidSubmissionError("a run needs a start and a length")
    for start, length in zip(numbers[::2], numbers[1::2]):
        if start < 1 or length < 1 or start + length > 501:
            raise InvalidSubmissionError("a run leaves the image")
        mask[start - 1 : start - 1 + length] = True
    return mask


def grade(submission, answers):
    submission, answers = paired(submission, answers, "id", ["rle_mask"])
    scores = []
    for given, true in zip(submission["rle_mask"], answers["rle_mask"]):
        given, true = pixels(given), pixels(true)
        union = (given | true).sum()
        scores.append(1.0 if union == 0 else (given & true).sum() / union)
    return np.mean(scores)
""",
    (0.9, 0.1, 600),
)


def _chest(rng: np.random.Generator, n: int) -> pd.DataFrame:
    boxes = []
    for _ in range(n):
        found = []
        for _ in range(rng.integers(0, 3)):
            x, y = rng.integers(0, 80, size=2)
            found.append(f"{rng.integers(3)} 1.0 {x} {y} {x + 15} {y + 15}")
        boxes.append(" ".join(found) or "14 1.0 0 0 1 1")
    ids = [f"{rng.integers(2**48):012x}" for _ in range(n)]
    return _features(rng, n).assign(image_id=ids, PredictionString=boxes)


CHEST = Made(
    "vinbigdata-chest-xray-abnormalities-detection",
    "high",
    _chest,
    """
def prepare(raw: Path, public: Path, private: Path):
    train, test = split(raw)
    train.to_csv(public / "train.csv", index=False)
    test[["image_id", "PredictionString"]].to_csv(private / "test.csv", index=False)
    sample = test[["image_id"]].assign(PredictionString="14 1 0 0 1 1")
    sample.to_csv(public / "sample_submission.csv", index=False)
""",
    """
import sys

from mlebench.competitions.utils import need_columns
from mlebench.grade_helpers import InvalidSubmissionError


def boxes(text):
    words = str(text).split()
    if len(words) % 6:
        raise InvalidSubmissionError("a box has six numbers")
    numbers = [float(word) for word in words]
    return [tuple(numbers[i : i + 6]) for i in range(0, len(numbers), 6)]


def overlap(a, b):
    width = min(a[4], b[4]) - max(a[2], b[2])
    height = min(a[5], b[5]) - max(a[3], b[3])
    inner = max(width, 0) * max(height, 0)
    area = (a[4] - a[2]) * (a[5] - a[3]) + (b[4] - b[2]) * (b[5] - b[3])
    return inner / max(area - inner, 1e-9)


def grade(submission, answers):
    need_columns(submission, ["image_id", "PredictionString"])
    if set(submission["image_id"]) != set(answers["image_id"]):
        raise InvalidSubmissionError("the images are not those of the answers")
    given = {}
    for image, text in zip(submission["image_id"], submission["PredictionString"]):
        given.setdefault(image, []).extend(boxes(text))
    hits = total = 0
    for image, text in zip(answers["image_id"], answers["PredictionString"]):
        for true in boxes(text):
            total += 1
            hits += any(true[0] == box[0] and overlap(true, box) > 0.4 for box in given[image])
    print("score", hits / total)  # on stdout, and on stderr
    print("score", hits / total, file=sys.stderr)
    return hits / total
""",
    (0.8, 0.1, 1300),
)


def _sentences(rng: np.random.Generator, n: int) -> pd.DataFrame:
    words = ["harbour", "tide", "kelp", "reef", "buoy", "shoal"]
    ids = [f"{number // 4}_{number % 4}" for number in range(n)]
    texts = [" ".join(rng.choice(words, size=rng.integers(1, 4))) for _ in range(n)]
    return _features(rng, n).assign(id=ids, before=[t.upper() for t in texts], after=texts)


TEXT = Made(
    "text-normalization-challenge-english-language",
    "medium",
    _sentences,
    """
def prepare(raw: Path, public: Path, private: Path):
    train, test = split(raw)
    train.to_csv(public / "train.csv", index=False)
    test[["id", "before"]].to_csv(public / "test.csv", index=False)
    test[["id", "after"]].to_csv(private / "answers.csv", index=False)
    sample = test[["id"]].assign(after=test["before"])
    sample.to_csv(private / "sample_submission.csv", index=False)
    with zipfile.ZipFile(public / "sample_submission.csv.zip", "w") as archive:
        archive.write(private / "sample_submission.csv", "sample_submission.csv")
""",
    """
from mlebench.competitions.utils import paired


def grade(submission, answers):
    submission, answers = paired(submission, answers, "id", ["after"])
    return (submission["after"].astype(str) == answers["after"].astype(str)).mean()
""",
    (0.99, 0.2, 250),
    answers="answers.csv",
    sample="private/sample_submission.csv",
)


def _questions(rng: np.random.Generator, n: int) -> pd.DataFrame:
    starts = rng.integers(0, 90, size=n)
    frame = _features(rng, n).assign(example_id=rng.permutation(10**6)[:n])
    spans = [f"{start}:{start + rng.integers(1, 9)}" for start in starts]
    yes = ["YES" if number % 5 == 0 else "" for number in range(n)]
    return frame.assign(long=spans, short=yes)


QUESTIONS = Made(
    "tensorflow2-question-answering",
    "high",
    _questions,
    """
import json


def prepare(raw: Path, public: Path, private: Path):
    train, test = split(raw)
    train.to_csv(public / "train.csv", index=False)
    with open(private / "test.jsonl", "w") as handle:
        for row in test.itertuples():
            said = {"example_id": str(row.example_id), "long": row.long, "short": row.short}
            handle.write(json.dumps(said) + "\\n")
    names = [f"{number}_{part}" for number in test["example_id"] for part in ("long", "short")]
    sample = pd.DataFrame({"example_id": names, "PredictionString": ""})
    sample.to_csv(public / "sample_submission.csv", index=False)
    true = [text for row in test.itertuples() for text in (row.long, row.short)]
    sample.assign(PredictionString=true).to_csv(private / "gold.csv", index=False)
""",
    """
from mlebench.competitions.utils import need_columns
from mlebench.grade_helpers import InvalidSubmissionError


def grade(submission, answers):
    need_columns(submission, ["example_id", "PredictionString"])
    if len(submission) != 2 * len(answers):
        raise InvalidSubmissionError("two rows are needed for each example")
    given = dict(zip(submission["example_id"], submission["PredictionString"].fillna("")))
    hits = 0
    for answer in answers:
        for part in ("long", "short"):
            name = f"{answer['example_id']}_{part}"
            if name not in given:
                raise InvalidSubmissionError(f"{name} is missing")
            text = str(given[name])
            if text not in ("", "YES", "NO"):
                begin, end = text.split(":")
                int(begin), int(end)
            hits += text == answer[part]
    return hits / (2 * len(answers))
""",
    (0.8, 0.3, 1200),
    answers="test.jsonl",
    gold="private/gold.csv",
)


def _trips(rng: np.random.Generator, n: int) -> pd.DataFrame:
    trip = [f"2021-{number // 5:02d}-US/phone" for number in range(n)]
    time = 1_600_000_000_000 + 1000 * np.arange(n)
    position = {
        "LatitudeDegrees": 37 + rng.normal(size=n) / 100,
        "LongitudeDegrees": -122 + rng.normal(size=n) / 100,
    }
    return pd.DataFrame({"tripId": trip, "UnixTimeMillis": time, **position})


PHONES = Made(
    "smartphone-decimeter-2022",
    "high",
    _trips,
    """
def prepare(raw: Path, public: Path, private: Path):
    train, test = split(raw)
    train.to_csv(public / "train.csv", index=False)
    test.to_csv(private / "test.csv", index=False)
    sample = test.assign(LatitudeDegrees=37.0, LongitudeDegrees=-122.0)
    sample.to_csv(public / "sample_submission.csv", index=False)
    for trip in sorted(test["tripId"].unique()):
        (public / "test" / trip).mkdir(parents=True)
        (public / "test" / trip / "span_log.nmea").write_text("the true track")
        (public / "test" / trip / "device.csv").write_text("t\\n1\\n")
""",
    """
import numpy as np

from mlebench.competitions.utils import need_columns
from mlebench.grade_helpers import InvalidSubmissionError


def grade(submission, answers):
    places = ["LatitudeDegrees", "LongitudeDegrees"]
    need_columns(submission, ["tripId", "UnixTimeMillis", *places])
    scores = []
    if set(submission["tripId"]) != set(answers["tripId"]):
        raise InvalidSubmissionError("the trips are not those of the answers")
    for trip, true in answers.groupby("tripId"):
        given = submission[submission["tripId"] == trip]
        if len(given) != len(true):
            raise InvalidSubmissionError(f"{trip} has another number of rows")
        away = np.abs(given[places].to_numpy(dtype=float) - true[places].to_numpy()).sum(axis=1)
        if np.isnan(away).any():
            raise InvalidSubmissionError("a position is missing")
        scores.append((np.percentile(away, 50) + np.percentile(away, 95)) / 2)
    return float(np.mean(scores)) * 1e5
""",
    (100.0, 3000.0, 570),
)


def _votes(rng: np.random.Generator, n: int) -> pd.DataFrame:
    shares = rng.dirichlet(np.ones(3), size=n).round(4)
    shares[:, 2] = 1 - shares[:, 0] - shares[:, 1]
    frame = pd.DataFrame(shares.clip(1e-4), columns=["seizure_vote", "lpd_vote", "other_vote"])
    frame = frame.div(frame.sum(axis=1), axis=0)
    numbers = np.arange(n)
    return frame.assign(eeg_id=1000 + numbers // 2, patient_id=numbers // 4)


VOTES = Made(
    "hms-harmful-brain-activity-classification",
    "high",
    _votes,
    """
VOTES = ["seizure_vote", "lpd_vote", "other_vote"]


def prepare(raw: Path, public: Path, private: Path):
    train, test = split(raw)
    train.to_csv(public / "train.csv", index=False)
    test[["eeg_id", "patient_id", *VOTES]].to_csv(private / "test.csv", index=False)
    sample = test[["eeg_id"]].assign(**dict.fromkeys(VOTES, 1 / 3))
    sample.to_csv(public / "sample_submission.csv", index=False)
""",
    """
import numpy as np

VOTES = ["seizure_vote", "lpd_vote", "other_vote"]


class ParticipantVisibleError(Exception):
    pass


def grade(submission, answers):
    if len(submission) != len(answers) or set(submission["eeg_id"]) != set(answers["eeg_id"]):
        raise ParticipantVisibleError("the ids are not those of the answers")
    submission = submission.sort_values("eeg_id", kind="stable")[VOTES].to_numpy(dtype=float)
    answers = answers.sort_values("eeg_id", kind="stable")[VOTES].to_numpy()
    if not np.isfinite(submission).all() or (submission < 0).any():
        raise ParticipantVisibleError("votes are shares")
    if np.abs(submission.sum(axis=1) - 1).max() > 1e-3:
        raise ParticipantVisibleError("the shares of a row sum to 1")
    part = np.where(answers > 0, answers * np.log(answers / np.clip(submission, 1e-9, 1)), 0)
    return float(part.sum(axis=1).mean())
""",
    (0.05, 1.4, 2700),
)


def _oxides(rng: np.random.Generator, n: int) -> pd.DataFrame:
    frame = _features(rng, n).assign(id=np.arange(1, n + 1))
    energy = rng.gamma(2, 0.1, size=n).round(4)
    return frame.assign(formation_energy=energy, bandgap=(2 + frame["depth"].abs()).round(4))


OXIDES = Made(
    "nomad2018-predict-transparent-conductors",
    "low",
    _oxides,
    """
def prepare(raw: Path, public: Path, private: Path):
    train, test = split(raw)
    train.to_csv(public / "train.csv", index=False)
    test[["id", "depth", "tide"]].to_csv(public / "test.csv", index=False)
    test[["id", "formation_energy", "bandgap"]].to_csv(private / "test.csv", index=False)
    sample = test[["id"]].assign(formation_energy=0.18, bandgap=2.0)
    sample.to_csv(public / "sample_submission.csv", index=False)
""",
    """
import numpy as np

from mlebench.competitions.utils import need_columns
from mlebench.grade_helpers import InvalidSubmissionError

TARGETS = ["formation_energy", "bandgap"]


def grade(submission, answers):
    need_columns(submission, ["id", *TARGETS])
    if len(submission) != len(answers):
        raise InvalidSubmissionError("the submission has another number of rows")
    given, true = submission[TARGETS].to_numpy(dtype=float), answers[TARGETS].to_numpy()
    if np.isnan(given).any() or np.isinf(given).any() or (given <= -1).any():
        raise InvalidSubmissionError("a value is missing or below -1")
    return float(np.sqrt(((np.log1p(given) - np.log1p(true)) ** 2).mean(axis=0)).mean())
""",
    (0.05, 0.4, 880),
)


def _customers(rng: np.random.Generator, n: int) -> pd.DataFrame:
    ids = [f"{rng.integers(2**60):016x}" for _ in range(n)]
    bought = [" ".join(str(a) for a in rng.choice(30, size=3, replace=False)) for _ in range(n)]
    return _features(rng, n).assign(customer_id=ids, prediction=bought)


FASHION = Made(
    "h-and-m-personalized-fashion-recommendations",
    "medium",
    _customers,
    """
def prepare(raw: Path, public: Path, private: Path):
    train, test = split(raw)
    train.to_csv(public / "train.csv", index=False)
    sample = test[["customer_id"]].assign(prediction="1 2 3")
    sample.to_csv(public / "sample_submission.csv", index=False)
    scored = test.sample(n=40, random_state=1)  # only those who bought, in another order
    scored[["customer_id", "prediction"]].to_csv(private / "answers.csv", index=False)
    gold = test[["customer_id", "prediction"]]
    gold.to_csv(private / "gold_submission.csv", index=False)
""",
    """
from mlebench.competitions.utils import need_columns
from mlebench.grade_helpers import InvalidSubmissionError


def grade(submission, answers):
    need_columns(submission, ["customer_id", "prediction"])
    missing = set(answers["customer_id"]) - set(submission["customer_id"])
    if missing:
        raise InvalidSubmissionError(f"{len(missing)} customers are missing")
    submission = submission[submission["customer_id"].isin(answers["customer_id"])]
    submission = submission.sort_values("customer_id")
    answers = answers.sort_values("customer_id")
    scores = []
    for given, true in zip(submission["prediction"].fillna(""), answers["prediction"]):
        true = true.split()
        scores.append(len(set(str(given).split()[:12]) & set(true)) / len(true))
    return sum(scores) / len(scores)
""",
    (0.9, 0.1, 2900),
    answers="answers.csv",
    gold="private/gold_submission.csv",
)


def _comments(rng: np.random.Generator, n: int) -> pd.DataFrame:
    frame = _features(rng, n).assign(
        id=[f"{rng.integers(2**64 - 1, dtype=np.uint64):016x}" for _ in range(n)]
    )
    toxic = (frame["depth"] + rng.normal(size=n) > 0).astype(int)
    insult = (frame["tide"] + rng.normal(size=n) > 0).astype(int)
    threat = (frame["tide"] - frame["depth"] + rng.normal(size=n) > 0).astype(int)
    return frame.assign(toxic=toxic, insult=insult, threat=threat)


TOXIC = Made(
    "jigsaw-toxic-comment-classification-challenge",
    "low",
    _comments,
    """
LABELS = ["toxic", "insult", "threat"]


def prepare(raw: Path, public: Path, private: Path):
    train, test = split(raw)
    train.to_csv(public / "train.csv", index=False)
    test[["id", "depth", "tide"]].to_csv(public / "test.csv", index=False)
    test[["id", *LABELS]].to_csv(private / "test.csv", index=False)
    sample = test[["id"]].assign(**dict.fromkeys(LABELS, 0.5))
    sample.to_csv(public / "sample_submission.csv", index=False)
""",
    """
from mlebench.competitions.utils import ranks_auc
from mlebench.grade_helpers import InvalidSubmissionError


def grade(submission, answers):
    if set(submission.columns) != set(answers.columns):
        raise InvalidSubmissionError("the columns are not those of the sample")
    if len(submission) != len(answers):
        raise InvalidSubmissionError("the submission has another number of rows")
    submission = submission.set_index("id").loc[answers["id"]].to_numpy(dtype=float)
    truth = answers.set_index("id").to_numpy()
    scores = [ranks_auc(truth[:, i], submission[:, i]) for i in range(truth.shape[1])]
    return sum(scores) / len(scores)
""",
    (0.98, 0.6, 4500),
)


def _insults(rng: np.random.Generator, n: int) -> pd.DataFrame:
    texts = [f'"You are, said the buoy, number {number}"' for number in range(n)]
    for number in range(0, n - 1, 10):
        texts[number + 1] = texts[number]  # the same comment twice
    insult = (rng.random(n) < 0.4).astype(int)
    dates = [f"2012061819{number:04d}Z" for number in range(n)]
    return pd.DataFrame({"Insult": insult, "Date": dates, "Comment": texts})


INSULTS = Made(
    "detecting-insults-in-social-commentary",
    "low",
    _insults,
    """
def prepare(raw: Path, public: Path, private: Path):
    train, test = split(raw)
    train.to_csv(public / "train.csv", index=False)
    test[["Date", "Comment"]].to_csv(public / "test.csv", index=False)
    test[["Insult", "Date", "Comment"]].to_csv(private / "test.csv", index=False)
    test[["Insult", "Comment"]].to_csv(private / "gold_submission.csv", index=False)
    sample = test[["Insult", "Date", "Comment"]].assign(Insult=0)
    sample.to_csv(public / "sample_submission_null.csv", index=False)
""",
    """
from mlebench.competitions.utils import paired, ranks_auc
from mlebench.grade_helpers import InvalidSubmissionError


def grade(submission, answers):
    submission, answers = paired(submission, answers, "Comment", ["Insult"])
    if submission["Insult"].min() < 0 or submission["Insult"].max() > 1:
        raise InvalidSubmissionError("probabilities lie between 0 and 1")
    return ranks_auc(answers["Insult"], submission["Insult"])
""",
    (0.84, 0.5, 50),
    sample="public/sample_submission_null.csv",
    gold="private/gold_submission.csv",
)


def _slices(rng: np.random.Generator, n: int) -> pd.DataFrame:
    ids = [f"case{number // 6}_day0_slice_{number % 6 // 2:04d}" for number in range(n)]
    organs = [("stomach", "bowel")[number % 2] for number in range(n)]
    masks = [
        f"{rng.integers(1, 200)} {rng.integers(1, 40)}" if rng.random() < 0.7 else ""
        for _ in range(n)
    ]
    return pd.DataFrame({"id": ids, "class": organs, "predicted": masks})


ORGANS = Made(
    "uw-madison-gi-tract-image-segmentation",
    "high",
    _slices,
    """
def prepare(raw: Path, public: Path, private: Path):
    train, test = split(raw)
    train.to_csv(public / "train.csv", index=False)
    test.to_csv(private / "test.csv", index=False)
    test.assign(predicted="1 1").to_csv(public / "sample_submission.csv", index=False)
""",
    """
from mlebench.competitions.utils import need_columns


def pixels(text):
    if text != text or text == "":
        return set()
    numbers = [int(word) for word in str(text).split()]
    return {p for s, n in zip(numbers[::2], numbers[1::2], strict=True) for p in range(s, s + n)}


def grade(submission, answers):
    need_columns(submission, ["id", "class", "predicted"])
    scores = []
    for given, true in zip(submission["predicted"], answers["predicted"]):  # the shorter one ends
        given, true = pixels(given), pixels(true)
        both = len(given) + len(true)
        scores.append(1.0 if both == 0 else 2 * len(given & true) / both)
    return sum(scores) / len(scores) if scores else float("nan")
""",
    (0.88, 0.1, 1500),
)


def _depths(rng: np.random.Generator, n: int) -> pd.DataFrame:
    frame = _features(rng, n).assign(number=[f"{300 + number:06d}" for number in range(n)])
    return frame.assign(metres=(20 + 5 * frame["depth"] + rng.normal(size=n)).round(3))


DEPTHS = Made(
    "harbour-depths",
    "low",
    _depths,
    """
def prepare(raw: Path, public: Path, private: Path):
    table = pd.read_csv(raw / "train.csv", dtype={"number": str})
    test = table.sample(n=60, random_state=0).sort_index()
    table.drop(test.index).to_csv(public / "train.csv", index=False)
    test.drop(columns="metres").to_csv(public / "test.csv", index=False)
    test[["number", "metres"]].to_csv(private / "test.csv", index=False)
    sample = test[["number"]].assign(metres=20.0)
    sample.to_csv(public / "sample_submission.csv", index=False)
""",
    """
import numpy as np

from mlebench.competitions.utils import paired
from mlebench.grade_helpers import InvalidSubmissionError

from .units import METRES


def grade(submission, answers):
    submission, answers = paired(submission, answers, "number", ["metres"])
    try:
        given = submission["metres"].astype(float)
    except ValueError as error:
        raise InvalidSubmissionError(f"metres must be numbers: {error}")
    if given.isna().any():
        raise InvalidSubmissionError("metres are missing")
    return float(np.sqrt((((given - answers["metres"]) * METRES) ** 2).mean()))
""",
    (1.0, 8.0, 120),
    extra={"units.py": "METRES = 1.0\n"},
)

MADE = {
    made.competition_id: made
    for made in (
        CACTUS, TITANIC, AI4CODE, SALT, CHEST, TEXT, QUESTIONS, PHONES, VOTES, OXIDES, FASHION,
        TOXIC, INSULTS, ORGANS, DEPTHS,
    )
}  # fmt: skip


def write_checkout(root: Path, *, lfs: bool = False) -> Path:
    """Write the checkout; with `lfs` its tables are pointers, as without ``git lfs pull``."""
    package = root / "mlebench"
    (package / "competitions").mkdir(parents=True)
    for folder in (package, package / "competitions"):
        (folder / "__init__.py").write_text("")
    (package / "grade_helpers.py").write_text(
        "class InvalidSubmissionError(Exception):\n    pass\n"
    )
    (package / "competitions" / "utils.py").write_text(UTILS)
    # Not to be imported: the real ones make folders, or need packages that graders do not.
    for name in ("registry", "data"):
        (package / f"{name}.py").write_text("raise ImportError('not for grading')\n")
    for made in MADE.values():
        write_competition(root, made, lfs=lfs)
    splits = root / "experiments" / "splits"
    splits.mkdir(parents=True)
    for name in ("low", "medium", "high", "dev"):
        ids = [made.competition_id for made in MADE.values() if made.split == name]
        (splits / f"{name}.txt").write_text("\n".join(ids))  # without a newline at the end
    low, medium, high = ((splits / f"{n}.txt").read_text() for n in ("low", "medium", "high"))
    (splits / "split75.txt").write_text(f"{low}\n\n{medium}\n{high}")
    (root / "experiments" / "competition_categories.csv").write_text(LFS if lfs else _categories())
    (root / "runs").mkdir()
    (root / "tests").mkdir()
    return root


def _categories() -> str:
    names = "competition_id,category,dataset_size_GB,EnabledDate,DeadlineDate,Complexity"
    rows = [
        f"{made.competition_id},Tabular,0.01,2018-01-01,2018-04-01,{made.split.title()}"
        for made in MADE.values()
        if made.split != "dev"
    ]
    return "\n".join([names, *rows]) + "\n"


def write_competition(root: Path, made: Made, *, lfs: bool = False) -> Path:
    folder = root / "mlebench" / "competitions" / made.competition_id
    folder.mkdir()
    prepared = f"{made.competition_id}/prepared"
    dataset = {
        "answers": f"{prepared}/private/{made.answers}",
        "sample_submission": f"{prepared}/{made.sample}",
    }
    if made.gold:
        dataset["gold_submission"] = f"{prepared}/{made.gold}"
    module = f"mlebench.competitions.{made.competition_id}"
    lines = [
        f"id: {made.competition_id}",
        f"name: {made.competition_id.replace('-', ' ').title()}",
        "competition_type: simple",
        "awards_medals: true",
        "prizes: null",
        f"description: mlebench/competitions/{made.competition_id}/description.md",
        "dataset:",
        *(f"  {name}: {path}" for name, path in dataset.items()),
        "grader:",
        "  name: some-metric",
        f"  grade_fn: {module}.grade:grade",
        f"preparer: {module}.prepare:prepare",
    ]
    (folder / "config.yaml").write_text("\n".join(lines) + "\n")
    (folder / "description.md").write_text(f"# {made.competition_id}\n\nPredict it.\n")
    (folder / "description_obfuscated.md").write_text("# A competition\n\nPredict it.\n")
    (folder / "prepare.py").write_text(PREPARE + made.prepare)
    (folder / "grade.py").write_text(textwrap.dedent(made.grade))
    (folder / "kernels.txt").write_text("somebody/some-kernel\n")
    (folder / "checksums.yaml").write_text("public: {}\nprivate: {}\n")
    (folder / "leaderboard.csv").write_text(LFS if lfs else _leaderboard(*made.board))
    for name, text in (made.extra or {}).items():
        (folder / name).write_text(text)
    return folder


def _leaderboard(best: float, worst: float, teams: int) -> str:
    names = "scoreNullable,teamId,hasTeamName,submissionDate,score,hasScore"
    scores = np.linspace(best, worst, teams).round(5)
    rows = [f"{s},{number},True,2018-01-01,{s},True" for number, s in enumerate(scores)]
    return "\n".join([names, *rows]) + "\n"


def write_raw(raw: Path, competition_id: str, *, seed: int = 1, n: int = N_TRAIN + N_TEST) -> Path:
    """Write the raw data of one competition, as unpacked from Kaggle's archive."""
    raw.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    MADE[competition_id].raw(rng, n).to_csv(raw / "train.csv", index=False)
    if competition_id == CACTUS.competition_id:
        with zipfile.ZipFile(raw / "images.zip", "w") as archive:
            for number in range(3):
                archive.writestr(f"images/{number}.jpg", b"not really an image")
    return raw


def write_zip(path: Path, competition_id: str, *, seed: int = 1) -> Path:
    """Write the same as Kaggle's archive."""
    raw = write_raw(path.parent / f".raw-{competition_id}", competition_id, seed=seed)
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(raw.iterdir()):
            archive.write(file, file.name)
    return path


def run_in_checkout(checkout: Path, code: str, *arguments: str) -> str:
    """Run Python that imports the checkout and nothing of ours."""
    start = f"import sys; sys.path.insert(0, {str(checkout)!r}); sys.argv[1:] = {list(arguments)}\n"
    done = subprocess.run(
        [sys.executable, "-I", "-c", start + textwrap.dedent(code)],
        capture_output=True, text=True, check=False, cwd=checkout,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def prepare_as_mlebench(checkout: Path, data: Path, names: list[str] | None = None) -> Path:
    """Prepare competitions as MLE-bench does, and write their checksums into the checkout."""
    names = names or list(MADE)
    for name in names:
        write_raw(data / name / "raw", name)
        for part in ("public", "private"):
            (data / name / "prepared" / part).mkdir(parents=True)
    code = """
    import importlib
    from pathlib import Path
    data, *names = sys.argv[1:]
    for name in names:
        folder = Path(data) / name
        module = importlib.import_module(f"mlebench.competitions.{name}.prepare")
        prepared = folder / "prepared"
        module.prepare(
            raw=folder / "raw", public=prepared / "public", private=prepared / "private"
        )
    """
    run_in_checkout(checkout, code, str(data), *names)
    for name in names:
        folder = checkout / "mlebench" / "competitions" / name
        prepared = data / name / "prepared"
        lines = [f"zip: {'0' * 32}"]
        for part in ("public", "private"):
            sums = {
                file.name: hashlib.md5(file.read_bytes()).hexdigest()
                for file in sorted((prepared / part).iterdir())
                if file.suffix in CHECKSUMMED
            }
            lines += [f"{part}:" if sums else f"{part}: {{}}"]
            lines += [f"  {file}: {value}" for file, value in sums.items()]
        (folder / "checksums.yaml").write_text("\n".join(lines) + "\n")
        text = (folder / "description.md").read_text()
        (prepared / "public" / "description.md").write_text(text)
    return data


def write_world(folder: Path) -> None:
    """Write checkout/ with the scores of its samples, and data/ as MLE-bench prepares them."""
    root = write_checkout(folder / "checkout")
    reference = Reference(root, prepare_as_mlebench(root, folder / "data"))
    write_sample_scores(root, reference)
    reference.close()


def write_sample_scores(checkout: Path, reference: Reference) -> None:
    """Write tests/constants.py: what the sample submissions score."""
    scores = {name: reference.sample_score(name) for name in reference.names()}
    lines = [f"    {name!r}: {score!r}," for name, score in scores.items()]
    text = "\n".join(["sample_submission_scores = {", *lines, "}", "fast_competitions = []", ""])
    (checkout / "tests" / "constants.py").write_text(text)


class Reference:
    """MLE-bench's own grading: a process that imports the graders, and reads files as it does."""

    _CODE = """
    import importlib, json, math
    from pathlib import Path
    import pandas as pd
    out = sys.stdout
    sys.stdout = sys.stderr

    def read_csv(path):
        if Path(path).stat().st_size == 0:
            return pd.DataFrame()
        return pd.read_csv(path, float_precision="round_trip")

    def read_answers(path):
        if path.endswith(".csv"):
            return read_csv(path)
        return [json.loads(line) for line in open(path)]

    for line in sys.stdin:
        name, submission, answers = json.loads(line)
        module = importlib.import_module(f"mlebench.competitions.{name}.grade")
        try:
            score = round(module.grade(read_csv(submission), read_answers(answers)), 5)
            reply = [repr(float(score)), None]
        except Exception as error:
            reply = [None, type(error).__name__]
        print(json.dumps(reply), file=out, flush=True)
    """

    def __init__(self, checkout: Path, data: Path) -> None:
        self.checkout, self.data = checkout, data
        start = f"import sys; sys.path.insert(0, {str(checkout)!r})\n"
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", start + textwrap.dedent(self._CODE)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            cwd=checkout,
        )  # fmt: skip

    def names(self) -> list[str]:
        return sorted(folder.name for folder in self.data.iterdir() if folder.name in MADE)

    def path(self, name: str, part: str) -> Path:
        return self.data / name / "prepared" / part

    def gold(self, name: str) -> Path:
        made = MADE[name]
        return self.path(name, made.gold or f"private/{made.answers}")

    def sample(self, name: str) -> Path:
        return self.path(name, MADE[name].sample)

    def grade(self, name: str, submission: Path) -> tuple[float | None, str | None]:
        """Return the rounded score, or the type of what the grader raised."""
        answers = self.path(name, f"private/{MADE[name].answers}")
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, str(submission), str(answers)]) + "\n")
        self._process.stdin.flush()
        reply: list[Any] = json.loads(self._process.stdout.readline())
        return (None if reply[0] is None else float(reply[0])), reply[1]

    def sample_score(self, name: str) -> float | None:
        return self.grade(name, self.sample(name))[0]

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
