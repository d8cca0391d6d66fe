"""The command line: each verb, what goes where, exit codes, and how quickly it starts."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import localgraphrag.llm
from localgraphrag import Project, cli, cli_models, console, errors, models, report_view
from localgraphrag.llm.scripted import ScriptedEngine
from localgraphrag.show import Link, Shown
from tests import workbench
from tests.test_config import no_drive
from tests.test_documents import a_docx, a_pdf, encrypted

REPO = Path(__file__).parents[1]
VERBS = ["init", "index", "query", "compare", "status", "show", "estimate", "verify", "demo", "doctor", "models"]


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """`run("status")` gives (exit code, stdout, stderr) of the command, with a scripted model in the project `p`."""
    engines, models = [], []

    def load_engine(settings, *_arguments):
        models.append(settings.model)
        engines.append(ScriptedEngine(workbench.reply, "cli"))
        return engines[-1]

    monkeypatch.setattr(localgraphrag.llm, "load_engine", load_engine, raising=False)
    monkeypatch.setattr(Project, "_check_model", lambda _project: None)  # the default's file need not be here
    monkeypatch.setenv("LOCALGRAPHRAG_EMBEDDER", "hash")
    for name, value in workbench.SETTINGS.items():
        monkeypatch.setenv(f"LOCALGRAPHRAG_{name.upper()}", str(value))
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["localgraphrag", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    call.engines, call.models = engines, models
    return call


@pytest.fixture
def indexed(run, tmp_path):
    workbench.write_corpus(tmp_path / "letters", 6, 6)
    code, _out, err = run("index", "letters", "--project", "p", "--json")
    assert code == 0, err
    return run


def test_the_corpus_to_an_answer(run, tmp_path):
    workbench.write_corpus(tmp_path / "letters", 6, 6)
    code, out, err = run("index", "letters", "--project", "p")
    assert code == 0, err
    assert out.startswith("6 documents (6 added, 0 removed)")
    assert "extract: " in err
    assert "tokens" not in err.split("extract:")[0]
    code, out, err = run("query", "Who wrote to whom?", "--project", "p", "--show-record")
    assert (code, "C0: " in out, '"batches"' in out or '"seed"' in out) == (0, True, True), err


def test_index_again_does_nothing_and_json_says_so(indexed):
    code, out, _err = indexed("index", "--project", "p", "--json")
    summary = json.loads(out)
    extracting = next(stage for stage in summary["stages"] if stage["stage"] == "extract")
    assert code == 0
    assert extracting["units"] == extracting["cached"] > 0


def test_results_are_all_that_is_on_stdout(indexed):
    for arguments in (
        ["query", "Who?", "-p", "p", "--json"], ["query", "Who?", "--method", "ss", "-p", "p", "--json"],
        ["compare", "Who?", "-p", "p", "--json", "--conditions", "C0,ss"], ["status", "-p", "p", "--json"],
        ["show", "Ada", "-p", "p", "--json"], ["verify", "-p", "p", "--json"],
        ["estimate", "letters", "-p", "p", "--json"], ["models", "list", "--json"], ["models", "path", "--json"],
    ):  # fmt: skip
        code, out, err = indexed(*arguments)
        assert code == 0, err
        assert json.loads(out)


def test_every_report_in_words(indexed):
    code, out, _ = indexed("status", "-p", "p")
    assert code == 0
    assert "C0" in out
    assert "extract" in out
    code, out, _ = indexed("show", "ada", "-p", "p")
    assert code == 0
    assert "⟦Ada⟧" in out
    assert "Relationships" in out
    community = out.split("Communities")[1].split("[")[1].split("]")[0]
    assert "Entities" in indexed("show", community, "-p", "p")[1]
    assert indexed("compare", "Who?", "-p", "p")[1].count("\nC0") == 2
    assert "chunks (" in indexed("estimate", "letters", "-p", "p")[1]
    assert indexed("verify", "-p", "p") == (0, "The index is sound.\n", "")


def test_show_takes_the_beginning_of_an_id_and_a_reports_title(indexed):
    found = json.loads(indexed("show", "Ada", "-p", "p", "--json")[1])
    assert json.loads(indexed("show", found["id"][:10], "-p", "p", "--json")[1]) == found
    chunk = found["passages"][0]["chunk_id"]
    assert indexed("show", chunk[:12], "-p", "p")[1].splitlines()[1] == f"chunk {chunk}"
    community = next(link for link in found["links"] if link["kind"] == "community")
    _code, out, err = indexed("show", community["title"], "-p", "p")
    assert community["id"] in out + err  # titles of the scripted model may be those of several reports
    assert indexed("show", "e-", "-p", "p")[0] == 2


def test_show_says_what_comes_near(indexed):
    code, out, err = indexed("show", "Lovelance", "-p", "p")
    assert (code, out) == (2, "")
    assert "Lovelace" in err


def test_init_writes_settings_that_are_then_used(run, tmp_path):
    code, out, _ = run("init", "new", "--model", "smollm2-135m")
    assert (code, out) == (0, "new/localgraphrag.toml\n")
    assert 'model = "smollm2-135m"' in (tmp_path / "new/localgraphrag.toml").read_text(encoding="utf-8")
    assert run("init", "new")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["query", "Who?", "-p", "nowhere"], "localgraphrag index"),
        (["query", "Who?", "--method", "magic", "-p", "p"], "global, ts, ss"),
        (["index", "-p", "p"], "No paths were given"),
        (["index", "empty", "-p", "p"], "There is no document in "),
        (["index", "letters", "--levels", "all", "-p", "p"], "as in 0 or 0,1"),
        (["models", "pull", "gpt-9"], "Known models: qwen2.5-coder-1.5b"),
        (["models", "pull", "smollm2-135m", "--from", "moon"], "hub, wheels or auto"),
        (["models", "add", "nothing.gguf"], "There is no file nothing.gguf"),
    ],
)
def test_wrong_use_is_one_line_on_stderr_and_makes_nothing(run, tmp_path, arguments, says):
    (tmp_path / "empty").mkdir()
    workbench.write_corpus(tmp_path / "letters", 1)
    code, out, err = run(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert says in err
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize("given", ["nowhere", "."])
def test_a_missing_index_is_named_with_the_remedy_for_its_folder(run, tmp_path, given):
    code, _out, err = run("status", "-p", given)
    folder = (tmp_path / given).absolute()
    assert code == 2
    assert str(folder / "index.db") in err
    assert "give that with `--project DIR`" in err
    assert f"`localgraphrag index PATHS --project {folder}`" in err


@pytest.mark.parametrize(
    "arguments",
    [["init", "taken"], ["init", "taken/new"], *([verb, "-p", "taken"] for verb in ("status", "economics", "doctor"))],
)
def test_a_file_in_place_of_the_folder_is_said(run, tmp_path, arguments):
    (tmp_path / "taken").write_text("")
    code, out, err = run(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert f"{tmp_path / 'taken'} is a file" in err


def test_a_tilde_of_the_projects_folder_is_the_home(run, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    assert run("init", "~/new")[0] == 0
    assert (tmp_path / "home/new/localgraphrag.toml").exists()
    assert str(tmp_path / "home/new/index.db") in run("status", "--project", "~/new")[2]
    assert not (tmp_path / "~").exists()


def test_an_index_in_place_of_its_folder_names_the_folder(run, tmp_path):
    (tmp_path / "index.db").write_text("")
    assert f"give the folder that it is in: {tmp_path}." in run("status", "-p", "index.db")[2]


def test_what_is_written_makes_its_folder_or_says_why_it_cannot(indexed, tmp_path):
    assert indexed("economics", "-p", "p", "--plot", "new/plot.svg")[0] == 0
    assert (tmp_path / "new/plot.svg").read_text(encoding="utf-8").startswith("<svg")
    (tmp_path / "taken").write_text("")
    for arguments in (["economics", "-p", "p", "--plot"], ["evaluate", "report", "-p", "p", "--out"]):
        for target in ("taken/plot.svg", "p"):
            code, out, err = indexed(*arguments, target)
            assert (code, out, err.count("\n")) == (2, "", 1), err
            assert "cannot be " in err and "who may" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["query", " "], "The question is empty"),
        (["compare", ""], "The question is empty"),
        (["compare", "Who?", "--conditions", ""], "--conditions was given ''; name some of C0, C1, C2, C3, TS, SS"),
        (["compare", "Who?", "--conditions", " , "], "--conditions was given ' , '"),
        (["evaluate", "run", "--conditions", ","], "--conditions was given ','"),
        (["evaluate", "judge", "--metrics", ","], "name some of comprehensiveness, "),
        (["demo", "--question", " "], "The question is empty"),
        (["query", "Who?", "--level", "9"], "There is no level 9. This index has levels 0 (coarsest) to "),
    ],
)
def test_a_question_is_looked_at_before_a_model_is_loaded(indexed, arguments, says):
    indexed.engines.clear()
    code, out, err = indexed(*arguments, "-p", "p")
    assert (code, out) == (2, "")
    assert says in err
    assert indexed.engines == []


def made_by_a_known_model(index: Path) -> str:
    """Have the index say that a model of the catalogue made it; the model's sha256."""
    import sqlite3

    from localgraphrag.llm.catalog import catalog

    sha256 = catalog()["smollm2-135m"].files[0].sha256
    with sqlite3.connect(index) as database:
        database.execute("UPDATE meta SET value = ? WHERE name = 'model'", (json.dumps(sha256),))
    database.close()
    return sha256


