# Every target sets up what is missing first; scripts/setup.py holds the logic, for machines without make.
PYTHON ?= python3
SETUP = $(PYTHON) scripts/setup.py

.PHONY: help install demo test lab-test lint types bench docs

help:
	@echo "make demo                           set up, index the demo corpus, ask a question"
	@echo "make demo MODEL=qwen2.5-coder-0.5b  the same with the small, quick model"
	@echo "make test                           set up, then lint, types, tests"
	@echo "make lab-test                       the notebooks in JupyterLab, in a browser"
	@echo "make install lint types bench docs  one step each"

install lab-test lint types bench docs:
	@$(SETUP) $@ $(ARGS)

demo:
	@$(SETUP) demo $(if $(MODEL),--model $(MODEL)) $(ARGS)

test:
	@$(SETUP) test $(ARGS)
