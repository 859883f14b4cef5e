"""A competition of a checkout: submissions are validated on decoys, graded on the answers."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, TypeGuard

from tidegauge.bench.competition_folder import Prepared
from tidegauge.bench.competitions.base import CompetitionBase, Thresholds
from tidegauge.bench.grade_report import SCORE_DECIMALS, Grade
from tidegauge.bench.medals import HALVES_DRAWS, HalvesResult, odds_from_halves
from tidegauge.bench.mlebench.checkout import (
    CHECKOUT,
    PREFIX,
    PYTHON,
    Checkout,
    Config,
    data_folder,
    read_leaderboard,
)
from tidegauge.bench.mlebench.client import Graded, Worker, WorkerError, ask_once
from tidegauge.bench.mlebench.facts import HUMAN_MINUTES, Unit, facts_of
from tidegauge.bench.mlebench.notices import Notice, notices_of
from tidegauge.bench.mlebench.profile import patience_seconds
from tidegauge.bench.mlebench.side_files import (
    SideFiles,
    fingerprint,
    make_side_files,
    read_side_files,
    side_folder,
)
from tidegauge.bench.mlebench.template import Comparison, Template, read_template
from tidegauge.errors import InputError
from tidegauge.schema.submission import Source, Verdict

VALIDATION_WAIT_SECONDS = 60.0
SE_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class CheckoutCompetition(CompetitionBase):
    """A competition of a checkout.

    Attributes
    ----------
    n_teams : int or None
        On its leaderboard; None where that is a Git LFS pointer.
    lacks : str or None
        Why there are no thresholds, and the remedy.
    """

    checkout: Checkout
    config: Config
    split: str | None
    own_thresholds: Thresholds | None
    n_teams: int | None
    lacks: str | None

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What is to be known of it."""
        return notices_of(self.competition_id)


def checkout_competition(checkout: Checkout, competition_id: str) -> CheckoutCompetition:
    """Return a competition of a checkout; nothing is imported.

    Raises
    ------
    InputError
        There is none of that id, or its config.yaml cannot be used.
    """
    config = checkout.config(competition_id)
    known = facts_of(competition_id)
    split = checkout.split_of(competition_id)
    thresholds = n_teams = lacks = None
    lower = known.lower_is_better if known else None
    try:
        board = checkout.leaderboard(competition_id)
        thresholds, n_teams, lower = board.thresholds, board.n_teams, board.lower_is_better
    except InputError as error:
        lacks = str(error)
    return CheckoutCompetition(
        name=f"{PREFIX}{competition_id}",
        competition_id=competition_id,
        title=config.title,
        description=_read_text(config.description),
        lower_is_better=lower,
        human_minutes=HUMAN_MINUTES.get(split or "", HUMAN_MINUTES["medium"]),
        checkout=checkout,
        config=config,
        split=split,
        own_thresholds=thresholds,
        n_teams=n_teams,
        lacks=lacks,
    )


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); restore it") from error


@dataclass(frozen=True, slots=True)
class GradeOptions:
    """How submissions to a checkout's competitions are graded.

    Attributes
    ----------
    strict : bool
        What the sample does not allow is a problem, even where the grader scores it.
    se_seconds : float
        Time for the standard error; 0 for none.
    se_draws : int
        Halves to draw at most: with a fixed number the error can be repeated exactly.
    """

    strict: bool = False
    se_seconds: float = SE_SECONDS
    se_draws: int = HALVES_DRAWS