def test_status_names_the_model_that_the_catalogue_knows(indexed, tmp_path):
    sha256 = made_by_a_known_model(tmp_path / "p/index.db")
    assert f"smollm2-135m (sha256 {sha256})" in indexed("status", "-p", "p")[1]
    assert json.loads(indexed("status", "-p", "p", "--json")[1])["model"] == sha256


def test_a_question_names_the_model_that_began_the_reports(run, tmp_path):
    workbench.write_corpus(tmp_path / "letters", 6, 6)
    assert run("index", "letters", "-p", "p", "--levels", "0")[0] == 0
    sha256 = made_by_a_known_model(tmp_path / "p/index.db")
    code, _out, err = run("query", "Who?", "--level", "1", "-p", "p")
    assert code == 2
    assert "(smollm2-135m). Ask with that model (`--model smollm2-135m`)" in err
    assert sha256 not in err


def test_an_index_without_documents_names_the_remedy(run, tmp_path):
    from localgraphrag.store import Store

    Store(tmp_path / "p/index.db", writer="index").close()
    code, _out, err = run("query", "Who?", "-p", "p")
    assert code == 2
    assert f"The index at {tmp_path / 'p/index.db'} is empty: it holds no documents." in err
    assert f"`localgraphrag index PATHS --project {tmp_path / 'p'}`" in err


