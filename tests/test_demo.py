"""The demo corpus keeps what its key says about it."""

import json
import re
import shlex
import sys
from collections import Counter
from functools import lru_cache

import pytest

from localgraphrag import Project, RecordedEmbedder, RecordedEngine, cli, demo, embed, llm
from localgraphrag.documents import read_documents
from localgraphrag.errors import ConfigError

KEY = demo.facts()


@lru_cache
def texts() -> dict[str, list[str]]:
    """The texts of each file: one, or one per row of the CSV."""
    reading = read_documents([demo.corpus_folder()])
    assert not reading.skipped
    found: dict[str, list[str]] = {}
    for document in reading.documents:
        (source,) = document.sources
        found.setdefault(source.split("#")[0], []).append(document.text)
    return found


def folded(*names: str) -> str:
    return " ".join(" ".join(texts()[name]) for name in names).casefold()


def tokens(text: str) -> int:
    """About as many as a GPT-like tokenizer makes of English: words in pieces of at most six letters, and marks."""
    return len(re.findall(r"\w{1,6}|[^\w\s]", text))


def test_sizes():
    counts = [tokens(text) for rows in texts().values() for text in rows]
    assert len(texts()) == 16
    assert 5500 <= sum(counts) <= 7000
    assert 2 <= sum(count > 600 for count in counts) <= 4, "a few documents make more than one chunk"
    assert {name.rsplit(".", 1)[1] for name in texts()} == {"txt", "md", "html", "csv", "docx"}


def test_every_document_is_used_by_the_key():
    named = {name for item in (*KEY.themes, *KEY.contradictions, *KEY.facts) for name in item.documents}
    assert named == set(texts())


@pytest.mark.parametrize("item", [*KEY.people, *KEY.organizations, *KEY.places], ids=lambda item: item.name)
def test_names_recur(item):
    assert sum(item.name.casefold() in folded(name) for name in texts()) >= 2
    assert all(alias.casefold() in folded(*texts()) for alias in item.aliases)


def test_there_are_enough_of_each_kind():
    assert len(KEY.people) >= 10 and len(KEY.organizations) >= 6 and len(KEY.themes) >= 4
    assert len(KEY.contradictions) >= 2
    least = {"fact": 12, "multi_hop": 8, "comparison": 4, "null": 5, "global": 6}
    assert all(len(KEY.of_type(kind)) >= number for kind, number in least.items())
    ids = Counter(fact.id for fact in KEY.facts)
    assert max(ids.values()) == 1


@pytest.mark.parametrize("theme", KEY.themes, ids=lambda theme: theme.name)
def test_a_theme_is_in_several_documents_and_named_in_none(theme):
    assert len(set(theme.documents)) >= 4
    everything = folded(*texts())
    for phrase in (theme.name, *theme.unsaid):
        assert not re.search(rf"\b{re.escape(phrase.casefold())}", everything), phrase
    for term in theme.terms:
        assert term.casefold() in folded(*theme.documents), term
    for name in theme.documents:
        assert any(term.casefold() in folded(name) for term in theme.terms), name


@pytest.mark.parametrize("fact", KEY.facts, ids=lambda fact: fact.id)
def test_a_fact_is_in_its_documents(fact):
    if fact.type == "null":
        assert not fact.must_mention and not fact.documents
        return
    assert fact.must_mention and all(fact.must_mention)
    assert len(fact.documents) >= {"multi_hop": 2, "global": 4}.get(fact.type, 1)
    for word in (word for group in fact.must_mention for word in group):
        assert word.casefold() in folded(*fact.documents), word
    assert fact.answered_by(fact.answer), "the model answer passes its own test"


@pytest.mark.parametrize("fact", KEY.facts, ids=lambda fact: fact.id)
def test_evidence_is_quoted_from_each_document_and_a_hop_needs_them_all(fact):
    if fact.type in ("null", "global"):
        assert not fact.evidence
        return
    assert len(fact.evidence) == len(fact.documents)
    for name, quoted in zip(fact.documents, fact.evidence, strict=True):
        holders = [other for other in fact.documents if quoted.casefold() in folded(other)]
        assert holders == [name], quoted


def test_the_command_runs_to_its_end_with_what_the_default_model_said(tmp_path, monkeypatch, capsys):
    """Behind the walls of conftest.py: no network, and a home that is empty. Only the model's replies are recorded."""
    monkeypatch.setattr(llm, "load_engine", lambda *_arguments: RecordedEngine(demo.recording()))
    monkeypatch.setattr(embed, "load_embedder", lambda *_arguments: RecordedEmbedder(demo.recording()))
    monkeypatch.setattr(Project, "_check_model", lambda _project: None)  # the default's file need not be here
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["localgraphrag", *arguments])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        return stopped.value.code or 0, *capsys.readouterr()

    code, out, err = run("demo")
    assert code == 0, err
    assert "extract: 21/21" in err and "answer: " in err
    said, next_steps = out.split(f"\n{demo.question()}\n")[1].split("The index is ")
    assert re.findall(r"\[\d+(?:, \d+)*\]", said), "the answer is cited"
    tried = [shlex.split(line) for line in next_steps.splitlines() if line.startswith("  localgraphrag ")]
    assert [arguments[1] for arguments in tried] == ["query", "show", "compare"]
    assert "⟦" in run(*tried[1][1:])[1], "what is cited leads to marked text"
    assert (tmp_path / "demo-project" / "index.db").exists()
    heard = run("demo", "--json")[1]
    assert json.loads(heard)["summary"]["added"] == 0, "run again, it does nothing but tell"


def test_quoted_sentences_are_marked_where_they_stand():
    with demo.open_project() as project:
        project.index(demo.corpus_folder())
        links = project.show("C0").links
        reports = [project.show(link.id) for link in links]
        claim = project.show(next(link.id for shown in reports for link in shown.links if link.kind == "claim"))
    for shown in (*reports, claim):
        told = " ".join(shown.text.split())
        marked = [passage.text[start:end] for passage in shown.passages for start, end in passage.spans]
        assert marked
        assert all(" ".join(text.split()) in told for text in marked)


def test_no_text_looks_like_a_citation_or_a_control_token():
    for rows in texts().values():
        for text in rows:
            assert not re.search(r"\[[^\]]*\]|<\|", text)


def test_weekdays_are_those_of_the_calendar():
    from datetime import datetime

    pattern = r"(Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday),? (\d{1,2} [A-Z][a-z]+ \d{4})"
    found = re.findall(pattern, " ".join(text for rows in texts().values() for text in rows))
    assert len(found) >= 6
    assert all(datetime.strptime(date, "%d %B %Y").strftime("%A") == day for day, date in found)


def test_a_broken_key_is_refused(tmp_path):
    path = tmp_path / "facts.toml"
    path.write_text('title = "x"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match="not a key to a corpus"):
        demo.facts(path)
    heads = 'title="x"\ndescription="x"\npeople=[]\norganizations=[]\nplaces=[]\nthemes=[]\ncontradictions=[]\n'
    fact = '[[facts]]\nid="a"\ntype="riddle"\nquestion="?"\nanswer="."\nmust_mention=[]\ndocuments=[]\nevidence=[]\n'
    path.write_text(heads + fact, encoding="utf-8")
    with pytest.raises(ConfigError, match="riddle"):
        demo.facts(path)
