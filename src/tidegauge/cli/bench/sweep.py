"""``tidegauge bench sweep``: competitions x agents x seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegauge.cli.bench.options import checkout_options, file_type, folder_type
from tidegauge.cli.options import Choice, json_option, quiet_option
from tidegauge.cli.output import print_json
from tidegauge.progress import Progress

if TYPE_CHECKING:
    from tidegauge.bench.sweep.execution import Outcome
    from tidegauge.bench.sweep.plan import Cell


@click.command()
@click.option("--out", type=folder_type, required=True, help="The sweep's folder.")
@click.option("--agents", type=file_type, help="YAML list of `alias`, `command`, ...")
@click.option("--split", help="Competitions of a checkout's split.")
@click.option(
    "--competition",
    "competitions",
    multiple=True,
    metavar="NAME[=PREPARED]",
    help="One more competition, and its prepared folder.",
)
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True)
@click.option("--hours", type=float, default=24.0, show_default=True, help="Of each run.")
@click.option("--steps", type=int, default=500, show_default=True, help="Of each run.")
@click.option("--isolation", type=Choice(["auto", "bwrap", "user", "none"]), default="auto")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Runs at once.")
@click.option("--cpus", type=click.IntRange(1), help="Cores of each run.")
@click.option("--memory", type=float, metavar="GIB", help="Of each of an agent's processes.")
@click.option("--gpus", default="", help="Devices to deal to the runs, such as 0,1.")
@click.option("--retry", type=click.IntRange(0), default=1, show_default=True,
              help="Times that a run is repeated after a fault of the runner.")  # fmt: skip
@click.option("--without-leaks", is_flag=True, help="Leave out files known to leak answers.")
@click.option("--scheduler", help="Address of a Dask scheduler whose workers share the folder.")
@click.option("--status", is_flag=True, help="Only print how far the sweep is.")
@checkout_options
@json_option
@quiet_option
def sweep(
    out: Path,
    agents: Path | None,
    split: str | None,
    competitions: tuple[str, ...],
    seeds: int,
    hours: float,
    steps: int,
    isolation: str,
    jobs: int,
    cpus: int | None,
    memory: float | None,
    gpus: str,
    retry: int,
    without_leaks: bool,
    scheduler: str | None,
    status: bool,
    as_json: bool,
    progress: Progress,
) -> int:
    """Run every agent on every competition with every seed; the same command again continues.

    Prints how far the sweep is; exit 1 if runs are left.

    Example: tidegauge bench sweep --split low --agents agents.yaml --seeds 3 --out sweep --jobs 4
    """
    from tidegauge.bench.mlebench.checkout import PREFIX, open_checkout
    from tidegauge.bench.sweep import execution, plan

    if agents is not None and not status:
        named = [_named(text) for text in competitions]
        if split is not None:
            named += [(f"{PREFIX}{name}", None) for name in open_checkout().split(split)]
        if not named:
            raise click.UsageError("name competitions by --split or --competition")
        settings = plan.Settings(seeds, hours, steps, isolation, cpus, memory, without_leaks)
        plan.write_plan(out, plan.make_plan(named, plan.read_agents(agents), settings))
    faults: list[Outcome] = []
    if not status:
        slots = execution.make_slots(jobs, cpus, [name for name in gpus.split(",") if name])
        faults = execution.run_sweep(
            out,
            slots=slots,
            retries=retry,
            map_cells=None if scheduler is None else _on_cluster(scheduler),
            progress=progress,
        )
    for outcome in faults:
        progress.note(f"{outcome.name}: {outcome.fault}")
    found = execution.status_of(out)
    if as_json:
        print_json({"done": found.done, "running": found.running, "left": found.left})
    else:
        click.echo(found.sentence(jobs))
    return 0 if status or found.left + found.running == 0 else 1


def _named(text: str) -> tuple[str, Path | None]:
    name, _, folder = text.partition("=")
    return name, Path(folder) if folder else None


def _on_cluster(
    scheduler: str,
) -> Callable[[Callable[[Cell], Outcome], Sequence[Cell]], Iterable[Outcome]]:
    from tidegauge.engine.parallel import parallel_map

    def map_cells(one: Callable[[Cell], Outcome], cells: Sequence[Cell]) -> Iterable[Outcome]:
        return parallel_map(one, cells, scheduler=scheduler)

    return map_cells