def test_a_missing_evaluation_file_names_the_command_that_makes_it(indexed, tmp_path):
    code, _out, err = indexed("evaluate", "facts", "-p", "p", "--no-embedding")
    assert code == 2
    assert f"`localgraphrag evaluate run --project {tmp_path / 'p'}`" in err
    assert "--help" not in err


def test_debug_shows_where_an_error_came_from(run, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["localgraphrag", "query", "Who?", "-p", "nowhere", "--debug"])
    with pytest.raises(errors.NotIndexedError):
        cli.main()


def test_nothing_readable_is_one_sentence_and_makes_nothing(run, tmp_path):
    (tmp_path / "scans").mkdir()
    (tmp_path / "scans/blank.txt").write_text(" \n")
    (tmp_path / "scans/scan.pdf").write_bytes(a_pdf([]))
    code, out, err = run("index", "scans", "-p", "p")
    told = [line for line in err.splitlines() if not line.startswith("read: ")]
    assert (code, out, len(told)) == (2, "", 1), err
    assert "could be read: blank.txt holds only white space; scan.pdf is a PDF without text" in told[0]
    assert not (tmp_path / "p").exists()


def test_files_that_cannot_be_read_are_named_with_the_reason_and_strict_makes_that_exit_1(run, tmp_path):
    workbench.write_corpus(tmp_path / "letters", 6, 6)
    bad = {
        "locked.pdf": (encrypted(a_pdf(["secret"]), "pass"), "is encrypted"),
        "scan.pdf": (a_pdf([]), "is a PDF without text"),
        "torn.pdf": (b"%PDF-1.4 broken", "broken PDF"),
        "bare.docx": (a_docx(lambda document: None), "is a DOCX file without text"),
        "noise.txt": (bytes(range(256)) * 8, "binary"),
        "empty.txt": (b"", "is empty"),
        "blank.txt": (b" \n\t", "white space"),
        "nul.txt": (bytes(500), "NUL"),
    }
    for name, (content, _reason) in bad.items():
        (tmp_path / "letters" / name).write_bytes(content)
    code, out, err = run("index", "letters", "-p", "p", "--strict")
    assert (code, out.startswith("6 documents (6 added, 0 removed)")) == (1, True), err
    assert run("index", "letters", "-p", "p", "--include", "*.txt")[0] == 0
    for name, (_content, reason) in bad.items():
        assert any(name in line and reason in line for line in out.splitlines()), name