@dataclass(frozen=True)
class CheckoutPrepared(Prepared):
    """A prepared competition of a checkout.

    Attributes
    ----------
    root : Path
        The competition's folder, which may also hold its raw data.
    """

    competition: CheckoutCompetition
    root: Path
    options: GradeOptions = field(default_factory=GradeOptions)

    checks_slowly: ClassVar[bool] = True

    def _below(self, path: PurePosixPath) -> Path:
        return self.public.parent / path

    @property
    def sample(self) -> Path:
        """The sample submission, in public/ or private/."""
        return self._below(self.competition.config.sample)

    @property
    def sample_name(self) -> str:
        """The file name of the sample submission; an archive may hold it."""
        return self.sample.name

    @property
    def answers(self) -> Path:
        """The true answers."""
        return self._below(self.competition.config.answers)

    @property
    def gold(self) -> Path:
        """A perfect submission."""
        return self._below(self.competition.config.gold)

    @cached_property
    def template(self) -> Template:
        """What the sample says of a submission."""
        return read_template(self.sample, self.competition.competition_id)

    @property
    def n_rows(self) -> int:
        """How many rows a submission has."""
        return self.template.n_rows

    @property
    def max_bytes(self) -> int:
        """How large a submission may be."""
        return self.template.max_bytes

    @property
    def side_folder(self) -> Path:
        """Where profile and decoys are kept."""
        return side_folder(self.root, self.competition.competition_id)

    @property
    def hidden(self) -> list[Path]:
        """The answers, what follows from them, and the raw data."""
        raw = [path for path in (self.root / "raw", *self.root.glob("*.zip")) if path.exists()]
        return [*super().hidden, self.side_folder, *raw]

    def leaks(self, path: Path) -> bool:
        """Whether a public file, by its path below public/, is known to give answers away."""
        return any(notice.hides(path) for notice in self.competition.notices)

    def environment(self) -> dict[str, str]:
        """Return where the checkout and its interpreter are."""
        checkout = self.competition.checkout
        return {CHECKOUT: str(checkout.root), PYTHON: str(checkout.python)}

    def answers_sha256(self) -> str:
        """Return a hash of the answers."""
        return fingerprint([self.answers])

    def thresholds(self, leaderboard: Path | None = None) -> Thresholds | None:
        """Return the given leaderboard's thresholds, or the checkout's; rows stay in order."""
        if leaderboard is not None:
            return read_leaderboard(leaderboard).thresholds
        return self.competition.own_thresholds

    def worker(self, answers: Path) -> Worker:
        """Return a worker that grades against these answers, in a sandbox without any other."""
        checkout, config = self.competition.checkout, self.competition.config
        return Worker(checkout, config.grade_fn, answers, hidden=self.hidden)

    @cached_property
    def _grader(self) -> Worker:
        return self.worker(self.answers)

    @cached_property
    def _fingerprint(self) -> str:
        folder = self.competition.checkout.folder(self.competition.competition_id)
        sources = sorted(folder.glob("*.py"))
        return fingerprint([self.answers, self.sample, self.gold, *sources])

    def known_side_files(self) -> SideFiles | None:
        """Return profile and decoys if they were made before."""
        return read_side_files(self.side_folder, self._fingerprint)

    @cached_property
    def side_files(self) -> SideFiles:
        """Profile and decoys, made where there are none: some fifty gradings."""
        return self.known_side_files() or make_side_files(
            self.side_folder,
            self._fingerprint,
            template=self.template,
            answers=self.answers,
            gold=self.gold,
            sample=self.sample,
            worker_for=self.worker,
        )

    @cached_property
    def _validator(self) -> Worker | None:
        """A worker that has decoys for answers; None if there are none."""
        side = self.side_files
        if side.decoys is None:
            return None
        worker = self.worker(self.side_folder / side.decoys)
        worker.seconds = patience_seconds(side.profile.seconds)
        return worker

    def make_ready(self) -> None:
        """Make profile and decoys now: who validates later shall not read the answers."""
        _ = self.side_files

    def check(self, source: Source) -> Verdict:
        """Check a submission against the sample, then by the grader on decoys.

        Where rows are missing, unknown or repeated the grader is not asked: what it does with such
        faults was measured, and its answer here could tell which rows are scored.

        Raises
        ------
        InputError
            The file cannot be read.
        BusyError
            Other submissions are being checked.
        """
        data = _read(source, self.max_bytes)
        if len(data) > self.max_bytes:
            return Verdict([f"the file is larger than {self.max_bytes:,} bytes"])
        found, side = self.template.compare(data), self.side_files
        texts = [finding.text for finding in found.findings if finding.kind != "row_order"]
        if self.options.strict and texts:
            return Verdict(texts)
        notes = _notes(found, side)
        if side.decoys is None or found.row_faults:
            profile = side.profile
            if profile.accepts_rows(found.row_faults) and profile.accepts_cells(found):
                return Verdict([], notes)
            return Verdict(texts)
        assert self._validator is not None
        graded = self._validator.try_grade(data, patience_seconds=VALIDATION_WAIT_SECONDS)
        if graded.fault is not None:
            return Verdict([*texts, graded.fault.sentence()])
        if not _is_finite(graded.score):
            return Verdict([*texts, "the grader computes no number for it"])
        return Verdict([], notes)

    def score(self, data: bytes) -> float | None:
        """Return the score of a submission, None if it is not valid."""
        score = self._graded(data).score
        return score if _is_finite(score) else None

    def grade(
        self, submission: Path | bytes, *, leaderboard: Path | None = None, seed: int = 1
    ) -> Grade:
        """Grade a submission as MLE-bench does, on the file as it is.

        Raises
        ------
        InputError
            The grader does not work here: it rejects the sample submission too.
        """
        thresholds = self.thresholds(leaderboard)
        path = "" if isinstance(submission, bytes) else str(submission)
        if isinstance(submission, Path) and not _exists(submission):
            why = f"there is no .csv file at {submission}"
            return Grade(path, False, None, None, [why], thresholds, extra=self._facts(None))
        data = _read(submission, None)
        graded, found = self._graded(data), self.template.compare(data)
        texts = [finding.text for finding in found.findings if finding.kind != "row_order"]
        problems = texts if self.options.strict else []
        if graded.fault is not None:
            problems = [*texts, graded.fault.sentence()]
        elif not _is_finite(graded.score):
            problems = [*texts, f"the grader's score is {graded.score}, no finite number"]
        score = None if problems else graded.score
        halves = self._halves(data, score, thresholds, seed)
        notes = [] if problems else _notes(found, self.known_side_files())
        if self.competition.lacks and thresholds is None:
            notes.append(self.competition.lacks)
        extra = self._facts(graded) | _facts_of_halves(halves)
        return Grade(path, True, score, halves.odds, problems, thresholds, notes, extra)

    def _graded(self, data: bytes) -> Graded:
        """Grade; a crash makes a submission invalid only if the sample does not crash it too."""
        graded = self._grader.try_grade(data)
        if graded.fault is not None and not graded.fault.invalid and graded.fault.stage != "read":
            sample = self._grader.try_grade(self.sample)
            if sample.fault is not None:
                raise InputError(
                    f"{self.competition.name}: its grader does not work here: it rejects the "
                    f"sample submission ({sample.fault.type}: {sample.fault.message}); "
                    f"`tidegauge bench check {self.competition.name}` says more"
                )
        return graded

    def _halves(
        self, data: bytes, score: float | None, thresholds: Thresholds | None, seed: int
    ) -> HalvesResult:
        if score is None or self.options.se_seconds <= 0:
            return HalvesResult(None)
        unit = self.unit
        known = self.known_side_files()
        rule = facts_of(self.competition.competition_id)
        by_position = rule is not None and rule.id_rule.startswith("position")
        try:
            reply = self._grader.halves(
                data,
                key=list(self.template.key),
                unit=None if unit.column is None else {"column": unit.column, "part": unit.part},
                by_position=known.profile.pairs_by_position if known else by_position,
                draws=self.options.se_draws,
                seconds=self.options.se_seconds,
                seed=seed,
            )
        except WorkerError as error:
            return HalvesResult(None, reason=str(error))
        if "error" in reply:
            return HalvesResult(
                None, reason=f"{reply['error']['type']}: {reply['error']['message']}"
            )
        return odds_from_halves(
            float(score),
            reply["scores"],
            reply["sizes"],
            reply["n_units"],
            thresholds,
            lower_is_better=self.competition.lower_is_better,
        )

    @property
    def unit(self) -> Unit:
        """What the test set is a sample of."""
        known = facts_of(self.competition.competition_id)
        return known.unit if known else Unit()

    @cached_property
    def versions(self) -> dict[str, str]:
        """The versions of Python and the packages that graded."""
        with contextlib.suppress(WorkerError):
            return dict(ask_once(self.competition.checkout, do="versions", modules=[])["versions"])
        return {}

    def _facts(self, graded: Graded | None) -> dict[str, Any]:
        """Return the fields of a report that only checkouts have."""
        competition = self.competition
        score = None if graded is None else graded.score
        fault = None if graded is None else graded.fault
        return {
            "mlebench": {
                "score": round(score, SCORE_DECIMALS) if _is_finite(score) else _text(score),
                "valid_submission": score is not None,
                "exception": None if fault is None else f"{fault.type}: {fault.message}",
            },
            "split": competition.split,
            "teams": competition.n_teams,
            "notices": [f"{notice.kind}: {notice.text}" for notice in competition.notices],
            "checkout_commit": competition.checkout.commit(),
            "package_versions": self.versions,
        }


