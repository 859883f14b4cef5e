# Two commands for everyone, `make demo` and `make test`; both set up all they need.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check format slow sbc bench fuzz faults clean

demo: $(STAMP)
	$(BIN)/tidegauge demo --out demo

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Simulation-based calibration and other long statistics.
slow: $(STAMP)
	$(BIN)/python -m pytest tests/slow

# Simulation-based calibration of core and of every option: rank histograms for the docs.
sbc: $(STAMP)
	$(BIN)/python tests/slow/sbc.py docs/figures
	$(BIN)/python tests/slow/sbc_full.py docs/figures

# Spoiled inputs for every reader; faults at random moments of every command. Both write docs/reliability.md.
fuzz: $(STAMP)
	PYTHONPATH=tests $(BIN)/python tests/fuzz_readers.py 10000

faults: $(STAMP)
	PYTHONPATH=tests $(BIN)/python tests/fault_runs.py 20

bench: $(STAMP)
	for script in benchmarks/bench_*.py; do $(BIN)/python $$script || exit 1; done

$(STAMP): pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[dev,inspect,dask]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) demo