def test_a_link_that_is_not_followed_is_told_and_no_failure(run, tmp_path):
    workbench.write_corpus(tmp_path / "letters", 6, 6)
    (tmp_path / "private.txt").write_text("Tesla met Watt.")
    (tmp_path / "letters/away.txt").symlink_to(tmp_path / "private.txt")
    code, out, err = run("index", "letters", "-p", "p", "--strict")
    assert (code, "away.txt" in out) == (0, True), err
    (tmp_path / "letters/nowhere.txt").symlink_to(tmp_path / "nothing.txt")
    assert run("index", "letters", "-p", "p", "--strict")[0] == 1


def test_options_say_what_is_read_and_which_columns(run, tmp_path):
    workbench.write_corpus(tmp_path / "letters", 6, 6)
    (tmp_path / "letters/table.csv").write_text("body,name\nTesla met Watt.,A meeting\n")
    (tmp_path / "letters/secret.log").write_text("Pascal met Ohm.")
    code, out, err = run("index", "letters/table.csv", "-p", "p")
    assert (code, "Choose one with --text-column" in err) == (2, True)
    columns = ["--text-column", "body", "--title-column", "name"]
    assert run("estimate", "letters/table.csv", "-p", "p", *columns)[0] == 0
    chosen = ["--include", "*.csv", "--include", "*.txt", "--exclude", "letter00.*", "--exclude", "letter01.*"]
    code, out, err = run("index", "letters", "-p", "p", *chosen, *columns, "--json")
    assert (code, json.loads(out)["documents"]) == (0, 5), err
    assert "A meeting" in run("show", "table.csv", "-p", "p")[1] + run("show", "documents", "-p", "p")[1]
    assert "secret.log" not in run("show", "documents", "-p", "p")[1]


def test_an_option_is_for_one_run(run, tmp_path):
    from localgraphrag.config import Settings

    workbench.write_corpus(tmp_path / "letters", 6, 6)
    code, _out, err = run("index", "letters", "-p", "p", "--levels", "0", "--no-claims", "--seed", "3")
    assert code == 0, err
    written = tomllib.loads((tmp_path / "p/localgraphrag.toml").read_text(encoding="utf-8"))
    assert written == {name: field.default for name, field in Settings.model_fields.items()}


def test_an_index_goes_on_with_the_model_that_made_it_until_another_is_named(run, tmp_path, monkeypatch):
    workbench.write_corpus(tmp_path / "letters", 6, 6)
    own = tmp_path / "own.gguf"
    own.write_bytes(b"GGUF")
    monkeypatch.setenv("LOCALGRAPHRAG_MODEL", "own.gguf")
    run("index", "letters", "-p", "p")
    monkeypatch.delenv("LOCALGRAPHRAG_MODEL")
    run("query", "Who?", "-p", "p")
    run("index", "letters", "-p", "p", "--model", "smollm2-135m")
    run("query", "Who wrote?", "-p", "p")
    run("index", "-p", "p")
    run("query", "Who wrote to whom?", "-p", "p", "--model", "qwen3-4b")
    settings = tmp_path / "p/localgraphrag.toml"
    text = settings.read_text(encoding="utf-8")
    settings.write_text(text.replace('model = "qwen2.5-coder-1.5b"', 'model = "qwen2.5-7b"'), encoding="utf-8")
    run("query", "To whom?", "-p", "p")
    small = "smollm2-135m"
    assert run.models == ["own.gguf", str(own), small, small, small, "qwen3-4b", "qwen2.5-7b"]


