"""A forecast as a submission file: written whole, then checked as the grader would."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
import uuid
from pathlib import Path

import numpy as np

from tidegauge.errors import TideGaugeError
from tidegauge.fvc.data.folder import TestSet
from tidegauge.fvc.decision import decide
from tidegauge.fvc.prognosis import Predictive
from tidegauge.schema.submission import (
    OSIC_FORM,
    SubmissionTable,
    read_submission,
    write_submission,
)

_TIMEOUT_SECONDS = 30.0


class ValidationFailed(TideGaugeError):
    """The submission stands, but a check of it failed or could not be made."""

    exit_code = 1


def write_forecast(blend: Predictive, test: TestSet, output: Path) -> None:
    """Forecast every row asked for, decide, write and check the file.

    Raises
    ------
    SubmissionError
        What was written is not a valid submission.
    """
    keys, questions = test.asked.keys, test.asked.questions
    decision = decide(blend.forecast(test.cohort.baselines, questions))
    # A tenth of a millilitre is far below what a spirometer resolves, and reads better.
    values = {
        "FVC": np.round(decision.fvc_ml, 1),
        "Confidence": np.round(decision.confidence_ml, 1),
    }
    write_submission(output, SubmissionTable(keys, values), form=OSIC_FORM)
    read_submission(output, form=OSIC_FORM, expected_keys=keys)


def validate_at(url: str, submission: Path) -> str:
    """Send a submission to a validation server and return its sentence.

    Parameters
    ----------
    url : str
        The server, as ``SERVER_URL`` names it, or its ``/validate`` endpoint.

    Raises
    ------
    ValidationFailed
        The server cannot be reached or calls the submission invalid.
    """
    if urllib.parse.urlsplit(url).path in ("", "/"):
        url = url.rstrip("/") + "/validate"
    boundary = uuid.uuid4().hex
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; '
        f'filename="{submission.name}"\r\nContent-Type: text/csv\r\n\r\n'
    )
    body = head.encode() + submission.read_bytes() + f"\r\n--{boundary}--\r\n".encode()
    try:
        request = urllib.request.Request(
            url, body, {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        )
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as reply:
            sentence = str(json.loads(reply.read())["result"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValidationFailed(
            f"{url}: no answer from a validation server ({error}); {submission} is written, and "
            "valid by the same checks made here"
        ) from error
    if not sentence.startswith("Submission is valid"):
        raise ValidationFailed(f"{url}: {sentence}")
    return sentence
