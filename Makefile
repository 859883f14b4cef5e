# Two commands for everyone, `make demo` and `make test`; both set up all they need.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check format slow sbc bench fuzz-dicom clean

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

bench: $(STAMP)
	for script in benchmarks/bench_*.py; do $(BIN)/python $$script || exit 1; done

# Mutated DICOM series: none may crash, hang or go unnamed.
fuzz-dicom: $(STAMP)
	$(BIN)/python benchmarks/fuzz_dicom.py 1000

$(STAMP): pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[dev,inspect,dask]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) demo
