# Two commands for everyone, `make demo` and `make test`; both set up all they need.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test coverage check format docs figures slow sbc bench bench-compare fuzz faults fuzz-dicom clean

demo: $(STAMP)
	$(BIN)/tidegauge demo --out demo

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal

# Lines and branches of src that `make test` reaches, worker processes included.
coverage: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term:skip-covered

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The pages that are made from the code.
docs: $(STAMP)
	$(BIN)/python -m tidegauge.cli.reference > docs/cli-reference.md
	$(BIN)/python -m tidegauge.cli.python_reference > docs/python-api.md

# The picture in README and the outputs of the notebook, from simulated runs.
PICTURE := build/picture
figures: $(STAMP)
	$(BIN)/tidegauge horizon simulate --out $(PICTURE)/simulated --agents 8 --tasks 60
	$(BIN)/tidegauge horizon fit $(PICTURE)/simulated/runs.jsonl --out $(PICTURE)/fit \
		--release-dates $(PICTURE)/simulated/release_dates.yaml
	$(BIN)/tidegauge horizon report $(PICTURE)/fit --charts $(PICTURE)/charts
	cp $(PICTURE)/charts/horizons_p50_typical.svg docs/figures/horizons.svg
	$(BIN)/python examples/run_notebook.py examples/horizon.ipynb

# Simulation-based calibration, coverage over many data sets, and whole runs.
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

# This working tree and the revision BASE by turns on the same commands: ratios with intervals.
bench-compare: $(STAMP)
	$(BIN)/python benchmarks/compare_revisions.py --base $(BASE)

# Mutated DICOM series: none may crash, hang or go unnamed.
fuzz-dicom: $(STAMP)
	$(BIN)/python benchmarks/fuzz_dicom.py 1000

$(STAMP): pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[dev,inspect,dask]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) demo