def _facts_of_halves(halves: HalvesResult) -> dict[str, Any]:
    return {
        "se_method": "halves" if halves.odds is not None else None,
        "se_draws": halves.draws,
        "se_failed": halves.failed,
        "se_units": halves.units,
        "se_reason": halves.reason,
    }


def _notes(found: Comparison, side: SideFiles | None) -> list[str]:
    """Return what was accepted but is probably meant otherwise."""
    notes = [f.text for f in found.findings if f.kind not in ("row_order", "column_order")]
    profile = side.profile if side else None
    if found.of("row_order") and (profile is None or profile.row_order_matters):
        sure = "is" if profile else "may be"
        notes.append(f"the rows are in another order than the sample's, which {sure} scored")
    if found.of("column_order") and (profile is None or profile.column_order_matters):
        sure = "is" if profile else "may be"
        notes.append(f"the columns are in another order than the sample's, which {sure} scored")
    return notes


def _is_finite(score: float | None) -> TypeGuard[float]:
    return score is not None and math.isfinite(score)


def _text(score: float | None) -> str | None:
    """Return NaN and the infinities as text: JSON has none of them."""
    return None if score is None else str(score)


def _exists(path: Path) -> bool:
    """Whether MLE-bench would take a path for a submission."""
    return path.is_file() and path.suffix.lower() == ".csv"


