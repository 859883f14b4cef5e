"""Read a level honestly from a few noisy measurements.

Three capabilities share one Bayesian engine: ``tidegauge.horizon`` (how long a task an AI agent
can finish), ``tidegauge.bench`` (ML competitions posed and graded offline) and ``tidegauge.fvc``
(lung-function forecasts from one visit). Nothing heavy is imported here.
"""

__version__ = "0.1.0"
