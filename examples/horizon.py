"""From a data frame of runs to horizons and a page: python examples/horizon.py [FOLDER]."""

import sys
from pathlib import Path

import pandas as pd

import tidegauge.horizon as th

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "horizon-example")
runs = [("GPT-4", 4, "2023-03-14"), ("GPT-4o", 9, "2024-05-13"), ("o1", 40, "2024-12-05")]
minutes = {"short": 2, "middle": 15, "long": 90, "day": 480}
row = {"human_source": "baseline", "started_at": 0}
rows = [  # one row a run, METR's column names; people take about as long as the task is
    row | {"task_id": f"{t}/1", "task_family": t, "alias": alias, "human_minutes": float(m),
           "score_binarized": int(alias == "human" or horizon * (0.5 + 0.25 * k) > m),
           "completed_at": m * 60_000 * (1 + 0.1 * k)}
    for alias, horizon, _ in [*runs, ("human", 0, "")] for t, m in minutes.items() for k in range(4)
]  # fmt: skip
data = th.Runs.from_frame(pd.DataFrame(rows), release_dates={a: day for a, _, day in runs})
print(data, th.model("core"), sep="\n\n")
fit = th.fit(data, "core", seed=1)
print(fit, fit.horizons(success=0.8), sep="\n\n")
fit.save(folder)
th.write_report(folder / "page.html", th.load(folder))