def test_estimate_takes_the_options_of_index(run, tmp_path):
    workbench.write_corpus(tmp_path / "letters", 6, 6)

    def told(*options):
        code, out, err = run("estimate", "letters", "-p", "p", *options, "--json")
        assert code == 0, err
        return json.loads(out)

    usual = told()
    assert told("--max-gleanings", "3")["calls"] > usual["calls"] > told("--no-claims")["calls"]
    assert told("--levels", "0")["reports"] < usual["reports"]
    assert run("index", "letters", "-p", "p", "--levels", "0", "--seed", "3")[0] == 0
    assert told("--levels", "0", "--seed", "3")["calls"] == 0
    assert told("--seed", "3")["calls"] > 0
    assert (told("--claims")["stored"], told("--no-claims")["stored"]) == (usual["chunks"], 0)
    assert "reports to write: about" in run("estimate", "-p", "p")[1]
    for wrong in (["--levels", "two"], ["--max-gleanings", "-1"], ["--max-gleanings", "9"], ["--seed", "x"]):
        assert run("estimate", "letters", "-p", "p", *wrong)[0] == 2
    for path in ("", "nowhere"):
        assert run("estimate", path, "-p", "p")[0] == 2


def test_each_option_of_index_and_of_a_question_is_taken(run, tmp_path):
    workbench.write_corpus(tmp_path / "letters", 4, 6)
    options = ["--max-gleanings", "3", "--no-claims", "--seed", "7", "--levels", "0,1"]
    code, _out, err = run("index", "letters", "-p", "p", *options)
    assert code == 0, err
    with Project.open(tmp_path / "p").store() as store:
        used = store.get("settings")
    taken = {name: used[name] for name in ("max_gleanings", "claims", "seed", "report_levels")}
    assert taken == {"max_gleanings": 3, "claims": False, "seed": 7, "report_levels": [0, 1]}
    for seed in (3, 4):
        code, out, err = run("query", "Who wrote to whom?", "-p", "p", "--seed", seed, "--show-record")
        assert code == 0 and f'"seed": {seed}' in out, err
        code, out, err = run("compare", "Who wrote to whom?", "-p", "p", "--seed", seed, "--conditions", "C0", "--json")
        assert json.loads(out)["answers"]["C0"]["record"]["seed"] == seed, err


def test_a_level_that_the_index_does_not_have_is_warned_of(run, tmp_path):
    workbench.write_corpus(tmp_path / "letters", 6, 6)
    code, out, err = run("index", "letters", "-p", "p", "--levels", "0,7")
    assert code == 0, err
    assert "No reports were written for C7: this index has the levels C0" in out
    assert "No reports" not in run("index", "-p", "p", "--levels", "0")[1]


def test_an_index_of_nothing_is_empty_and_says_so(run, tmp_path):
    folder = workbench.write_corpus(tmp_path / "letters", 6, 6)
    assert run("index", "letters", "-p", "p")[0] == 0
    for path in folder.iterdir():
        path.unlink()
    code, _out, err = run("index", "-p", "p")
    assert (code, "--drop" in err) == (2, True)
    code, out, err = run("index", "-p", "p", "--drop", "--strict")
    assert code == 0, err
    assert out.startswith("0 documents (0 added, 6 removed)")
    assert "The index is empty now" in out
    run.models.clear()
    for method in ("global", "ts", "ss"):
        code, _out, err = run("query", "Who?", "-p", "p", "--method", method)
        assert (code, "is empty: it holds no documents" in err) == (2, True)
    assert run.models == []
    assert run("verify", "-p", "p") == (0, "The index is sound.\n", "")
    for verb in ("status", "economics"):
        assert run(verb, "-p", "p")[0] == 0
    code, out, _err = run("show", "entities", "-p", "p")
    assert (code, "0 of entities" in out, "The index holds no documents." in out) == (0, True, True)
    assert run("compare", "Who?", "-p", "p")[0] == 2
    assert run("estimate", "-p", "p")[0] == 2


