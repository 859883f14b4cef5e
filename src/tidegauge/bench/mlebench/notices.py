"""Known leaks and faults of MLE-bench's competitions, shown wherever their scores are.

Numbers are those of MLE-bench's issue tracker; the others were found by running its graders on
made-up data, or by reading them.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from pathlib import Path

KINDS = ("leak", "broken", "crowded", "grader", "setup")


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing to know of a competition.

    Attributes
    ----------
    kind : str
        ``leak`` (answers can be reached), ``broken`` (task or data wrong), ``crowded`` (medal
        thresholds nearly equal), ``grader`` (a trap in the grader), ``setup``.
    hide : tuple of str
        Patterns of public files that a workspace without leaks leaves out.
    keep : tuple of str
        Patterns of files that stay though they match.
    """

    kind: str
    text: str
    hide: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()

    def hides(self, path: Path) -> bool:
        """Whether a public file (relative to public/) gives the answers away."""
        name = path.as_posix()

        def matches(patterns: tuple[str, ...]) -> bool:
            return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)

        return matches(self.hide) and not matches(self.keep)


_CROWDED = "Hardly any distance between the leaderboard's top and its median."
_TFRECORDS = (
    "The public test TFRecords are copies of labelled training records, whose features public "
    "code reads as `target` (not confirmed on the real files)."
)
_POSITION = "Rows are compared by position; ids are not read."
_SORTED = "Ids are not compared; a wrong id shifts the pairing of all rows."
_TWICE = "A row given twice counts twice."
_IN_ORDER = "eeg_id repeats; rows must keep the sample's order."

NOTICES: dict[str, tuple[Notice, ...]] = {
    "tensorflow-speech-recognition-challenge": (
        Notice(
            "broken",
            "Test labels are the raw words instead of the twelve classes, and speakers occur in "
            "both train and test (#63).",
        ),
    ),
    "icecube-neutrinos-in-deep-ice": (
        Notice(
            "setup",
            "The two parquet files never match the published checksums; the tables do (#58).",
        ),
    ),
    "ranzcr-clip-catheter-line-classification": (
        Notice(
            "broken",
            "Two of the eleven classes, CVC - Normal and Swan Ganz Catheter Present, are missing "
            "from sample and score (#30).",
        ),
    ),
    "tabular-playground-series-dec-2021": (Notice("crowded", _CROWDED),),
    "tabular-playground-series-may-2022": (Notice("crowded", _CROWDED),),
    "jigsaw-toxic-comment-classification-challenge": (
        Notice("crowded", _CROWDED),
        Notice(
            "grader",
            "Columns in another order than the sample's are scored wrongly without a word.",
        ),
    ),
    "champs-scalar-coupling": (
        Notice("broken", "The structures of the test molecules are not in the public files (#70)."),
        Notice("grader", _TWICE),
    ),
    "multi-modal-gesture-recognition": (
        Notice("leak", "The .mat files inside the public test archives hold the labels (#77)."),
    ),
    "smartphone-decimeter-2022": (
        Notice(
            "leak",
            "span_log.nmea in the public test folders gives the true track (#93).",
            hide=("test/*/span_log.nmea",),
        ),
        Notice(
            "grader", "Rows of a trip are compared by position; UnixTimeMillis is not read."
        ),
    ),
    "hubmap-kidney-segmentation": (
        Notice(
            "leak",
            "The public test JSON files hold the true outlines (#98).",
            hide=("test/*.json",),
            keep=("test/*-anatomical-structure.json",),
        ),
        Notice("crowded", "The score rests on 3 images."),
    ),
    "vesuvius-challenge-ink-detection": (Notice("crowded", "The score rests on 1 row."),),
    "random-acts-of-pizza": (
        Notice("leak", "The field giver_username_if_known tells the outcome (#108)."),
    ),
    "dog-breed-identification": (
        Notice("leak", "The images are those of a public labelled data set (#128)."),
    ),
    "tensorflow2-question-answering": (
        Notice(
            "grader", "MLE-bench's own validator rejects every submission (#134); ours does not."
        ),
    ),
    "siim-isic-melanoma-classification": (
        Notice("leak", _TFRECORDS, hide=("tfrecords/test*.tfrec",)),
    ),
    "cassava-leaf-disease-classification": (
        Notice("leak", _TFRECORDS, hide=("test_tfrecords/*",)),
    ),
    "AI4Code": (
        Notice(
            "leak",
            "The text of a grading error names cells in their true order; submissions are "
            "validated on decoys here, so that it tells nothing.",
        ),
    ),
    "stanford-covid-vaccine": (
        Notice(
            "grader",
            "Rows in another order than the sample's are scored wrongly without a word.",
        ),
    ),
    "nomad2018-predict-transparent-conductors": (Notice("grader", _POSITION),),
    "uw-madison-gi-tract-image-segmentation": (
        Notice(
            "grader",
            "Rows are compared by position; a shorter file is scored on its first rows.",
        ),
    ),
    "hms-harmful-brain-activity-classification": (Notice("grader", _IN_ORDER),),
    "google-quest-challenge": (Notice("grader", _SORTED),),
    "new-york-city-taxi-fare-prediction": (Notice("grader", _SORTED),),
    "predict-volcanic-eruptions-ingv-oe": (Notice("grader", _TWICE),),
    "h-and-m-personalized-fashion-recommendations": (
        Notice(
            "grader",
            "A customer given twice shifts all others; article ids in the answers lack the "
            "leading 0 that articles.csv and the sample have.",
        ),
    ),
    "osic-pulmonary-fibrosis-progression": (
        Notice(
            "grader", "Rows left out are not missed; the shipped `osic` grades strictly."
        ),
    ),
    "us-patent-phrase-to-phrase-matching": (
        Notice("grader", "Constant predictions, the sample's too, score NaN."),
    ),
    "jigsaw-unintended-bias-in-toxicity-classification": (
        Notice(
            "grader",
            "Predictions are cut at 0.5 before the AUC: Kaggle's thresholds are not on that scale.",
        ),
    ),
    "vinbigdata-chest-xray-abnormalities-detection": (
        Notice(
            "setup", "With NumPy 2.4 the grader rejects every submission; use an older one."
        ),
    ),
    "tgs-salt-identification-challenge": (Notice("setup", "Needs pandas below 3."),),
    "rsna-breast-cancer-detection": (
        Notice("grader", "All-zero predictions crash the grader."),
    ),
    "inaturalist-2019-fgvc6": (
        Notice("grader", "Predictions written as floats crash the grader."),
    ),
    "tweet-sentiment-extraction": (
        Notice(
            "grader", "An empty prediction crashes the grader where the answer is empty too."
        ),
    ),
    "iwildcam-2019-fgvc6": (
        Notice("grader", "The sample's first column is a nameless index."),
    ),
    "freesound-audio-tagging-2019": (
        Notice("setup", "Preparing needs the network (zenodo.org): pass --network."),
    ),
}  # fmt: skip


def notices_of(competition_id: str) -> tuple[Notice, ...]:
    """Return what is to be known of a competition."""
    return NOTICES.get(competition_id, ())
