"""Claims: sentences with their context, three steps, each claim once, and checked against what is cited."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from localgraphrag.chunks import Chunk
from localgraphrag.embed import HashEmbedder
from localgraphrag.errors import ModelError
from localgraphrag.evaluate.claims import (
    CHARACTERS,
    EVIDENCE_TOKENS,
    MOST_CLAIMS,
    Claim,
    Spoken,
    Stated,
    claim_units,
    claims_found,
    evidence,
    spoken,
    support_unit,
    unique_claims,
)
from localgraphrag.evaluate.claims_summary import THRESHOLDS, claim_row, summarize_claims
from localgraphrag.evaluate.near import Near
from localgraphrag.llm.scripted import ScriptedEngine
from localgraphrag.llm.units import EngineRunner, Outcome, run_all
from localgraphrag.prompts import Prompts

GOLDEN = Path(__file__).parent / "golden"
TEXT = (
    "Ines Falk bought the mill in 1931. She sold it in 1940. One should mourn that.\n\nWho knows why. [1][3]\n\n"
    "The quay sank, and the council paid. [2]"
)


def answer(text=TEXT, question="q1", condition="C0", cited=(1, 2, 3)) -> dict:
    citations = [
        {"number": n, "kind": "chunk", "id": f"c{n}", "sources": [{"chunk_id": f"c{n}", "document_id": "d"}]}
        for n in cited
    ]
    return {"question_id": question, "condition": condition, "answer_id": "a", "text": text, "citations": citations}


def sentence(text="The mill burned.", paragraph="", cites=(1,), number=1) -> Spoken:
    return Spoken("q1", "What burned?", "C0", number, "", text, "", paragraph or text, cites)


def claim(text) -> Claim:
    return Claim(text, sentence(text))


def chunk(name, text, tokens=600) -> Chunk:
    return Chunk(name, "d", "Letter", 0, 0, len(text), text, tokens)


def reader(messages, request):
    """Checks what has a figure or a name; puts "She" clearly; splits at "and"."""
    first = next(message.content for message in messages if "Sentence: " in message.content)
    said = first.split("Sentence: ")[1].split("\n")[0]
    if hasattr(request.output, "pattern"):
        return "no" if said.startswith(("One", "Who")) else "yes"
    if "sentence" in json.loads(request.output.schema)["properties"]:
        return json.dumps({"sentence": said.replace("She", "Ines Falk")}, separators=(",", ":"))
    clear = json.loads(next(m.content for m in messages if m.content.startswith('{"sentence"')))["sentence"]
    return json.dumps({"claims": [part.strip(" .") + "." for part in clear.split(", and")]}, separators=(",", ":"))


def taken_apart(answer_row, reply=reader, engine=None):
    said = spoken("What became of the mill?", answer_row)
    engine = engine or ScriptedEngine(reply)
    return said, run_all(EngineRunner(engine), claim_units(said, Prompts())), engine


def test_sentences_with_their_context_and_the_citations_of_their_paragraph():
    said = spoken("What became of the mill?", answer())
    assert [one.text for one in said] == [
        "Ines Falk bought the mill in 1931.", "She sold it in 1940.", "One should mourn that.", "Who knows why.",
        "The quay sank, and the council paid.",
    ]  # fmt: skip
    assert [one.cites for one in said] == [(), (), (), (1, 3), (2,)]
    assert said[1].before == "Ines Falk bought the mill in 1931."
    assert said[1].after == "One should mourn that."
    assert said[4].before == "She sold it in 1940. One should mourn that. Who knows why."
    assert len({one.name for one in said}) == 5
    assert not any("[" in one.text + one.before + one.after + one.paragraph for one in said)


def test_a_refusal_claims_nothing():
    assert spoken("Why?", answer("None of the 9 reports helps.", cited=())) == []


def test_three_steps_and_no_more_than_needed():
    said, outcomes, engine = taken_apart(answer())
    assert [claim.text for claim in claims_found(said, outcomes)] == [
        "Ines Falk bought the mill in 1931.", "Ines Falk sold it in 1940.", "The quay sank.", "the council paid.",
    ]  # fmt: skip
    assert [outcomes[one.name].value.checkable for one in said] == [True, True, False, False, True]
    assert len(engine.requests) == 3 + 3 + 1 + 1 + 3
    assert all(not request.prefix for request in engine.requests if "Sentence: " not in request.prompt)


class Cut(ScriptedEngine):
    """Its replies of one step were cut and closed: "sentence" put clearly, or "claims"."""

    def __init__(self, step, finish):
        super().__init__(reader)
        self.step, self.why = step, finish

    def _complete(self, history, request):
        reply = super()._complete(history, request)
        return replace(reply, finish=self.why) if reply.text.startswith(f'{{"{self.step}"') else reply


@pytest.mark.parametrize("finish", ["cap", "repeat"])
def test_a_sentence_whose_clear_form_was_cut_is_a_failed_call(finish):
    said, outcomes, _ = taken_apart(answer(), engine=Cut("sentence", finish))
    assert [outcomes[one.name].ok for one in said] == [False, False, True, True, False]
    assert claims_found(said, outcomes) == []
    assert claim_row(answer(), said, outcomes, 0, 0, [])["failed"] == 3


def test_a_cut_list_loses_its_last_claim():
    said, outcomes, _ = taken_apart(answer(), engine=Cut("claims", "cap"))
    assert [claim.text for claim in claims_found(said, outcomes)] == ["The quay sank."]
    assert [outcomes[one.name].ok for one in said] == [False, False, True, True, True]  # one claim, and that cut


def test_what_repeats_itself_keeps_what_it_said_first_if_that_is_a_sentence():
    def listing(last):
        def reply(messages, request):
            text = reader(messages, request)
            return f'{{"claims":["The quay sank.","{last}"]}}' if text.startswith('{"claims"') else text

        return reply

    for last, kept in (("The council paid.", 2), ("The cou", 1)):
        engine = Cut("claims", "repeat")
        engine.answer = listing(last)
        said, outcomes, _ = taken_apart(answer("The quay sank, and the council paid. [1]"), engine=engine)
        assert len(claims_found(said, outcomes)) == kept


@pytest.mark.parametrize("letter", ["न", "桥", "𞤀"])
def test_a_sentence_put_clearly_in_any_script_fits_the_cap(letter):
    def reply(messages, request):
        if hasattr(request.output, "pattern"):
            return "yes"
        step = "sentence" if "sentence" in json.loads(request.output.schema)["properties"] else "claims"
        said = letter * 30 if step == "sentence" else [letter * 30]
        return json.dumps({step: said}, separators=(",", ":"), ensure_ascii=False)

    _, _, engine = taken_apart(answer(letter * 30), reply)
    longest = json.dumps({"sentence": letter * CHARACTERS}, ensure_ascii=False)
    assert engine.requests[1].max_tokens >= len(longest.encode())
    assert engine.requests[2].max_tokens >= MOST_CLAIMS * CHARACTERS


def test_what_is_unclear_is_dropped():
    def unclear(messages, request):
        return "yes" if hasattr(request.output, "pattern") else '{"sentence":null}'

    said, outcomes, engine = taken_apart(answer(), unclear)
    assert {outcome.value for outcome in outcomes.values()} == {Stated(True, "", ())}
    assert len(engine.requests) == 2 * len(said)


def test_each_claim_once_by_word_and_by_embedding_but_never_two_figures():
    said = [
        "The mill burned in 1931.",
        "the mill burned, in 1931",
        "In 1931 burned the mill.",
        "The mill burned in 1932.",
    ]
    kept, by_word = unique_claims(map(claim, said), Near(HashEmbedder()))
    assert [one.text for one in kept] == [said[0], said[3]]
    assert by_word == 3
    assert unique_claims([], Near(HashEmbedder())) == ([], 0)


def test_claims_that_differ_in_a_vowel_sign_are_two():
    said = ["नदी का पुल", "नदी की पुल"]
    assert unique_claims(map(claim, said), Near(HashEmbedder()))[1] == 2


def test_evidence_is_what_the_paragraph_cites_nearest_first_within_the_budget():
    chunks = {
        "c1": chunk("c1", "Bread costs more."), "c2": chunk("c2", "The quay sank."),
        "c3": chunk("c3", "Boats and nets."), "c4": chunk("c4", "The quay sank and the council paid."),
    }  # fmt: skip
    near = Near(HashEmbedder())
    citations = answer(cited=(1, 2, 3, 4))["citations"]
    found = evidence(sentence("The quay sank.", cites=(1, 2, 3)), citations, chunks, near)
    assert [one.id for one in found][:1] == ["c2"]
    assert len(found) == EVIDENCE_TOKENS // 600
    assert evidence(sentence(cites=()), citations, chunks, near) == []
    assert evidence(sentence(cites=(9,)), citations, chunks, near) == []
    big = {"c1": chunk("c1", "Long.", tokens=5000)}
    assert [one.id for one in evidence(sentence(), citations, big, near)] == ["c1"]


def test_a_claim_is_put_to_its_passages():
    def careful(messages, request):
        return "yes" if "burned" in messages[1].content else "no"

    engine = ScriptedEngine(careful)
    said = Claim("The mill burned.", sentence())
    for passage, expected in (("The mill burned down.", True), ("Nothing happened.", False)):
        unit = support_unit("n", said, [chunk("c1", passage)], Prompts())
        assert unit.chunks == ("c1",)
        (outcome,) = EngineRunner(engine).run([unit])
        assert outcome.value.supported is expected
    assert "Claim: The mill burned." in engine.requests[0].prompt


def row(question="q1", condition="C0", claims=3, cluster=2, supported=True, error="", failed=0) -> dict:
    listed = [{"text": f"{i}", "sentence": "s", "supported": supported} for i in range(claims)]
    return {
        "question_id": question, "condition": condition, "claims": listed, "extracted": claims + 1, "exact": claims,
        "clusters": {str(t): cluster for t in THRESHOLDS}, "error": error, "failed": failed, "sentences": 2,
    }  # fmt: skip


def test_means_leave_out_what_failed_and_nothing_unchecked_is_scored():
    rows = [row(claims=4), row("q2", claims=2, supported=False), row("q3", claims=1, error="1 of 2 lost", failed=1)]
    rows.append(row("q4", "SS", claims=2, supported=None))
    found = summarize_claims(rows, [], "m", "e").conditions
    assert (found["C0"].answers, found["C0"].claims, found["C0"].failed) == (2, 3.0, 1)
    assert found["C0"].faithfulness == pytest.approx(5 / 7)
    assert (found["C0"].checked, found["C0"].unchecked) == (7, 0)
    assert (found["SS"].faithfulness, found["SS"].unchecked) == (None, 2)
    assert found["SS"].clusters == {"0.5": 2.0, "0.6": 2.0, "0.7": 2.0, "0.8": 2.0}


def test_a_row_counts_failed_calls():
    said, outcomes, _ = taken_apart(answer())
    broken = dict(outcomes)
    lost = broken[said[0].name]
    broken[said[0].name] = Outcome(lost.unit, None, error="out of order")
    found = claims_found(said, broken)
    assert len(found) == 3
    checked = [(found[0], Outcome(lost.unit, None, error="too long")), (found[1], None)]
    made = claim_row(answer(), said, broken, len(found), 3, checked)
    assert made["failed"] == 2
    assert made["error"] == "1 of 5 sentences could not be read: out of order"
    assert [one["supported"] for one in made["claims"]] == [None, None]
    assert made["clusters"]["0.5"] == 2


def verdicts(question, metric, first, second, winner):
    other = {"first": "second", "second": "first", "tie": "tie"}[winner]
    head = {"question_id": question, "metric": metric, "repeat": 1, "error": ""}
    return [
        {**head, "first": first, "second": second, "winner": winner},
        {**head, "first": second, "second": first, "winner": other},
    ]


def test_agreement_counts_pairs_that_both_tell_apart():
    rows = [row("q1", "C0", 5, 4), row("q1", "SS", 2, 1), row("q2", "C0", 1, 3), row("q2", "SS", 4, 3)]
    rows += [row("q3", "C0", 3), row("q3", "SS", 3), row("q4", "C0", 3, error="x"), row("q4", "SS", 1)]
    said = [v for q in ("q1", "q2", "q3", "q4") for v in verdicts(q, "comprehensiveness", "SS", "C0", "second")]
    said += verdicts("q1", "diversity", "C0", "SS", "first") + verdicts("q2", "diversity", "C0", "SS", "first")
    found = summarize_claims(rows, said, "m", "e").agreement
    assert (found["comprehensiveness"].rate, found["comprehensiveness"].pairs) == (0.5, 2)
    assert (found["diversity (clusters at 0.5)"].rate, found["diversity (clusters at 0.5)"].pairs) == (1.0, 1)
    ties = verdicts("q1", "comprehensiveness", "C0", "SS", "tie")
    assert summarize_claims(rows, ties, "m", "e").agreement == {}


def test_a_failed_step_is_an_outcome():
    def never(messages, request):
        raise ModelError("out of order")

    said, outcomes, _ = taken_apart(answer(), never)
    assert {outcome.error for outcome in outcomes.values()} == {"out of order"}
    assert claims_found(said, outcomes) == []


def test_what_the_model_is_asked_is_as_written_down():
    said, _, engine = taken_apart(answer())
    checking = ScriptedEngine(lambda *_: "no")
    unit = support_unit("n", Claim("The mill burned.", said[0]), [chunk("c1", "The mill stands.")], Prompts())
    list(EngineRunner(checking).run([unit]))
    first = checking.requests[0]
    turns = [engine.requests[0].prefix[0].content, *(r.prompt for r in engine.requests[3:6])]
    turns += [*(message.content for message in first.prefix), first.prompt]
    text = "\n=====\n".join(turns) + "\n"
    path = GOLDEN / "evaluate_claims.txt"
    if os.environ.get("WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
