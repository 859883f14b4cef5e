"""``python -m tidegauge``."""

from tidegauge.cli.main import run

if __name__ == "__main__":
    run()
