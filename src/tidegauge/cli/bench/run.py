"""``tidegauge bench run``: an agent, a budget, a grade, a record."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

import click

from tidegauge.cli.bench.options import (
    always_json_option,
    checkout_options,
    competition_argument,
    file_type,
    folder_type,
    leaderboard_option,
    open_competition,
    prepared_option,
    print_report,
    settle_killed_runs,
)
from tidegauge.cli.options import Choice, quiet_option, seed_option
from tidegauge.progress import Progress


@click.command()
@competition_argument
@prepared_option
@checkout_options
@click.option("--out", type=folder_type, required=True, help="Where the run folders go.")
@click.option("--agent", required=True, help="A shell command, or sample, naive, fvc, react.")
@click.option("--model", help="The model of `--agent react`.")
@click.option("--model-url", help="Base of its OpenAI-compatible endpoint.")
@click.option("--alias", help="Name of the agent in the record; by default from the command.")
@click.option("--protocol", type=Choice(["plain", "steps"]), default="plain")
@click.option("--isolation", type=Choice(["auto", "bwrap", "user", "none"]), default="auto")
@click.option("--hours", type=float, default=12.0, show_default=True, help="Wall-clock budget.")
@click.option("--steps", type=int, default=500, show_default=True, help="Step budget.")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="Repetitions.")
@click.option("--runs", type=file_type, help="Record file; OUT/runs.jsonl by default.")
@click.option(
    "--memory",
    type=float,
    metavar="GIB",
    help="Of the run, or of each of its processes where no control group can be made.",
)
@click.option("--cpus", type=click.IntRange(1), help="Cores the agent may use.")
@click.option("--disk", type=float, default=50.0, show_default=True, metavar="GIB")
@click.option("--processes", type=click.IntRange(16), default=4096, show_default=True)
@click.option("--gpus", is_flag=True, help="Show graphics devices to a bubblewrap sandbox.")
@click.option("--success-at", type=float, help="Score that counts as success, not any medal.")
@click.option(
    "--mount",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Path shown to the agent, read-only.",
)
@click.option("--pass-env", multiple=True, metavar="NAME", help="Variable the agent keeps.")
@click.option(
    "--layout",
    type=Choice(["tidegauge", "mlebench"]),
    default="tidegauge",
    help="mlebench: /home/data, /home/submission, ... as in its image.",
)
@click.option("--without-leaks", is_flag=True, help="Leave out files known to leak answers.")
@click.option(
    "--allow-net",
    multiple=True,
    metavar="HOST[:PORT]",
    help="Host that a sandboxed agent may reach, by HTTPS.",
)
@leaderboard_option
@seed_option
@always_json_option
@quiet_option
def run(
    competition: str,
    prepared: Path | None,
    out: Path,
    agent: str,
    model: str | None,
    model_url: str | None,
    alias: str | None,
    protocol: str,
    isolation: str,
    hours: float,
    steps: int,
    seeds: int,
    runs: Path | None,
    memory: float | None,
    cpus: int | None,
    disk: float,
    processes: int,
    gpus: bool,
    success_at: float | None,
    mount: tuple[Path, ...],
    pass_env: tuple[str, ...],
    layout: str,
    without_leaks: bool,
    allow_net: tuple[str, ...],
    leaderboard: Path | None,
    seed: int,
    progress: Progress,
) -> int:
    """Run an agent under a budget, grade what it left, and record it. Prints the report.

    Example: tidegauge bench run osic --prepared prepared --out runs --agent naive
    """
    import tidegauge.bench as tb
    from tidegauge.bench.agents import resolve_agent
    from tidegauge.bench.grading import aggregate

    settle_killed_runs(progress)
    found = open_competition(competition, prepared)
    command, default_alias = resolve_agent(agent)
    extra: dict[str, str] = {}
    if agent == "react":
        extra, host = _model(model, model_url)
        protocol, pass_env = "steps", (*pass_env, "OPENAI_API_KEY")
        allow_net = (*allow_net, host) if isolation != "none" else ()
    options = tb.RunOptions(
        command=command,
        alias=alias or default_alias,
        protocol=protocol,
        isolation=isolation,
        limits=tb.Limits(hours, steps),
        resources=tb.Resources(memory, cpus, disk, processes, gpus),
        success_at=success_at,
        leaderboard=leaderboard,
        mounts=mount,
        passed=pass_env,
        allow_net=allow_net,
        extra=extra,
        layout=layout,
        without_leaks=without_leaks,
    )
    records = runs or out / "runs.jsonl"
    reports = [
        tb.run_agent(found, out, records, options, seed=number, progress=progress)
        for number in range(seed, seed + seeds)
    ]
    print_report(reports[0] if seeds == 1 else aggregate(reports), None)
    return 0 if all(report["valid_submission"] for report in reports) else 1


def _model(model: str | None, url: str | None) -> tuple[dict[str, str], str]:
    """Return what tells the agent of its model, and the host to be allowed."""
    if not model:
        raise click.UsageError("--agent react needs --model")
    base = url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
    found = urlsplit(base)
    if found.scheme not in ("http", "https") or not found.hostname:
        raise click.UsageError(f"--model-url {base}: give http(s)://HOST/...")
    port = found.port or (443 if found.scheme == "https" else 80)
    return {"TIDEGAUGE_MODEL": model, "TIDEGAUGE_MODEL_URL": base}, f"{found.hostname}:{port}"
