"""Answers from quotations: points are statements of the passages, an answer's sources are found by comparing words."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_search import (
    CHUNKS,
    DOCUMENTS,
    GRAPH,
    HIERARCHY,
    PROMPTS,
    QUESTION,
    Watcher,
    conversation,
    golden,
    make_report,
)

from localgraphrag.attribution import borne_out, supports
from localgraphrag.chunks import Chunk
from localgraphrag.communities import Hierarchy
from localgraphrag.config import Settings
from localgraphrag.embed import HashEmbedder
from localgraphrag.graph import Graph
from localgraphrag.llm.scripted import ScriptedEngine
from localgraphrag.llm.units import EngineRunner
from localgraphrag.search import global_search, text_search, vector_search
from localgraphrag.search.answer import Source
from localgraphrag.search.mapreduce import MOST_READ, Candidate, MapReduce
from localgraphrag.search.nearness import GENERAL, Nearness, generality
from localgraphrag.search.passages import Passage, chunk_passage, split
from localgraphrag.search.reply import (
    HEADING_CHARACTERS,
    Paragraph,
    Written,
    listed,
    read_headed,
    read_quoted_map,
    render,
    statements,
)
from localgraphrag.search.sources import Provenance
from localgraphrag.sentences import is_brief

SETTINGS = Settings(context_window=2000, map_budget=400, map_tokens=200, reduce_budget=400, answer_tokens=200)
LEAKS = "The dam in the valley leaks since the flood."
SINGS = "The choir sings in the mill on Sundays."
REPORTS = {
    "c-dam": make_report("c-dam", "The dam", f"- {LEAKS}\n- Dear Ivo,", "r-ab", chunk_ids=("t0", "t1")),
    "c-choir": make_report("c-choir", "The choir", f"- {SINGS}", "r-cd", chunk_ids=("t2", "t3")),
    "c-top": make_report("c-top", "The valley", "A dam and a choir.", "c-dam"),
}


def dumps(**reply):
    return json.dumps(reply, ensure_ascii=False, separators=(",", ":"))


def model(*paragraphs, points=((LEAKS, 90), (SINGS, 40))):
    """Gives those points that the grammar allows, and then the paragraphs, as (heading, text)."""

    def answer(messages, request):
        if '"heading"' in request.output.schema:
            return dumps(answer=[{"heading": heading, "text": text} for heading, text in paragraphs])
        allowed = json.loads(request.output.schema)["properties"]["points"].get("items", {})
        said = allowed.get("properties", {}).get("sentence", {}).get("enum", [])
        return dumps(points=[{"sentence": text, "score": score} for text, score in points if text in said])

    return ScriptedEngine(answer)


def ask(engine, **more):
    return global_search(
        QUESTION, hierarchy=HIERARCHY, reports=REPORTS, graph=GRAPH, chunks=CHUNKS, settings=SETTINGS, prompts=PROMPTS,
        runner=EngineRunner(engine), level=1, **more,
    )  # fmt: skip


def test_points_are_statements_and_paragraphs_find_their_sources():
    answer = ask(model(("The dam leaks since the flood", "Since the flood the dam leaks."), ("...", SINGS)))
    assert answer.text == f"The dam leaks since the flood\nSince the flood the dam leaks. [1]\n\n* * *\n\n{SINGS} [2]"
    assert [citation.id for citation in answer.citations] == ["c-dam", "c-choir"]
    assert [taken["text"] for taken in answer.record["taken"]] == [LEAKS, SINGS]


def test_a_heading_that_says_more_than_its_text_is_marked_as_the_models_own():
    answer = ask(model(("Faith and loneliness", SINGS), points=((SINGS, 40),)))
    assert answer.text == f"(Faith and loneliness)\n{SINGS} [1]"


@pytest.mark.parametrize(
    "heading",
    [
        "Praise for Ness Valley",
        "Songs of 1912",
        "Praise for Ilse Brandt",
        "The fall of Ivo",
        "Ada leaves",
        "...",
        "(.)",
    ],
)
def test_a_heading_that_names_what_its_text_does_not_is_left_out(heading):
    met = "The mill was sold by Ada to Ivo."
    reply = dumps(answer=[{"heading": heading, "text": SINGS}])
    assert read_headed(reply, [SINGS, met], "", "Ilse Brandt sang.").paragraphs[0].heading == ""


def test_what_no_point_bears_out_is_refused_and_recorded():
    answer = ask(model(("Harvest", "The harvest of barley was plentiful."), ("...", SINGS), points=((SINGS, 40),)))
    assert answer.text == f"{SINGS} [1]"
    assert [p["text"] for p in answer.record["reply"]["refused"]] == ["The harvest of barley was plentiful."]


def test_a_sentence_that_nothing_bears_out_is_cut_from_its_paragraph():
    answer = ask(model(("The choir is a bank", f"{SINGS} It is a bank."), points=((SINGS, 40),)))
    assert answer.text == f"{SINGS} [1]"
    assert [p["text"] for p in answer.record["reply"]["refused"]] == ["It is a bank."]


def test_what_stands_between_sentences_stays_and_short_ones_may_be_quoted():
    said = ["今日は雨が降った。川が増水した。", "Ana did it.", "At -5 degrees it froze."]
    reply = dumps(answer=[{"heading": "-", "text": text} for text in said])
    assert [paragraph.text for paragraph in read_headed(reply, said, "", "").paragraphs] == said


def test_a_name_of_the_example_is_refused():
    answer = ask(model(("...", f"{SINGS} Ilse Brandt sings."), ("...", SINGS), points=((SINGS, 40),)))
    assert answer.text == f"{SINGS} [1]"


def test_where_nothing_is_borne_out_the_points_are_the_answer():
    answer = ask(model(("Harvest", "The harvest of barley was plentiful.")))
    assert answer.text == f"{LEAKS} [1]\n\n{SINGS} [2]"


def test_a_short_answer_is_made_up_by_the_best_points_it_does_not_cite():
    answer = ask(model(("...", SINGS), points=((LEAKS, 90), (SINGS, 80))))
    assert answer.text == f"{SINGS} [1]\n\n{LEAKS} [2]"


def test_a_short_answer_is_not_made_up_by_what_is_far_from_the_question():
    near = ask(model(("...", SINGS), points=((LEAKS, 90), (SINGS, 80))), embedder=Leaning())
    assert near.text == f"{SINGS} [1]\n\n{LEAKS} [2]"
    far = ask(model(("...", LEAKS), points=((LEAKS, 90), (SINGS, 80))), embedder=Leaning())
    assert far.text == f"{LEAKS} [1]" and len(far.record["taken"]) == 2


def test_a_bracket_of_a_document_never_passes_for_a_mark():
    noted = "The dam in the valley leaks since the flood [7]."
    reports = {**REPORTS, "c-dam": make_report("c-dam", "The dam", f"- {noted}", "r-ab", chunk_ids=("t0",))}
    answer = global_search(
        QUESTION, hierarchy=HIERARCHY, reports=reports, graph=GRAPH, chunks=CHUNKS, settings=SETTINGS, prompts=PROMPTS,
        runner=EngineRunner(model(("Harvest", "The harvest of barley was plentiful."), points=((noted, 90),))), level=1,
    )  # fmt: skip
    assert answer.text == "The dam in the valley leaks since the flood (7). [1]"


class Leaning:
    """An embedder to which a text is the nearer to the question, the more often it says "leaks"."""

    identity, dimensions = "leaning", 2

    def embed(self, texts):
        rows = np.array([[1.0, 0.0] if text == QUESTION else [text.count("leaks"), 1.0] for text in texts], np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def taken_of(texts, points, embedder=None):
    """The texts taken where one report says them all and the model gives `points`."""
    said = "\n".join(f"- {text}" for text in texts)
    reports = {**REPORTS, "c-dam": make_report("c-dam", "The dam", said, "r-ab", chunk_ids=("t0",))}
    answer = global_search(
        QUESTION, hierarchy=HIERARCHY, reports=reports, graph=GRAPH, chunks=CHUNKS, settings=SETTINGS, prompts=PROMPTS,
        runner=EngineRunner(model(("...", SINGS), points=points)), level=1, embedder=embedder,
    )  # fmt: skip
    return [point["text"] for point in answer.record["taken"]], answer.record | {
        "paragraphs": len(answer.text.split("\n\n"))
    }


def test_nearness_to_the_question_counts_with_the_score():
    rusty = "The gate of the dam leaks, leaks and rusts away."
    points = ((LEAKS, 40), (rusty, 30), (SINGS, 80))
    by_score, record = taken_of([LEAKS, rusty], points)
    assert by_score == [SINGS, LEAKS, rusty] and record["embedder"] is None
    by_both, record = taken_of([LEAKS, rusty], points, Leaning())
    assert by_both == [rusty, LEAKS, SINGS] and record["embedder"] == "leaning"


class Alike:
    """An embedder to which all that says "dam" is the same, and the question has to do with nothing."""

    identity, dimensions = "alike", 3

    def embed(self, texts):
        rows = [[0, 0, 1] if text == QUESTION else [1, 0, 0] if "dam" in text else [0, 1, 0] for text in texts]
        return np.array(rows, np.float32)


def test_a_point_falls_behind_that_is_like_a_better_one():
    breaks = "The dam of the valley will break next year."
    assert taken_of([LEAKS, breaks], ((LEAKS, 90), (breaks, 80), (SINGS, 40)), Alike())[0] == [LEAKS, SINGS, breaks]


def test_a_small_model_reads_the_best_points_and_no_more():
    said = [f"{letter * 9} leaks since {letter * 7}." for letter in "abcdefghijklmnopq"]
    near = Nearness(None, QUESTION, ())
    search = MapReduce(
        "ts",
        None,
        "chunks",
        0,
        SETTINGS.model_copy(update={"reduce_budget": 1900}),
        PROMPTS,
        EngineRunner(model()),
        None,
    )
    chosen = search.choose(near, [Candidate(1, n, 90 - n, text, ()) for n, text in enumerate(said, 1)])
    assert [c.text for c in chosen.taken] == said[:MOST_READ]
    assert {reason for _, reason in chosen.dropped} == {f"comes after the best {MOST_READ}"}


def test_what_is_as_brief_as_a_byline_comes_behind_all_others():
    byline = "Kept by Ada Brook, miller."
    points = ((byline, 95), (LEAKS, 40), (SINGS, 30))
    assert taken_of([byline, LEAKS], points)[0] == [LEAKS, SINGS, byline]
    assert is_brief("坝漏了。") and not is_brief("自从洪水以来山谷里的大坝一直在漏水。")


def test_an_answer_is_made_up_to_eight_paragraphs():
    leaks = [f"The {letter * 6} dam of the {letter * 8} valley leaks since the flood." for letter in "abcdefgh"]
    _taken, record = taken_of(leaks, [(text, 90 - n) for n, text in enumerate(leaks)])
    assert len(record["taken"]) == record["paragraphs"] == 8


def test_what_all_texts_share_makes_none_of_them_near():
    class Town:
        identity, dimensions = "town", 4

        def embed(self, texts):
            rows = np.array([[1.0, "water" in t, "choir" in t, 9 * (t in GENERAL)] for t in texts], np.float32)
            return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    texts = ["the water is brown", *[f"the choir sings again, {n}" for n in range(30)]]
    near = Nearness(Town(), "what of the water?", texts)
    assert near.worth(texts[0]) > 0.9 and near.worth(texts[1]) < 0
    assert near.worth("not given") == 0


def test_questions_are_not_told_by_shared_words_to_be_general():
    assert generality(HashEmbedder(), "What is the name of the dam?") == 0


def test_a_question_about_the_whole_goes_by_what_is_central_and_each_matter_has_its_say():
    matters = ("paper", "pier", "crew", "choir")
    shut, left = [f"The pier is shut, {n}." for n in range(5)], [f"The crew left, {n}." for n in range(3)]
    texts = ["I never saw a paper.", *shut, *left]

    class Matters:
        """Knows texts by their matters, and general questions by "main"."""

        identity, dimensions = "matters", len(matters) + 1

        def embed(self, given):
            rows = [[*(0.1 + 3 * (m in t) for m in matters), 9 * ("main" in t or t in GENERAL)] for t in given]
            return np.array(rows, np.float32) / np.linalg.norm(rows, axis=1, keepdims=True).astype(np.float32)

    def best(question):
        near = Nearness(Matters(), question, texts)
        return [texts[i] for i in near.varied(texts, [near.worth(text) for text in texts], 3)]

    assert best("What are the main things in these papers?")[:2] == [shut[0], left[0]]
    assert best("Why did the crew leave?") == left
    assert Nearness(None, "Who?", ()).varied(texts, [1, 3, 2, *[0] * 6], 2) == [1, 2]


def test_what_the_model_passes_over_counts_if_it_is_near_to_the_question():
    def taken(*points, **more):
        return [point["text"] for point in ask(model(("...", SINGS), points=points), **more).record["taken"]]

    assert taken((SINGS, 40)) == [SINGS]
    assert taken((SINGS, 40), embedder=Leaning()) == [LEAKS, SINGS]
    assert ask(model(("...", SINGS), points=((SINGS, 40),)), embedder=Leaning()).record["passed_over"] != []
    assert taken(embedder=Leaning()) == []  # whether there is an answer is for the model to say


def test_what_makes_an_answer_up_is_not_stored_with_the_reply():
    """The same points can be near to the question or far, as the embedder and the other statements have it."""
    search = MapReduce("ts", None, "chunks", 0, SETTINGS, PROMPTS, EngineRunner(model(("...", SINGS))), None, Leaning())
    points = [Candidate(1, 1, 90, LEAKS, ()), Candidate(1, 2, 80, SINGS, ())]
    stored = search.reduce(QUESTION, points, ()).value
    assert [paragraph.text for paragraph in stored.paragraphs] == [SINGS]
    told = search._made_up(stored, points, Nearness(Leaning(), QUESTION, [LEAKS, SINGS]))
    assert [paragraph.text for paragraph in told.paragraphs] == [SINGS, LEAKS]


def test_a_low_score_makes_no_paragraph_where_nearness_cannot_be_told():
    assert ask(model(("...", SINGS), points=((LEAKS, 40), (SINGS, 80)))).text == f"{SINGS} [1]"


def test_what_all_have_in_common_is_not_taken_from_what_was_picked_for_the_question(monkeypatch):
    asked = []

    class Listening(Leaning):
        def embed(self, texts):
            asked.append(list(texts))
            return super().embed(texts)

    monkeypatch.setattr("localgraphrag.search.mapreduce.MOST_COMPARED", 8)
    said = [f"The mill number {n} is old and quiet." for n in range(40)] + ["What leaks is the dam of the valley."]
    taken_of(said, ((said[0], 50),), Listening())
    texts, *_of_the_question, sample = asked
    assert len(sample) == 2 and len(texts) <= 1 + 8 + len(sample) and said[-1] in texts


def test_no_point_is_no_answer():
    answer = ask(model(("...", SINGS), points=()))
    assert answer.text.startswith("None of the 2 reports") and answer.citations == ()


def test_a_figure_that_is_not_there_refutes():
    assert supports("The dam of 1913 leaks.", ["The dam of 1912 leaks."]) == ()
    assert supports("The dam of 1912 leaks.", ["The dam of 1912 leaks.", "A choir."]) == (1,)


def test_what_is_said_of_one_is_not_borne_out_of_another_of_the_family():
    said = ["4. Josiah Pryde builds the pier at his own cost.", "Anselm Pryde owes for the pier.", "A cannery shut."]
    assert supports("Anselm Pryde builds the pier at his own cost.", said) == ()
    assert supports("Josiah Pryde builds the pier at his own cost.", said) == (1,)
    assert supports("Josiah Pryde builds the pier at his own cost, and Anselm Pryde owes for it.", said) == (1, 2)
    assert supports("Engineer Ada Moore found the pier rotten.", ["The engineer Ada Moore found the pier rotten."])
    names = ("Ada Moore", "Ben Lind", "Carl Voss", "Dora Hale", "Emil Kern")
    members = [f"{name} is a member of the board." for name in names]
    assert supports("The members of the board are Ada Moore, Ben Lind, Carl Voss, Dora Hale and Emil Kern.", members)
    german = ["Im Mai wurde der Bau der Mole beschlossen.", "Der Rat tagte lange."]
    assert supports("Der Rat beschloss im Mai den Bau der Mole.", german)


def test_several_passages_bear_out_a_text_together():
    said = ["The engineer found wasted piles.", "A barge struck the harbour pier.", "Bread was cheap."]
    assert supports("The engineer found wasted piles, and a barge struck the harbour pier.", said) == (1, 2)


def test_scripts_without_spaces_are_compared():
    said = ["桟橋は1931年に建てられた。", "水が悪くなった。"]
    assert supports("桟橋は1931年に建てられた。", said) == (1,)
    assert supports("学校が閉まった。", said) == ()


@given(st.lists(st.text(max_size=40), max_size=6), st.text(max_size=40))
def test_support_names_passages_that_are_there_each_once(said, text):
    found = supports(text, said)
    assert len(set(found)) == len(found) <= 4 and all(1 <= label <= len(said) for label in found)


@given(st.lists(st.sampled_from(["The river rose again.", "Bread is dear.", "Nobody came back."]), min_size=1))
def test_what_is_quoted_is_borne_out(said):
    assert said[supports(said[0], said)[0] - 1] == said[0]


def test_a_heading_of_the_same_words_is_borne_out():
    assert borne_out("Closure of the mill", "The mill's closure came in May.") and not borne_out("Fire", "A flood.")


def test_statements_of_a_passage():
    report = Passage("c", "report", "Dam", f"Dam\nA model wrote this summary here.\n- {LEAKS}\n- Dear Ivo,", ())
    assert statements(report) == [LEAKS]
    text = f"Minutes\n\nPresent: nobody\n\n{LEAKS} {'It rained very hard and ' * 30}stopped."
    first, long = statements(Passage("t", "chunk", "Minutes", text, ("t",)))
    assert first == LEAKS and len(long) <= 302 and long.endswith(" …")


def test_a_sentence_cut_at_the_edge_of_a_chunk_or_of_a_piece_is_no_statement():
    text = "of the mill was never told. The sluice leaks and was never repaired. The council of"
    cut = Passage("t", "chunk", "Minutes", text, ("t",), around=("The owner ", " Aldane has met."))
    assert statements(cut) == ["The sluice leaks and was never repaired."]
    whole = Passage("t", "chunk", "Minutes", text[0].upper() + text[1:], ("t",))
    assert statements(whole)[0] == "Of the mill was never told."
    first, *middle, last = split(cut, lambda passage: len(passage.text) < 40)
    assert (first.around, last.around) == (("The owner ", ""), ("", " Aldane has met."))
    assert middle and all(piece.around == ("", "") for piece in middle)
    assert split(cut, lambda passage: len(passage.text) < 400) == [cut]


def test_where_nothing_is_a_statement_all_can_be_quoted():
    assert listed([Passage("c", "report", "Fog", "Fog\n- Fog\n- Dear Ivo,", ())]) == [["Fog", "Dear Ivo,"]]
    assert listed([Passage("t", "chunk", "Fog", "漢" * 400, ("t",))]) == [["漢" * 300 + " …"]]
    mixed = [Passage("c", "report", "", f"- {text}", ()) for text in ("Fog", LEAKS)]
    assert listed(mixed) == [[], [LEAKS]]


def test_a_statement_quoted_twice_counts_once_and_names_all_its_passages():
    reply = dumps(points=[{"sentence": LEAKS, "score": 70}, {"sentence": LEAKS, "score": 60}])
    (point,) = read_quoted_map(reply, [[LEAKS], [SINGS], [LEAKS]]).points
    assert (point.score, point.sources) == (70, (1, 3))


def test_a_heading_that_only_begins_the_text_is_not_said_twice():
    for heading in ("The choir sings", f"That {SINGS} {SINGS} {SINGS}"[:HEADING_CHARACTERS]):  # or is cut off
        written = read_headed(dumps(answer=[{"heading": heading, "text": SINGS}]), [SINGS], "", "")
        assert written.paragraphs[0].heading == ""


def test_a_sentence_that_breaks_off_is_completed_or_marked():
    long = 'The members are all of those listed in the "Python core" team of the [old] site.'
    cut = "The members are all of those listed in the"
    for words, shown, text in (
        (cut, long, long.replace("[", "(").replace("]", ")")),
        (f"{SINGS} {cut}", long, f"{SINGS} {long.replace('[', '(').replace(']', ')')}"),
        (cut, "The members, all of those listed in the team, are few.", f"{cut} …"),
        (f"{long[:64]}.", long, f"{long[:64]}."),
    ):
        written = read_headed(dumps(answer=[{"heading": "...", "text": words}]), [SINGS, shown], "", "")
        assert [paragraph.text for paragraph in written.paragraphs] == [text]


def test_a_heading_stands_over_what_it_is_of_and_once():
    passage = chunk_passage(CHUNKS[0])
    places = Provenance(Hierarchy(()), {}, Graph((), (), ()), CHUNKS)

    def shown(*headings_and_texts):
        paragraphs = tuple(Paragraph(text, (1,), heading) for heading, text in headings_and_texts)
        return render(Written(paragraphs), lambda _label: (passage,), places)[0].split("\n\n")

    fog = "Fog stood over the valley."
    assert shown(("Hope", SINGS), ("Hope", LEAKS), ("Fear", fog)) == [
        f"Hope\n{SINGS} [1]",
        f"{LEAKS} [1]",
        f"Fear\n{fog} [1]",
    ]
    assert shown(("Hope", SINGS), ("", LEAKS), ("", fog)) == [
        f"Hope\n{SINGS} [1]",
        "* * *",
        f"{LEAKS} [1]",
        f"{fog} [1]",
    ]
    assert shown(("", SINGS), ("", LEAKS)) == [f"{SINGS} [1]", f"{LEAKS} [1]"]
    # the paragraph that had the heading first is left out, since it says again what stands above
    assert shown(("Hope", SINGS), ("Fear", SINGS), ("Fear", LEAKS)) == [f"Hope\n{SINGS} [1]", f"Fear\n{LEAKS} [1]"]


def test_an_answer_is_tied_to_all_that_its_points_were_written_from():
    settings = SETTINGS.model_copy(update={"descriptions": "written"})
    point = {"score": 80, "points": [{"sources": [1], "text": "The dam leaks.", "score": 80}]}
    engine = ScriptedEngine(
        lambda _m, request: (
            dumps(**point) if request.key.startswith("map") else dumps(answer=[{"cites": [1], "text": "So."}])
        )
    )
    watcher = Watcher(engine)
    text_search(QUESTION, chunks=CHUNKS, settings=settings, prompts=PROMPTS, runner=watcher)
    seen = watcher.seen
    assert set(seen[-1].chunks) == {chunk.id for unit in seen[:-1] for chunk in CHUNKS if chunk.id in unit.chunks}
    assert len(seen[-1].chunks) > 1


def test_a_stored_answer_counts_sentences_as_they_are_divided_now(monkeypatch):
    embedder = HashEmbedder()
    vectors = ([c.id for c in CHUNKS], np.asarray(embedder.embed([c.text for c in CHUNKS])))
    watcher = Watcher(model(("...", SINGS)))

    def ask_now():
        vector_search(
            QUESTION, chunks=CHUNKS, vectors=vectors, embedder=embedder, settings=SETTINGS, prompts=PROMPTS,
            runner=watcher,
        )  # fmt: skip

    ask_now()
    ask_now()
    monkeypatch.setattr(Passage, "said", property(lambda passage: [passage.text]))
    ask_now()
    keys = [unit.key("m") for unit in watcher.seen]
    assert keys[0] == keys[1] != keys[2]


def test_the_first_source_of_a_citation_is_where_the_quoted_words_stand():
    texts = ["Fog.  The choir sings\nin the mill on Sundays.", "The choir sings in the mill on Sundays."]
    chunks = [Chunk(f"t{i}", f"d{i}", "D", i, 100 * i, 100 * i + len(t), t, 9) for i, t in enumerate(texts)]
    chunks.append(Chunk("t2", "d1", "D", 2, 101, 139, texts[1][1:], 9))  # overlaps the one before
    places = Provenance(Hierarchy(()), {}, Graph((), (), ()), chunks)
    assert places.of_words(SINGS, ["t0", "t1", "t9"]) == (Source("t0", "d0", 6, 45), Source("t1", "d1", 100, 139))
    assert places.of_words("… choir sings in …", ["t1", "t2"]) == (Source("t1", "d1", 104, 118),)
    assert places.of_words("(The choir", ["t1"]) == places.of_words("", ["t1"]) == ()


def test_text_search_quotes_the_chunks():
    said = [s for chunk in CHUNKS for s in statements(chunk_passage(chunk))]
    assert said
    engine = model(("...", said[0]), points=[(text, 80) for text in said[:3]])
    answer = text_search(QUESTION, chunks=CHUNKS, settings=SETTINGS, prompts=PROMPTS, runner=EngineRunner(engine))
    first, *rest = answer.text.split("\n\n")
    assert first == f"{said[0]} [1]" and {text[:-4] for text in rest} < set(said)
    assert answer.citations[0].kind == "chunk"
    (stands,) = answer.citations[0].sources
    assert " ".join(DOCUMENTS[stands.document_id][1][stands.start : stands.end].split()) == said[0]


def test_vector_search_refuses_what_the_chunks_do_not_say():
    embedder = HashEmbedder()
    vectors = ([c.id for c in CHUNKS], np.asarray(embedder.embed([c.text for c in CHUNKS])))

    def asked(*paragraphs):
        return vector_search(
            QUESTION, chunks=CHUNKS, vectors=vectors, embedder=embedder, settings=SETTINGS, prompts=PROMPTS,
            runner=EngineRunner(model(*paragraphs)),
        )  # fmt: skip

    good = asked(("...", "Ana Lind leads the choir."))
    assert good.text.startswith("Ana Lind leads the choir. [1]")
    (stands,) = good.citations[0].sources  # the sentence, not the chunk
    assert DOCUMENTS[stands.document_id][1][stands.start : stands.end] == "Ana Lind leads the choir."
    near = asked(("Choir", "Ana Lind leads the choir, fearless, devoted."))
    assert near.text.startswith("Ana Lind leads the choir. [1]") and len(near.record["reply"]["refused"]) == 1
    mixed = " ".join(word for chunk in CHUNKS for word in chunk.text.split()[::4])
    assert mixed[:40] not in asked(("Mixed", mixed[:400])).text
    assert (
        "the model wrote one sentence, which is left out"
        in asked(("Harvest", "Barley harvests abound everywhere.")).text
    )
    assert "hold no answer" in asked(("None", "The texts do not say who leads.")).text


def test_golden_prompts():
    engine = model(("The dam leaks", LEAKS))
    ask(engine)
    golden("quoted_map.txt", conversation(engine.requests[0]))
    golden("quoted_reduce.txt", conversation(engine.requests[-1]))
