"""Sets up what is missing and runs it: `python scripts/setup.py demo` is `make demo`, `... test` is `make test`.

Standard library only, and readable by old Pythons, because it runs before anything is installed. Finished work is not
done again: `.venv` keeps a stamp named after the dependencies, and model files are known by their sha256.

    install          .venv with the package, notebooks and developer tools
    demo [--model M] install, fetch the models, index the packaged corpus and ask a question of it
    test [ARGS]      install, fetch the models, then lint, types, tests (ARGS go to pytest)
    lab-test [ARGS]  the notebooks in JupyterLab, in a browser: needs a Chromium on this machine
    lint, types      ruff; mypy --strict
    bench [ARGS]     every benchmark, and their tables into docs/benchmarks.md
    docs             write docs/cli.md anew from the program's own help
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
VENV = REPO / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
TORCH = "torch==2.13.0"
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
DEFAULT_MODEL, EMBEDDER, TEST_MODEL = "qwen2.5-coder-1.5b", "all-minilm-l6-v2", "smollm2-135m"


def say(text):
    print("== " + text, file=sys.stderr, flush=True)


def run(*command, **options):
    """Run a command of the virtual environment's Python; stop here, with its exit code, if it fails."""
    code = subprocess.call([str(PYTHON), *command], cwd=str(REPO), **options)
    if code:
        sys.exit(code)


def find_python():
    """A Python of 3.11 or newer: this one, or one on the PATH."""
    if sys.version_info >= (3, 11):
        return sys.executable
    for name in ("python3.12", "python3.11", "python3.13", "python3.14", "python3", "python"):
        path = shutil.which(name)
        test = "import sys; sys.exit(sys.version_info < (3, 11))"
        if path and subprocess.call([path, "-c", test], stderr=subprocess.DEVNULL) == 0:
            return path
    sys.exit("Python 3.11 or newer is needed; this is %s and no newer one is on the PATH." % sys.version.split()[0])


def install():
    """Make `.venv` and install into it, unless its stamp says that this very set of dependencies is there."""
    stamp = VENV / (".installed-" + dependencies_hash())
    if stamp.exists() and PYTHON.exists():
        return
    if not PYTHON.exists():
        say("making .venv")
        if subprocess.call([sys.executable, "-m", "venv", str(VENV)]):
            sys.exit("The virtual environment could not be made. On Debian and Ubuntu, install python3-venv first.")
    environment = dict(os.environ)
    environment.pop("SOURCE_DATE_EPOCH", None)  # with it, llama.cpp is built without AVX
    pip = ("-m", "pip", "install", "--disable-pip-version-check")
    say("installing torch")
    run(*pip, *torch_index(), TORCH, env=environment)
    if subprocess.call([str(PYTHON), "-c", "import llama_cpp"], stderr=subprocess.DEVNULL):
        if not any(shutil.which(name) for name in ("cc", "gcc", "clang", "cl")):
            sys.exit("A C compiler is needed to build llama.cpp: install gcc or clang (macOS: xcode-select --install).")
        say("installing the rest; llama.cpp is compiled for this machine, which takes some ten minutes on two cores")
    run(*pip, "-e", ".[dev,notebook]", env=environment)
    for old in VENV.glob(".installed-*"):
        old.unlink()
    stamp.touch()


def dependencies_hash():
    """Names the set of dependencies, and the Python they are for; other edits of pyproject.toml do not count."""
    import tomllib

    project = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    parts = (project["dependencies"], project["optional-dependencies"], project["scripts"], TORCH, sys.version_info[:2])
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def torch_index():
    """On Linux without an NVIDIA card, prefer torch's CPU build, a tenth of the size, where its index answers."""
    if not sys.platform.startswith("linux") or shutil.which("nvidia-smi"):
        return ()
    try:
        urllib.request.urlopen(TORCH_CPU_INDEX + "/torch/", timeout=5).close()
    except OSError:
        return ()
    return ("--extra-index-url", TORCH_CPU_INDEX)


def pull(*models):
    """Fetch and verify models; at once and without the network where they are there."""
    for model in models:
        if not Path(model).exists():
            run("-m", "localgraphrag", "models", "pull", model)


def demo(arguments):
    options = argparse.ArgumentParser(prog="setup.py demo", add_help=False, allow_abbrev=False)
    options.add_argument("--model", default=os.environ.get("LOCALGRAPHRAG_MODEL") or DEFAULT_MODEL)
    chosen, others = options.parse_known_args(arguments)
    install()
    pull(chosen.model, EMBEDDER)
    # named also where it is the default: an index that another model has made would go on with that one
    run("-m", "localgraphrag", "demo", "--model", chosen.model, *others)


def test(arguments):
    install()
    pull(DEFAULT_MODEL, EMBEDDER, TEST_MODEL)
    codes = [subprocess.call([str(PYTHON), *command], cwd=str(REPO)) for command in (LINT, TYPES)]
    codes.append(subprocess.call([str(PYTHON), "-m", "pytest", *arguments], cwd=str(REPO)))
    sys.exit(1 if any(codes) else 0)  # a step that a signal has ended has a code below 0


def lab_test(arguments):
    install()
    pull(TEST_MODEL)
    os.environ["JUPYTERLAB_TESTS"] = "1"
    run("-m", "pytest", "tests/test_jupyterlab.py", *arguments)


def bench(arguments):
    options = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    options.add_argument("--model", default=DEFAULT_MODEL)
    chosen, _ = options.parse_known_args(arguments)
    install()
    pull(chosen.model, EMBEDDER, TEST_MODEL)
    run("-m", "benchmarks", *arguments)


def tool(*command):
    """A verb that installs and then runs one command."""

    def verb(arguments):
        install()
        run(*command, *arguments)

    return verb


LINT = ("-m", "ruff", "check", ".")
TYPES = ("-m", "mypy")
VERBS = {
    "install": lambda _arguments: install(),
    "demo": demo,
    "test": test,
    "bench": bench,
    "lab-test": lab_test,
    "lint": tool(*LINT),
    "types": tool(*TYPES),
    "docs": tool("scripts/cli_docs.py"),
}


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in VERBS:
        sys.exit(__doc__)
    python = find_python()
    if python != sys.executable:
        sys.exit(subprocess.call([python, *sys.argv]))
    VERBS[sys.argv[1]](sys.argv[2:])


if __name__ == "__main__":
    main()