def test_a_broken_index_exits_1_with_the_list(indexed, tmp_path):
    import sqlite3

    database = sqlite3.connect(tmp_path / "p/index.db")
    database.execute("UPDATE nodes SET degree = degree + 1")
    database.commit()
    database.close()
    code, out, _ = indexed("verify", "-p", "p")
    assert code == 1
    assert "degree" in out


def test_what_is_odd_is_told_in_one_line(run, tmp_path):
    workbench.write_corpus(tmp_path / "letters", 6, 6)
    for arguments in (["index", "", "-p", "p"], ["index", "letters", "", "-p", "p"], ["show", " ", "-p", "p"]):
        code, _out, err = run(*arguments)
        assert (code, err.count("\n")) == (2, 1), err
    assert not (tmp_path / "p").exists()


def test_a_failure_is_one_row_of_the_table(indexed, tmp_path):
    import sqlite3

    with sqlite3.connect(tmp_path / "p/index.db") as database:
        reason = "the grammar was refused:\n  line 3\r\n\x1b[2Jof it"
        database.execute("INSERT INTO failures VALUES ('k', 'extract', 't-1', 'cli', 'index', ?)", (reason,))
    database.close()
    assert "\nextract  t-1   the grammar was refused: line 3 \ufffd[2Jof it\n" in indexed("status", "-p", "p")[1]


def test_a_run_at_work_is_told_by_status(indexed, tmp_path):
    from localgraphrag.store import Store

    with Store(tmp_path / "p/index.db", writer="index"):
        code, out, _err = indexed("status", "-p", "p")
        assert (code, "`localgraphrag index` is at work on it, process" in out) == (0, True)
        assert json.loads(indexed("status", "-p", "p", "--json")[1])["at_work"]
        code, _out, err = indexed("index", "letters", "-p", "p")
        assert (code, "is being written by process" in err) == (2, True)
    assert "at work" not in indexed("status", "-p", "p")[1]


