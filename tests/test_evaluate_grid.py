"""The grid and the steps on a whole project: batches, resuming, files, failures; and the smallest real model."""

from __future__ import annotations

import errno
import json
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
import workbench
from typer.testing import CliRunner

from localgraphrag import Project, evaluate
from localgraphrag.cli import app
from localgraphrag.config import models_folder
from localgraphrag.embed import HashEmbedder
from localgraphrag.errors import ConfigError, ModelError, StoreFullError
from localgraphrag.evaluate import Sizes, steps
from localgraphrag.evaluate.judge import METRICS
from localgraphrag.evaluate.records import plain, read_json, read_rows, write_rows

TINY = models_folder() / "SmolLM2-135M-Instruct.Q4_1.gguf"
QUESTIONS = [{"id": "one", "question": "Who wrote to whom?"}, {"id": "two", "question": "What was the work about?"}]
CONDITIONS = ["C0", "TS", "SS"]


def reply(messages, request):
    """The workbench's model; it can also list, judge and check."""
    if request.key.startswith("extract "):
        return workbench.reply(messages, request)
    if hasattr(request.output, "pattern"):
        return "yes"
    declared = json.loads(request.output.schema)
    names = set(declared.get("properties", ()))
    if names & {"personas", "tasks", "questions"}:
        (what,) = names
        words = [
            f"{what} {len(messages[-1].content)} number {i}" for i in range(declared["properties"][what]["minItems"])
        ]
        shaped = {"personas": lambda w: {"who": w, "wants": w}, "questions": lambda w: w + "?"}.get(what, str)
        return json.dumps({what: [shaped(w) for w in words]}, separators=(",", ":"))
    if names == {"sentence"}:
        return '{"sentence":"Ada wrote to Byron."}'
    if names == {"claims"}:
        return '{"claims":["Ada wrote to Byron."]}'
    return workbench.reply(messages, request)


@pytest.fixture
def project(tmp_path):
    made = workbench.open_project(tmp_path / "project", reply)
    made.index(workbench.write_corpus(tmp_path / "papers"))
    write_rows(made.folder / "evaluation" / "questions.jsonl", QUESTIONS)
    made.engine.requests.clear()
    return made


def rows_of(project, name):
    return read_rows(project.folder / "evaluation" / f"{name}.jsonl")


def test_the_answers_are_those_of_a_query(project):
    found = evaluate.run(project, conditions=CONDITIONS)
    assert list(found.conditions) == CONDITIONS
    assert found.unanswered == ()
    rows = rows_of(project, "answers")
    assert [(row["condition"], row["question_id"]) for row in rows] == [
        (c, q["id"]) for c in CONDITIONS for q in QUESTIONS
    ]
    asked = len(project.engine.requests)
    for row in rows:
        method, level = {"C0": ("global", 0), "TS": ("ts", 0), "SS": ("ss", 0)}[row["condition"]]
        answer = project.query(row["question"], method, level=level)
        assert (answer.text, answer.record["id"]) == (row["text"], row["answer_id"])
        assert (answer.usage.calls, answer.usage.prompt_tokens) == (row["calls"], row["prompt_tokens"])
        assert [c["number"] for c in row["citations"]] == [c.number for c in answer.citations]
    assert len(project.engine.requests) == asked  # the grid has left nothing to be done
    ledger = found.conditions["TS"]
    for name in ("calls", "prompt_tokens", "read_tokens", "output_tokens"):
        assert getattr(ledger, name) == sum(row[name] for row in rows if row["condition"] == "TS") > 0
    assert ledger.seconds == pytest.approx(sum(row["seconds"] for row in rows if row["condition"] == "TS"), abs=0.01)


def test_calls_of_all_questions_go_in_one_batch(project):
    batches = []
    run = project.engine.run

    def counted(requests):
        given = list(requests)
        batches.append(Counter(request.key.split()[0] for request in given))
        return run(given)

    project.engine.run = counted
    evaluate.run(project, conditions=["TS"])
    maps = batches[0]["map"]
    assert maps >= 2 * len(QUESTIONS)  # several batches of texts per question
    assert [dict(batch) for batch in batches if batch] == [{"map": maps}, {"reduce": len(QUESTIONS)}]


def test_again_it_asks_nothing_and_says_the_same(project):
    first = evaluate.run(project, conditions=CONDITIONS)
    before = rows_of(project, "answers")
    project.engine.requests.clear()
    again = evaluate.run(project, conditions=CONDITIONS)
    assert project.engine.requests == []
    assert [one.cached for one in first.conditions.values()] == [0, 0, 0]
    assert [one.cached for one in again.conditions.values()] == [len(QUESTIONS)] * 3
    same = [{k: v for k, v in row.items() if k != "cached"} for row in before]
    assert [{k: v for k, v in row.items() if k != "cached"} for row in rows_of(project, "answers")] == same


