"""`localgraphrag lab`: what is copied, what is never written to, and who can reach the server."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localgraphrag import cli, cli_lab
from localgraphrag.errors import ConfigError

REPO = Path(__file__).parents[1]
PACKAGED = {path.name: path.read_bytes() for path in sorted((REPO / "notebooks").glob("*.ipynb"))}


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """`run("lab", ...)` gives exit code, stderr, and the arguments that JupyterLab would have been started with."""
    started: list[list[str]] = []
    monkeypatch.setattr(cli_lab, "launch", started.append)
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["localgraphrag", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        return stopped.value.code or 0, capsys.readouterr().err, started

    return call


def test_it_opens_a_copy_of_every_notebook(run, tmp_path):
    code, err, started = run("lab", "class", "--no-browser", "--port", free_port())
    assert (code, {p.name: p.read_bytes() for p in (tmp_path / "class").iterdir()}) == (0, PACKAGED)
    assert f"{len(PACKAGED)} notebooks written to {tmp_path / 'class'}" in err
    [arguments] = started
    assert f"--ServerApp.root_dir={tmp_path / 'class'}" in arguments
    assert f"--LabApp.default_url=/lab/tree/{min(PACKAGED)}" in arguments
    assert {"--ServerApp.ip=127.0.0.1", "--ServerApp.open_browser=False", "--ServerApp.port_retries=0"} < set(arguments)


def test_without_options_it_finds_a_free_port_and_opens_a_browser(run, tmp_path):
    _code, _err, [arguments] = run("lab")
    assert [a for a in arguments if "port" in a] == []
    assert "--ServerApp.open_browser=True" in arguments
    assert (tmp_path / cli_lab.FOLDER).is_dir()


def test_a_changed_copy_is_kept_and_said_to_be(run, tmp_path):
    run("lab", "class")
    changed = tmp_path / "class" / min(PACKAGED)
    changed.write_text("mine", encoding="utf-8")
    code, err, _ = run("lab", "class")
    assert (code, changed.read_text(encoding="utf-8")) == (0, "mine")
    assert f"differ from the packaged ones: {min(PACKAGED)}. " in err
    changed.unlink()
    assert "Kept" not in run("lab", "class")[1]
    assert changed.read_bytes() == PACKAGED[changed.name]


NAMES = st.sampled_from(["00_a.ipynb", "01_b.ipynb", "02_c.ipynb", "notes.txt"])


@given(st.dictionaries(NAMES, st.binary(max_size=3)), st.dictionaries(NAMES, st.binary(max_size=3)))
def test_copying_writes_what_is_missing_and_nothing_else(tmp_path_factory, packaged, there):
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("target")
    for folder, files in ((source, packaged), (target, there)):
        for name, content in files.items():
            (folder / name).write_bytes(content)
    notebooks = {name: content for name, content in packaged.items() if name.endswith(".ipynb")}
    copied = cli_lab.copy_notebooks(target, source)
    assert {p.name: p.read_bytes() for p in target.iterdir()} == notebooks | there
    assert set(copied.written) == set(notebooks) - set(there)
    assert set(copied.kept) == {name for name in notebooks.keys() & there.keys() if notebooks[name] != there[name]}
    again = cli_lab.copy_notebooks(target, source)
    assert (again.written, again.kept) == ((), copied.kept)


def test_a_missing_jupyterlab_is_said_before_anything_is_made(run, tmp_path, monkeypatch):
    monkeypatch.setattr(cli_lab.importlib.util, "find_spec", lambda name: None if name == "jupyterlab" else name)
    code, err, started = run("lab", "class")
    assert (code, started, list(tmp_path.iterdir())) == (2, [], [])
    assert "need jupyterlab, which" in err
    assert "pip install -e '.[notebook]'" in err


def test_a_taken_port_is_said_before_anything_is_made(run, tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        code, err, started = run("lab", "class", "--port", other.getsockname()[1])
    assert (code, started, list(tmp_path.iterdir())) == (2, [], [])
    assert "cannot be used" in err
    assert "--port" in err


@pytest.mark.parametrize("port", ["0", "65536", "many"])
def test_a_port_that_is_none_is_refused(run, port):
    code, err, started = run("lab", "--port", port)
    assert (code, started) == (2, [])
    assert "--port" in err


def test_a_folder_that_cannot_be_is_refused(run, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    code, err, started = run("lab", "file")
    assert (code, started) == (2, [])
    assert "Name another folder" in err
    code, err, started = run("lab", REPO / "notebooks")
    assert (code, started) == (2, [])
    assert "of the program itself" in err


def test_no_notebooks_at_all_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(cli_lab, "__file__", str(tmp_path / "localgraphrag" / "cli_lab.py"))
    with pytest.raises(ConfigError, match="There are no notebooks in"):
        cli_lab.packaged_notebooks()


def test_a_wheel_carries_the_notebooks(tmp_path):
    """Built in a copy, so that the checkout stays as it is."""
    source = tmp_path / "source"
    shutil.copytree(REPO / "localgraphrag", source / "localgraphrag", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(REPO / "notebooks", source / "notebooks")
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(REPO / name, source)
    build = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
    command = [sys.executable, "-c", build, tmp_path]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    code = "from localgraphrag.cli_lab import packaged_notebooks; print(packaged_notebooks())"
    found = subprocess.check_output([sys.executable, "-c", code], cwd=tmp_path / "installed", text=True)
    folder = tmp_path / "installed/localgraphrag/notebook/lessons"
    assert Path(found.strip()) == folder
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == PACKAGED
    views = {p.name for p in (REPO / "localgraphrag/notebook").iterdir() if p.suffix in (".js", ".css")}
    assert views <= {p.name for p in folder.parent.iterdir()}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_server_answers_this_machine_only(tmp_path):
    """Even where a configuration says otherwise. A server on all addresses would answer on 127.0.0.2 as well."""
    if not sys.platform.startswith("linux"):
        pytest.skip("only on Linux are all of 127.0.0.0/8 this machine")
    pytest.importorskip("jupyterlab", reason="needs `pip install -e '.[notebook]'`")
    (tmp_path / "config").mkdir()
    own = {"ServerApp": {"ip": "0.0.0.0", "allow_remote_access": True}}
    (tmp_path / "config/jupyter_server_config.json").write_text(json.dumps(own), encoding="utf-8")
    port = free_port()
    command = [sys.executable, "-m", "localgraphrag", "lab", str(tmp_path / "class"), "--no-browser", f"--port={port}"]
    environment = {**os.environ, "JUPYTER_CONFIG_DIR": str(tmp_path / "config")}
    server = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        assert b"version" in answer(f"http://127.0.0.1:{port}/api", server)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port), timeout=2)
    finally:
        server.terminate()
        server.wait(20)


def answer(url: str, server: subprocess.Popen) -> bytes:
    for _ in range(600):
        assert server.poll() is None, "the server has ended"
        try:
            with urllib.request.urlopen(url, timeout=5) as reply:
                return reply.read()
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"{url} does not answer")
