"""``python -m tidegauge``."""

from tidegauge.cli.main import main

if __name__ == "__main__":
    main()