def test_stopped_it_goes_on(project):
    whole = workbench.reply
    left = iter([None] * 5)

    def stopping(messages, request):
        if next(left, "stop") == "stop":
            raise KeyboardInterrupt
        return whole(messages, request)

    project.engine.answer = stopping
    with pytest.raises(KeyboardInterrupt):
        evaluate.run(project, conditions=CONDITIONS)
    done = len(project.engine.requests) - 1
    project.engine.answer = whole
    project.engine.requests.clear()
    evaluate.run(project, conditions=CONDITIONS)
    calls = sum(row["calls"] for row in rows_of(project, "answers"))
    assert done == 5
    assert len(project.engine.requests) == calls - done


def test_a_failure_is_told_and_the_others_go_on(project):
    evaluate.run(project, conditions=["TS"])
    evaluated = {(row["condition"], row["question_id"]) for row in rows_of(project, "answers")}
    assert ("TS", "one") in evaluated

    def failing(messages, request):
        if request.key.startswith("answer") and "Who wrote" in request.prompt:
            raise ModelError("out of order")
        return reply(messages, request)

    project.engine.answer = failing
    found = evaluate.run(project, conditions=["SS"])
    (lost,) = found.unanswered
    assert (lost.question_id, lost.condition) == ("one", "SS")
    assert "out of order" in lost.reason
    assert (found.conditions["SS"].answers, found.conditions["SS"].failed) == (1, 1)
    now = {(row["condition"], row["question_id"]) for row in rows_of(project, "answers")}
    assert now == evaluated | {("SS", "two")}


def test_questions_of_ones_own(project, tmp_path):
    own = tmp_path / "own.jsonl"
    write_rows(own, [{"question": "Who was Ada?", "kind": "fact"}])
    found = evaluate.run(project, own, ["SS"])
    assert found.questions == 1
    (row,) = rows_of(project, "answers")
    assert [q["question"] for q in rows_of(project, "questions")] == [
        *(q["question"] for q in QUESTIONS),
        "Who was Ada?",
    ]
    assert row["question_id"] == rows_of(project, "questions")[-1]["id"]
    write_rows(own, [{"id": "x", "question": "Who?"}, {"id": "x", "question": "What?"}])
    with pytest.raises(ConfigError, match="more than one question with the id x"):
        evaluate.run(project, own)


def test_answers_to_reworded_questions_leave_the_file(project):
    evaluate.run(project, conditions=["SS", "TS"])
    write_rows(project.folder / "evaluation" / "questions.jsonl", [{**QUESTIONS[0], "question": "Who wrote at all?"}])
    evaluate.run(project, conditions=["SS"])
    assert [(row["condition"], row["question"]) for row in rows_of(project, "answers")] == [("SS", "Who wrote at all?")]


def test_a_method_that_there_is_not_is_refused(project):
    with project.asking() as asking, pytest.raises(ConfigError, match="no method 'drift'. Methods: global, ts, ss"):
        asking.answer("Who wrote?", "drift", 0, 0)
    assert project.engine.requests == []


def test_a_full_disk_leaves_the_answers_that_were_there(project, monkeypatch):
    evaluate.run(project, conditions=["SS"])
    before = rows_of(project, "answers")

    def full(self, text, **more):
        raise OSError(errno.ENOSPC, "No space left on device")  # names no file, as a write does not

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(StoreFullError, match=r"answers.jsonl cannot be written: No space left.*Free some space"):
        evaluate.run(project, conditions=["TS"])
    monkeypatch.undo()
    assert rows_of(project, "answers") == before
    assert list((project.folder / "evaluation").glob("*.new")) == []


def test_what_cannot_be_run_is_refused(project):
    with pytest.raises(ConfigError, match="no condition"):
        evaluate.run(project, conditions=["C9"])
    write_rows(project.folder / "evaluation" / "questions.jsonl", [])
    with pytest.raises(ConfigError, match="no question"):
        evaluate.run(project)


def test_without_an_embedder_the_others_are_answered(project, monkeypatch):
    monkeypatch.setenv("LOCALGRAPHRAG_EMBEDDER", "not-here")
    lacking = Project.open(project.folder, engine=project.engine, **workbench.SETTINGS)
    evaluate.run(project, conditions=["SS"])
    there = rows_of(project, "answers")
    found = evaluate.run(lacking, conditions=["TS", "SS"])
    assert [row for row in rows_of(project, "answers") if row["condition"] == "SS"] == there
    assert found.conditions["TS"].answers == 2
    assert [lost.condition for lost in found.unanswered] == ["SS", "SS"]
    assert "not-here" in found.unanswered[0].reason