def _read(source: Source, max_bytes: int | None) -> bytes:
    if isinstance(source, bytes):
        return source
    size = -1 if max_bytes is None else max_bytes + 1
    if not isinstance(source, str | Path):
        return source.read(size)
    try:
        with open(source, "rb") as handle:
            return handle.read(size)
    except OSError as error:
        raise InputError(f"{source}: {error.strerror}; give a submission file (CSV)") from error


def open_checkout_prepared(
    competition: CheckoutCompetition, folder: Path | None = None
) -> CheckoutPrepared:
    """Open a competition that ``bench prepare`` or MLE-bench itself prepared.

    Parameters
    ----------
    folder : Path, optional
        With prepared/public and prepared/private, or public and private; by default the
        competition's folder among MLE-bench's data.

    Raises
    ------
    InputError
        It is not prepared.
    """
    name, config = competition.name, competition.config
    given = Path(folder) if folder is not None else data_folder() / competition.competition_id
    given = given.resolve()
    for root in (given / "prepared", given):
        if (root / "public").is_dir() and (root / "private").is_dir():
            break
    else:
        raise InputError(
            f"{given}: holds no prepared competition (public/ and private/); run `tidegauge bench "
            f"prepare {name} --raw ... --out {given}`, or name another folder by --prepared"
        )
    for part in (config.answers, config.sample):
        if not (root / part).is_file():
            raise InputError(f"{root / part}: is missing; prepare {name} again")
    return CheckoutPrepared(competition, root / "public", root / "private", _owner(root))


def _owner(root: Path) -> Path:
    """Return the folder of the competition, of which prepared/ is a part."""
    return root.parent if root.name == "prepared" else root