@pytest.mark.parametrize("arguments", [["models", "path"], ["models", "list", "--json"], ["--help"]])
def test_a_reader_that_has_enough_ends_it_quietly(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "localgraphrag", *arguments]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_closed_output_is_said_in_one_line():
    command = 'exec "$0" -m localgraphrag models list --json >&-'
    done = subprocess.run(["sh", "-c", command, sys.executable], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "Standard output is closed" in done.stderr


def test_a_damaged_model_file_is_told_before_anything_is_read(tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").write_text("Ada wrote to Ben.", encoding="utf-8")
    header = struct.pack("<IQQQ", 3, 200, 30, 20)  # version, tensors, entries, length of the first key
    (tmp_path / "t.gguf").write_bytes(b"GGUF" + header + b"general.")

    def told(*arguments):
        command = [sys.executable, "-m", "localgraphrag", *arguments, "index", "letters", "--model", "t.gguf"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = told()
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith(f"localgraphrag: llama.cpp cannot load {tmp_path / 't.gguf'}. The file is damaged")
    assert "llama_model_load" in told("--debug").stderr


def test_a_list_is_printed_whole_and_links_of_one_thing_in_part(capsys):
    links = tuple(Link("entity", f"e-{n}", f"name {n}", "") for n in range(report_view.LINKS + 1))
    report_view.print_shown(Shown("list", "entities", "entities", "", links=links))
    out = capsys.readouterr().out
    assert (out.count("[e-"), "more" in out) == (len(links), False)
    report_view.print_shown(Shown("entity", "e-x", "x", "", links=links))
    out = capsys.readouterr().out
    assert (out.count("[e-"), "and 1 more (--json shows all)" in out) == (report_view.LINKS, True)


def test_the_demo_keeps_off_another_projects_index(indexed, tmp_path):
    code, out, err = indexed("demo", "-p", "p")
    assert (code, out) == (2, "")
    assert f"The index in {tmp_path / 'p'} is of {tmp_path / 'letters'}." in err
    assert "Give the demo another folder with `--project DIR`" in err and "--drop" not in err


def test_control_characters_of_a_document_never_reach_the_terminal(run, tmp_path):
    workbench.write_corpus(tmp_path / "letters", 6, 6)
    (tmp_path / "letters" / "odd.txt").write_text("Ada met \x1b[2JByron in \x1b]0;title\x07 London.", encoding="utf-8")
    assert run("index", "letters", "-p", "p")[0] == 0
    for what in ("odd.txt", "Ada", "documents"):
        code, out, err = run("show", what, "-p", "p")
        assert code == 0 and "\x1b" not in out + err and "\x07" not in out + err


def test_what_to_try_next_can_be_pasted(run, tmp_path):
    assert f"--project '{tmp_path / 'a b'}'" in run("init", tmp_path / "a b")[2]


def test_a_full_device_is_told_and_an_interrupt_anywhere(run, monkeypatch):
    def full(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(console, "write_json", full)
    code, _out, err = run("models", "list", "--json")
    assert code == 2 and "No space left" in err and err.count("\n") == 1

    def interrupted(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(console, "write_json", interrupted)
    assert run("models", "list", "--json")[0] == 130


def test_an_interrupt_says_that_nothing_is_lost(run, monkeypatch):
    def interrupt(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Project, "index", interrupt)
    code, _out, err = run("index", ".")
    assert (code, "run the same command again" in err) == (130, True)


def test_doctor_names_a_remedy_for_what_is_missing(run, tmp_path, monkeypatch):
    monkeypatch.setenv("LOCALGRAPHRAG_MODELS", str(tmp_path / "none"))
    code, out, _err = run("doctor", "--json")
    checks = {check["name"]: check for check in json.loads(out)}
    assert code == 2
    assert checks["model"]["state"] == "fail"
    assert "models pull" in checks["model"]["remedy"]
    assert {"embedder", "vector units", "graphics card", "threads", "disk of the project"} <= set(checks)


@pytest.mark.parametrize(("setting", "model", "known"), [("model", "nonsense", "smollm2-135m")])
def test_doctor_lists_the_names_where_there_is_no_such_model(run, setting, model, known):
    checks = {check["name"]: check for check in json.loads(run("doctor", "--model", model, "--json")[1])}
    assert known in checks[setting]["remedy"]
    assert f"pull {model}" not in checks[setting]["remedy"]


def test_doctor_tells_how_much_of_a_model_it_has_hashed(tmp_path):
    from localgraphrag.config import Settings
    from localgraphrag.doctor import examine

    own, told = tmp_path / "own.gguf", []
    own.write_bytes(b"GGUF" + bytes(5_000_000))
    list(examine(Settings(model=str(own), embedder="hash"), tmp_path, lambda *progress: told.append(progress)))
    size = own.stat().st_size
    assert told[-1] == (f"verifying {own}", size, size)
    assert 0 < told[0][1] < size


def test_doctor_says_that_the_projects_folder_is_not_there(tmp_path, monkeypatch):
    from localgraphrag.doctor import _disk

    assert (
        f"free at {tmp_path}; {tmp_path / 'no/such'} does not exist yet"
        in _disk("disk", tmp_path / "no/such", "").found
    )
    assert _disk("disk", tmp_path, "").found.endswith(f"free at {tmp_path}")
    monkeypatch.setattr(Path, "stat", no_drive)
    gone = _disk("disk", tmp_path, "")
    assert (gone.state, gone.found) == ("fail", f"{tmp_path.anchor} is not there")


# Help


def test_help_starts_without_what_is_heavy():
    code = "import sys, localgraphrag.cli as c\nsys.argv = ['x', '--help']\ntry: c.main()\nexcept SystemExit: pass\n"
    code += "print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stderr.split()}
    heavy = {"asyncio", "jinja2", "llama_cpp", "numpy", "outlines", "platformdirs", "pydantic", "rich", "sqlite3"}
    assert loaded & heavy == set()
    assert "Usage: localgraphrag" in done.stdout


def test_every_verb_is_there_and_its_help_is_documented():
    done = subprocess.run([sys.executable, "-m", "localgraphrag", "--help"], capture_output=True, text=True, check=True)
    assert [verb for verb in VERBS if f"  {verb} " not in done.stdout] == []


def test_every_verb_is_one_of_the_library():
    """`demo` and `lab` are of the command line alone: their parts are `demo.open_project` and Jupyter's own."""
    names = {command.name or command.callback.__name__ for command in cli.app.registered_commands} - {"demo", "lab"}
    assert names >= set(VERBS) - {"demo", "models"}
    assert [name for name in names if not callable(getattr(Project, name, None))] == []
    verbs = {command.name for command in cli.models_app.registered_commands}
    assert verbs == set(models.__all__) - {"Model"}
    assert all(callable(getattr(models, verb)) for verb in verbs)


def test_models_of_the_library(monkeypatch, tmp_path):
    monkeypatch.setenv("LOCALGRAPHRAG_MODELS", str(tmp_path))
    (tmp_path / "mine.gguf").write_bytes(b"GGUF")
    listed = {model.name: model for model in models.list()}
    assert [name for name, model in listed.items() if model.default] == ["qwen2.5-coder-1.5b", "all-minilm-l6-v2"]
    assert (listed["mine"].own, listed["mine"].here, listed["mine"].bytes) == (True, True, 4)
    assert not listed["qwen2.5-coder-1.5b"].here
    assert models.path() == tmp_path
    with pytest.raises(errors.ModelMissingError, match="models pull qwen2.5-coder-1.5b"):
        models.path("qwen2.5-coder-1.5b")


def test_a_download_tells_the_time_that_is_left(monkeypatch):
    told, now = [], iter([0.0, 0.0, 10.0, 10.0, 20.0, 20.0])
    monkeypatch.setattr(cli_models.time, "monotonic", lambda: next(now))
    view = console.ProgressView()
    monkeypatch.setattr(view, "update", lambda *arguments: told.append(arguments))
    report = cli_models._bytes_into(view)
    for done in (500_000_000, 600_000_000, 1_000_000_000):  # it goes on where it broke off
        report("m.gguf from the hub", done, 1_000_000_000)
    assert [arguments[3] for arguments in told] == ["MB", "MB, 40 s left", "MB"]


def test_docs_are_the_programs_own_help(monkeypatch):
    monkeypatch.syspath_prepend(str(REPO / "scripts"))
    import cli_docs

    assert cli_docs.TARGET.read_text(encoding="utf-8") == cli_docs.render(), "run `make docs`"


def test_docs_show_the_help_that_is_printed(run, monkeypatch):
    monkeypatch.syspath_prepend(str(REPO / "scripts"))
    import cli_docs

    assert "-h, --help" in run("models", "add", "--help")[1]
    sections = cli_docs.render().split("\n## ")[1:]
    assert [section.split("\n")[0] for section in sections if "-h, --help" not in section] == []
    assert any(section.startswith("localgraphrag models add\n") for section in sections)


# What is printed


def test_a_marked_passage_keeps_its_words_and_says_what_is_left_out(capsys):
    text = "one two three " * 50 + "THE WORDS" + " four five six" * 50
    start = text.index("THE")
    console.write_marked(text, [(start, start + 9)], around=30)
    out = capsys.readouterr().out
    assert "⟦THE WORDS⟧" in out
    assert out.startswith("… ")
    assert out.endswith(" …\n")
    assert len(out) < 120
    console.write_marked("short", [])
    assert capsys.readouterr().out == "short\n"


def test_tables_line_up_and_put_numbers_to_the_right(capsys):
    console.write_table(("name", "n"), [("a", 5), ("long", 12345)])
    assert capsys.readouterr().out == "name       n\na          5\nlong  12,345\n"


def test_a_stage_of_reports_tells_first_what_it_takes_and_that_once(capsys):
    from localgraphrag.cli import _into
    from localgraphrag.progress import Progress

    with console.ProgressView() as view:
        told = _into(view)
        told(Progress("report", 0, 4, "up to 4 reports for C1"))
        told(Progress("report", 0, 4, "up to 4 reports for C1"))
        told(Progress("report", 0, 4, "c-1: 3 tokens read", 3, 1.0))
        told(Progress("extract", 0, 4, "another detail"))
    err = capsys.readouterr().err
    assert err.count("up to 4 reports for C1\n") == 1 and "tokens read" not in err and "another" not in err


def test_progress_is_plain_lines_where_nobody_watches(capsys):
    with console.ProgressView() as view:
        for done in range(101):
            view.update("extract", done, 100, "5 tokens/s")
    err = capsys.readouterr().err
    assert err == "extract: 0/100 5 tokens/s\nextract: 100/100 5 tokens/s\n"