def test_all_steps_leave_their_files_and_cost_nothing_twice(project):
    evaluate.write_questions(project, "Letters.", Sizes(1, 2, 1))
    assert len(rows_of(project, "questions")) == len(QUESTIONS) + 2
    evaluate.run(project, conditions=CONDITIONS)
    judged = evaluate.judge_answers(project, repeats=2)
    claimed = evaluate.measure_claims(project)
    assert judged.judge == project.engine.identity
    assert judged.verdicts == len(rows_of(project, "verdicts"))
    assert set(claimed.conditions) == set(CONDITIONS)
    assert claimed.conditions["TS"].faithfulness == 1.0
    assert all(row["error"] == "" for row in rows_of(project, "claims"))
    kept = {name: rows_of(project, name) for name in ("questions", "verdicts", "claims")}
    project.engine.requests.clear()
    evaluate.write_questions(project, "Letters.", Sizes(1, 2, 1))
    evaluate.judge_answers(project, repeats=2)
    evaluate.measure_claims(project)
    assert project.engine.requests == []
    assert {name: rows_of(project, name) for name in kept} == kept
    with project.store() as store:
        assert {"questions", "map", "judge", "claims", "support"} <= set(store.spent("query"))
    assert project.verify() == []
    assert evaluate.write_report(project).exists()


def test_another_judge_is_recorded_and_asked_anew(project):
    evaluate.run(project, conditions=["TS", "SS"])
    evaluate.judge_answers(project, repeats=2)
    other = workbench.ScriptedEngine(reply, "other")
    found = evaluate.judge_answers(project, repeats=2, engine=other)
    assert found.judge == "scripted:other"
    assert {row["judge"] for row in rows_of(project, "verdicts")} == {"scripted:workbench", "scripted:other"}
    assert other.requests or not any(row["called"] for row in rows_of(project, "verdicts"))
    assert (found.others, found.verdicts) == (("scripted:workbench",), len(rows_of(project, "verdicts")) // 2)
    page = evaluate.write_report(project).read_text(encoding="utf-8")
    assert "Judge: scripted:other." in page


def test_what_other_runs_have_judged_and_taken_apart_stays(project):
    evaluate.run(project, conditions=CONDITIONS)
    evaluate.judge_answers(project, repeats=4)
    evaluate.measure_claims(project)
    before, claims = rows_of(project, "verdicts"), rows_of(project, "claims")
    found = evaluate.judge_answers(project, metrics=["directness"], conditions=["TS", "SS"], repeats=2)
    claimed = evaluate.measure_claims(project, conditions=["SS"])
    assert rows_of(project, "verdicts") == before
    assert rows_of(project, "claims") == claims
    assert (set(found.metrics), found.verdicts) == (set(METRICS), len(before))
    assert set(claimed.conditions) == set(CONDITIONS)


def test_verdicts_and_claims_on_earlier_answers_are_left_out_and_counted(project):
    evaluate.run(project, conditions=["TS", "SS"])
    whole = evaluate.judge_answers(project, repeats=2)
    evaluate.measure_claims(project)
    path = project.folder / "evaluation" / "answers.jsonl"
    answers = rows_of(project, "answers")
    reworded = {**answers[0], "answer_id": "", "text": "Another text. [1]"}
    write_rows(path, [reworded, *answers[1:]])
    found = evaluate.judge_answers(project, metrics=["diversity"], repeats=2)
    assert found.outdated == 3 * 2  # of the other metrics, on one question
    assert found.verdicts == whole.verdicts - found.outdated
    claimed = evaluate.measure_claims(project, conditions=["SS"])
    assert claimed.outdated == 1
    assert claimed.conditions["TS"].answers == 1
    page = evaluate.write_report(project).read_text(encoding="utf-8")
    assert "6 verdicts are left out" in page


def prefers_ts(messages, request):
    """A judge for whom more text is better, and whose claims are as many as there are sentences."""
    if '"winner"' in getattr(request.output, "schema", ""):
        read = messages[1].content.split("First answer:\n")[1].split("\n\nSecond answer:\n")
        return json.dumps(
            {"reason": "More.", "winner": "first" if len(read[0]) > len(read[1]) else "second"}, separators=(",", ":")
        )
    if "claims" in getattr(request.output, "schema", ""):
        text = next(m.content for m in messages if "Sentence: " in m.content).split("Sentence: ")[1].split("\n")[0]
        return json.dumps({"claims": [f"It says {len(text)} {text[:90]}"]}, separators=(",", ":"))
    return reply(messages, request)


def test_claims_and_verdicts_agree_in_either_order(project):
    evaluate.run(project, conditions=["TS", "SS"])
    path = project.folder / "evaluation" / "answers.jsonl"
    cited = rows_of(project, "answers")[0]["citations"]
    texts = {"TS": "Ada wrote. Byron read. Clara slept. [1]", "SS": "Ada wrote. [1]"}
    write_rows(
        path, [{**row, "text": texts[row["condition"]], "citations": cited} for row in rows_of(project, "answers")]
    )
    project.engine.answer = prefers_ts
    claimed = evaluate.measure_claims(project)
    assert claimed.agreement == {}
    evaluate.judge_answers(project, repeats=2)
    first = read_json(project.folder / "evaluation" / "claims.json")
    again = evaluate.measure_claims(project)
    assert first["agreement"] == plain(again.agreement)
    assert first["agreement"]["comprehensiveness"] == {"rate": 1.0, "pairs": 2}
    assert first["took"] == plain(claimed.took)  # of the run that found the claims


def test_each_step_tells_what_it_took(project):
    made, _, _ = evaluate.write_questions(project, "Letters.", Sizes(1, 2, 1))
    evaluate.run(project, conditions=["TS", "SS"])
    judged = evaluate.judge_answers(project, repeats=2)
    claimed = evaluate.measure_claims(project)
    with project.store() as store:
        spent = store.spent("query")
    stages = {"questions": ["questions"], "judgements": ["judge"], "claims": ["claims", "support"]}
    for (name, of), took in zip(stages.items(), (made.took, judged.took, claimed.took), strict=True):
        assert (took.calls, took.output_tokens) == (
            sum(spent[stage].calls for stage in of), sum(spent[stage].output_tokens for stage in of)
        )  # fmt: skip
        assert took.calls > 0
        assert took.seconds > 0
        assert took.stored + took.failed < took.units
        assert read_json(project.folder / "evaluation" / f"{name}.json")["took"] == plain(took)
    again = evaluate.judge_answers(project, repeats=2).took
    assert (again.calls, again.units, again.stored) == (0, judged.took.units, judged.took.units)
    page = evaluate.write_report(project).read_text(encoding="utf-8")
    shown = page.split('<section id="took">')[1].split("</section>")[0]
    assert shown.count("<td>judge</td>") == 2
    assert f'<a href="#judged">{judged.took.calls}</a>' in shown


def test_an_unknown_condition_is_refused(project):
    evaluate.run(project, conditions=["TS"])
    with pytest.raises(ConfigError, match="no condition with answers C0, C9. There are: TS"):
        evaluate.measure_claims(project, conditions=["TS", "C9", "C0"])


def test_the_same_id_with_other_words_is_refused(project, tmp_path):
    write_rows(tmp_path / "own.jsonl", [{"id": "one", "question": "Who wrote at all?"}])
    with pytest.raises(ConfigError, match="asks one in other words than"):
        evaluate.run(project, tmp_path / "own.jsonl", ["SS"])
    assert rows_of(project, "questions") == QUESTIONS
    assert project.engine.requests == []
    write_rows(tmp_path / "own.jsonl", [{**QUESTIONS[0], "kind": "fact"}])
    assert evaluate.run(project, tmp_path / "own.jsonl", ["SS"]).questions == 1


def test_what_is_made_of_an_answer_goes_with_its_documents(project, tmp_path):
    evaluate.run(project, conditions=["TS", "SS"])
    evaluate.judge_answers(project, repeats=2, metrics=["diversity"])
    evaluate.measure_claims(project)
    stages = "SELECT count(*) FROM units WHERE stage IN ('judge', 'claims', 'support')"
    with project.store() as store:
        assert store.scalar(stages) > 0
    for paper in list((tmp_path / "papers").iterdir())[1:]:
        paper.unlink()
    project.index(tmp_path / "papers")
    with project.store() as store:
        assert store.scalar(stages) == 0
    with pytest.raises(ConfigError, match="no longer in the index"):
        evaluate.judge_answers(project)


def test_when_every_call_fails_nothing_is_written(project):
    evaluate.run(project, conditions=["TS", "SS"])

    def never(messages, request):
        raise ModelError("out of order")

    project.engine.answer = never
    with pytest.raises(ModelError, match="claims failed"):
        evaluate.measure_claims(project)
    assert not (project.folder / "evaluation" / "claims.jsonl").exists()

    def unchecked(messages, request):
        if request.key.startswith("support"):
            raise ModelError("out of order")
        return reply(messages, request)

    project.engine.answer = unchecked
    with pytest.raises(ModelError, match="calls for support failed"):
        evaluate.measure_claims(project)
    assert not (project.folder / "evaluation" / "claims.jsonl").exists()


def test_the_commands_print_what_the_steps_return(project, monkeypatch):
    import localgraphrag.cli_evaluate as commands

    monkeypatch.setattr(commands, "_open", lambda folder, **_: project)
    folder = str(project.folder)
    runs = [
        ["questions", "--demo", "--personas", "1", "--tasks", "1", "--per-task", "2"],
        ["run", "--conditions", "TS,SS"], ["judge", "--repeats", "2", "--metrics", "diversity,directness"], ["claims"],
    ]  # fmt: skip
    for arguments in runs:
        done = CliRunner().invoke(app, ["evaluate", *arguments, "--project", folder])
        assert done.exit_code == 0, done.output
        as_json = CliRunner().invoke(app, ["evaluate", *arguments, "--project", folder, "--json"])
        assert as_json.exit_code == 0, as_json.output
        assert json.loads(as_json.stdout[as_json.stdout.index("{") :])
    with pytest.raises(ConfigError, match="description"):
        CliRunner().invoke(app, ["evaluate", "questions", "-p", folder], catch_exceptions=False)


def test_the_command_asks_another_judge(project, monkeypatch):
    import localgraphrag.cli_evaluate as commands

    evaluate.run(project, conditions=["TS", "SS"])
    opened = []

    def opening(folder, **given):
        opened.append(given)
        return project

    monkeypatch.setattr(commands, "_open", opening)
    arguments = ["judge", "--repeats", "2", "--judge-model", "a-larger-one", "--project", str(project.folder)]
    done = CliRunner().invoke(app, ["evaluate", *arguments])
    assert done.exit_code == 0, done.output
    assert opened == [{"model": "a-larger-one"}]


def test_the_commands_print_ledger_and_denominators(project, monkeypatch):
    import localgraphrag.cli_evaluate as commands

    monkeypatch.setattr(commands, "_open", lambda folder, **_: project)
    evaluate.run(project, conditions=["TS", "SS"])
    for command in ("judge", "claims"):
        done = CliRunner().invoke(app, ["evaluate", command, "--project", str(project.folder)])
        assert "What this run took" in done.stdout
        assert "tokens in" in done.stdout
    assert "by word" in done.stdout
    assert "not checked" in done.stdout
    assert "Claims found and checked by scripted:workbench." in done.output


@pytest.mark.model
@pytest.mark.skipif(not TINY.exists(), reason=f"there is no {TINY}")
def test_whatever_the_smallest_model_says_can_be_read(tmp_path):
    """It understands nothing; the grammar sees to it that every reply is one, and a reply that was cut is none."""
    folder = tmp_path / "project"
    with workbench.open_project(folder) as made:
        made.index(workbench.write_corpus(tmp_path / "papers", documents=2, sentences=2))
    answers = {"C0": "Ada wrote to Byron in 1800. [1]", "SS": "Clara wrote of the dam. It broke. [1]"}
    with made.store() as store:
        chunk, document = store.rows("SELECT id, document_id FROM chunks ORDER BY id")[0]
    source = {"chunk_id": chunk, "document_id": document, "start": 0, "end": 5}
    cited = [{"number": 1, "kind": "chunk", "id": chunk, "title": "t", "records": [], "sources": [source]}]
    write_rows(folder / "evaluation" / "questions.jsonl", QUESTIONS[:1])
    write_rows(
        folder / "evaluation" / "answers.jsonl",
        [
            {"question_id": "one", "condition": c, "answer_id": "", "text": text, "citations": cited}
            for c, text in answers.items()
        ],
    )
    settings = workbench.SETTINGS | {"model": str(TINY), "slots": 2, "threads": 2}
    with Project.open(folder, embedder=HashEmbedder(), **settings) as real:
        errors = []
        try:
            made_questions, _, _ = steps.write_questions(real, "Letters of two poets.", Sizes(1, 1, 2))
            assert all(row["question"].endswith(("?", "？", "؟")) for row in made_questions.rows)
        except ModelError as error:  # all its lists were cut
            errors.append(str(error))
        for step, file in (
            (partial(steps.judge_answers, repeats=2, metrics=["diversity"]), "verdicts"),
            (steps.measure_claims, "claims"),
        ):
            try:
                step(real)
                errors += [row["error"] for row in rows_of(real, file) if row["error"]]
            except ModelError as error:  # all were
                errors.append(str(error))
        assert all("was cut" in error for error in errors)
