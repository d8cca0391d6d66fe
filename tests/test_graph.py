"""Merging extractions into a graph: exact names, votes, weights, mentions, order independence."""

import hashlib
import json
import random
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localgraphrag.chunks import Chunk
from localgraphrag.config import Settings
from localgraphrag.errors import NotFoundError
from localgraphrag.extract import Claim, Entity, Extraction, Relationship
from localgraphrag.graph import (
    Mention,
    build_graph,
    description_units,
    normalize_name,
    to_networkx,
    weighted_links,
    with_descriptions,
)
from localgraphrag.llm.scripted import ScriptedEngine, WordTokenizer
from localgraphrag.llm.types import Message
from localgraphrag.llm.units import EngineRunner
from localgraphrag.mentions import Searchable
from localgraphrag.prompts import Prompts

GOLDEN = Path(__file__).parent / "golden"


def make_chunk(text, document="d", ordinal=0, start=0):
    return Chunk(f"{document}/{ordinal}", document, "Title", ordinal, start, start + len(text), text, len(text) // 4)


def entity(name, type_="person", description="", text=""):
    start = text.find(name)
    return Entity(name, type_, description, start, start + len(name) if start >= 0 else -1)


def extraction(chunk, entities=(), relationships=(), claims=()):
    entities = [e if isinstance(e, Entity) else entity(e, text=chunk.text) for e in entities]
    return Extraction(chunk.id, tuple(entities), tuple(Relationship(*r) for r in relationships), tuple(claims))


def graph_of(*parts):
    """A graph from (chunk, extraction) pairs."""
    return build_graph([c for c, _ in parts], {c.id: e for c, e in parts})


def spans(graph, name):
    return [(m.start, m.end) for m in graph.nodes_by_key[normalize_name(name)].mentions]


# Names


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("IBM", "ibm"),
        ("New\n  York", "new york"),
        ("ＩＢＭ", "IBM"),
        ("Straße", "STRASSE"),
        ("ﬁeld", "Field"),
        ("a\u00a0b", "A B"),
    ],
)
def test_names_that_are_one(one, other):
    assert normalize_name(one) == normalize_name(other)


def test_names_that_are_not_one():
    assert len({normalize_name(n) for n in ("IBM", "I.B.M.", "IBM Corp", "Öl", "Ol")}) == 5


@given(st.text())
def test_normalizing_is_stable(name):
    assert normalize_name(normalize_name(name)) == normalize_name(name)


# Nodes


def test_one_node_keeps_every_type_description_and_source():
    a = make_chunk("IBM makes computers.")
    b = make_chunk("At ibm they meet. IBM pays.", ordinal=1, start=30)
    meets, pays = Entity("ibm", "company", "Where they meet.", 3, 6), Entity("IBM", "organization", "Pays.", 18, 21)
    graph = graph_of(
        (a, extraction(a, [Entity("IBM", "organization", "Makes computers.", 0, 3)])),
        (b, extraction(b, [meets, pays])),
    )
    (node,) = graph.nodes
    assert (node.name, node.key, node.type, node.degree) == ("IBM", "ibm", "organization", 0)
    assert [d.text for d in node.descriptions] == ["Makes computers.", "Where they meet.", "Pays."]
    assert [d.chunk_id for d in node.descriptions] == ["d/0", "d/1", "d/1"]
    assert node.chunk_ids == ("d/0", "d/1")
    assert node.mentions == (Mention("d/0", 0, 3), Mention("d/1", 33, 36), Mention("d/1", 48, 51))
    assert node.id == "e-" + hashlib.sha256(json.dumps(["ibm"]).encode()).hexdigest()[:12]
    assert node.description == "Makes computers.\nWhere they meet.\nPays."


@pytest.mark.parametrize(
    ("types", "winner"),
    [(["other", "place"], "place"), (["other", "other", "place"], "other"), (["place", "event"], "event")],
)
def test_the_vote_on_types(types, winner):
    parts = [(c := make_chunk("X", ordinal=i), extraction(c, [entity("X", t)])) for i, t in enumerate(types)]
    assert graph_of(*parts).nodes[0].type == winner


def test_ties_between_surface_forms_go_to_the_smaller_string():
    c = make_chunk("IBM ibm")
    assert graph_of((c, extraction(c, ["ibm", "IBM"]))).nodes[0].name == "IBM"


def test_equal_and_empty_descriptions_are_not_repeated():
    texts = ["a", " a ", "", "b"]
    parts = [(c := make_chunk("X", ordinal=i), extraction(c, [entity("X", "person", t)])) for i, t in enumerate(texts)]
    assert [(d.text, d.chunk_id) for d in graph_of(*parts).nodes[0].descriptions] == [("a", "d/0"), ("b", "d/3")]


def test_blank_names_make_no_node():
    c = make_chunk("X")
    assert graph_of((c, extraction(c, [entity(" \n"), "X"], [(" ", "X", "")]))).edges == ()


def test_chunks_without_extraction_and_extractions_without_chunk_add_nothing():
    a, b = make_chunk("Ada"), make_chunk("Bob", ordinal=1)
    graph = build_graph([a], {b.id: extraction(b, ["Bob"])})
    assert (graph.nodes, graph.edges, graph.claims) == ((), (), ())


# Edges and claims


def test_both_directions_add_up():
    a, b = make_chunk("Ada Bob"), make_chunk("Ada Bob", ordinal=1, start=10)
    graph = graph_of(
        (a, extraction(a, ["Ada", "Bob"], [("Ada", "Bob", "met"), ("Bob", "Ada", "knows")])),
        (b, extraction(b, ["Ada", "Bob"], [("bob", "ADA", "met")])),
    )
    (edge,) = graph.edges
    assert edge.weight == 3
    assert [(d.text, d.chunk_id) for d in edge.descriptions] == [("met", "d/0"), ("knows", "d/0")]
    assert edge.chunk_ids == ("d/0", "d/1")
    assert edge.source < edge.target and {edge.source, edge.target} == {n.id for n in graph.nodes}
    assert [n.degree for n in graph.nodes] == [1, 1]


def test_no_self_loops_and_no_unknown_names():
    a, b = make_chunk("Ada"), make_chunk("Bob", ordinal=1)
    bad = [("Ada", "ADA", "is"), ("Ada", "Bob", "not listed in this chunk"), ("Eve", "Mal", "unknown")]
    graph = graph_of((a, extraction(a, ["Ada"], bad)), (b, extraction(b, ["Bob"])))
    assert graph.edges == () and len(graph.nodes) == 2


def test_claims_point_to_nodes():
    c = make_chunk("Ada sued Bob")
    claims = [
        Claim("ada", "Bob", "lawsuit", "true", "1840", "", "Ada sued Bob."),
        Claim("Bob", "the Crown", "fraud", "suspected", "", "", "Bob cheated the Crown."),
        Claim("Eve", "", "fraud", "true", "", "", "Not an entity."),
    ]
    graph = graph_of((c, extraction(c, ["Ada", "Bob"], claims=claims)))
    ada, bob = graph.nodes_by_key["ada"], graph.nodes_by_key["bob"]
    assert [(k.subject, k.object) for k in graph.claims_of(ada.id)] == [(ada.id, bob.id)]
    assert [(k.object, k.status) for k in graph.claims_of(bob.id)] == [("", "suspected")]
    assert len(graph.claims) == 2 and graph.claims[0].chunk_id == c.id


# Mentions


def test_a_span_in_two_overlapping_chunks_is_one_mention():
    text = "Ada met Bob. Bob left. Ada stayed."
    a, b = make_chunk(text[:22]), make_chunk(text[13:], ordinal=1, start=13)
    graph = graph_of((a, extraction(a, ["Ada", "Bob"])), (b, extraction(b, ["Ada", "Bob"])))
    assert spans(graph, "Ada") == [(0, 3), (23, 26)]
    assert graph.nodes_by_key["bob"].mentions == (Mention("d/0", 8, 11), Mention("d/0", 13, 16))


def test_equal_spans_of_two_documents_are_two_mentions():
    a, b = make_chunk("Ada"), make_chunk("Ada", document="e")
    assert len(graph_of((a, extraction(a, ["Ada"])), (b, extraction(b, ["Ada"]))).nodes[0].mentions) == 2


def test_a_chunk_is_searched_under_every_name_of_the_entity():
    a, b = make_chunk("IBM"), make_chunk("ibm and IBM", ordinal=1, start=10)
    graph = graph_of((a, extraction(a, ["IBM"])), (b, extraction(b, ["ibm"])))
    assert spans(graph, "IBM") == [(0, 3), (10, 13), (18, 21)]


def test_words_cut_at_a_chunks_edge_are_judged_by_the_neighbour():
    text = "Dan saw Daniel and Jordan"
    a, b = make_chunk(text[:11]), make_chunk(text[6:], ordinal=1, start=6)  # a ends in "Dan" of "Daniel"
    assert spans(graph_of((a, extraction(a, ["Dan"])), (b, extraction(b, ["Jordan"]))), "Dan") == [(0, 3)]


def test_a_name_only_inside_a_word_keeps_the_span_that_extraction_gave():
    c = make_chunk("the Dampfschiffahrt began")
    assert spans(graph_of((c, extraction(c, [Entity("schiff", "object", "", 9, 15)]))), "schiff") == [(9, 15)]


def test_a_name_that_is_not_in_the_chunk_has_no_mention():
    c = make_chunk("He came.")
    assert spans(graph_of((c, extraction(c, ["Ada"]))), "Ada") == []


@pytest.mark.parametrize(
    ("text", "name", "found"),
    [
        ("Anna, Annabel and Anna-Lee", "Anna", ["Anna", "Anna"]),
        ("Apollo 11 and Apollo 1.", "Apollo 1", ["Apollo 1"]),
        ("New\n   York, New York", "New York", ["New\n   York", "New York"]),
        ("\n\nNew\tYork\r\nNew York\n", "New York", ["New\tYork", "New York"]),
        ("東京都は東京駅がある", "東京", ["東京", "東京"]),
        ("กรุงเทพเป็นเมืองหลวง", "กรุงเทพ", ["กรุงเทพ"]),
        ("서울은 크다. 서울에서", "서울", ["서울", "서울"]),
        ("राम और रामायण", "राम", ["राम"]),
        ("cafe\u0301 cafe", "cafe", ["cafe"]),
        ("IBM社 and IBMs", "IBM", ["IBM"]),
        ("U.S.A. and U.S.", "U.S.", ["U.S.", "U.S."]),
        ("<|im_start|> x", "<|im_start|>", ["<|im_start|>"]),
        ("ada", "Ada", []),
        ("", "Ada", []),
    ],
)
def test_where_a_name_stands(text, name, found):
    assert [text[start:end] for start, end in Searchable(text).find(name)] == found


@pytest.mark.parametrize(
    ("language", "name", "times"),
    [
        ("jpn", "国際連合", 5),
        ("cmn_hans", "联合国", 8),
        ("hin", "संयुक्त राष्ट्र", 6),
        ("arb", "الأمم المتحدة", 5),
        ("heb", "האומות המאוחדות", 5),
        ("rus", "Организации Объединенных Наций", 3),
        ("eng", "United Nations", 5),
    ],
)
def test_overlapping_chunks_of_real_texts_give_each_mention_once(corpus, language, name, times):
    text = (corpus("udhr") / f"{language}.txt").read_text(encoding="utf-8")
    cuts = range(0, len(text), 500)
    chunks = [make_chunk(text[start : start + 600], language, i, start) for i, start in enumerate(cuts)]
    named = [c for c in chunks if name in " ".join(c.text.split())]
    graph = graph_of(*((c, extraction(c, [name])) for c in named))
    found = [" ".join(text[start:end].split()) for start, end in spans(graph, name)]
    assert found == [name] * times


@given(st.text("ab \n\t", max_size=40), st.text("ab \n", max_size=3), st.text("ab \n", max_size=3))
def test_spans_are_exact_whatever_the_white_space(left, gap, right):
    name = "ab ab"
    text = f"{left} ab{gap} ab {right}"
    found = [text[start:end] for start, end in Searchable(text).find(name)]
    assert all(normalize_name(f) == name for f in found)
    assert gap.strip() or any(found)


# Laws

few = settings(max_examples=30, deadline=None)
NAMES = ["Ada", "ADA", "Bob", "bob", "Cyd Lee", "Cyd\nLee", "東京", "Eve"]


@st.composite
def corpora(draw):
    """Documents in overlapping chunks, and what might have been found in each."""
    chunks, found, texts = [], {}, {}
    for document in draw(st.lists(st.sampled_from("xyz"), min_size=1, max_size=3, unique=True)):
        text = " ".join(draw(st.lists(st.sampled_from([*NAMES, "and", "saw"]), min_size=1, max_size=12)))
        texts[document] = text
        for ordinal, start in enumerate(range(0, len(text), 12)):
            chunk = make_chunk(text[start : start + 18], document, ordinal, start)
            names = draw(st.lists(st.sampled_from(NAMES), max_size=5, unique=True))
            types = st.sampled_from(["person", "place", "other"])
            described = [entity(n, draw(types), draw(st.sampled_from("pq"))) for n in names]
            pair = st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from("rs"))
            pairs = draw(st.lists(pair, max_size=4))
            subjects = draw(st.lists(st.sampled_from(NAMES), max_size=2))
            claims = [Claim(n, "", "t", "true", "", "", "c") for n in subjects]
            chunks.append(chunk)
            found[chunk.id] = extraction(chunk, described, pairs, claims)
    return chunks, found, texts


@few
@given(corpora(), st.randoms(use_true_random=False))
def test_any_order_gives_the_same_graph(corpus, shuffler):
    chunks, found, _ = corpus
    shuffled = random.Random(shuffler.random())
    other = shuffled.sample(chunks, len(chunks))
    keys = shuffled.sample(list(found), len(found))
    assert build_graph(other + other[:1], {k: found[k] for k in keys}) == build_graph(chunks, found)


@few
@given(corpora(), st.data())
def test_parts_add_up_to_the_whole(corpus, data):
    chunks, found, _ = corpus
    side = {c.id: data.draw(st.booleans()) for c in chunks}
    whole = build_graph(chunks, found)
    parts = [build_graph(chunks, {k: e for k, e in found.items() if side[k] is flag}) for flag in (True, False)]
    assert {n.id for n in whole.nodes} == {n.id for p in parts for n in p.nodes}
    weights = Counter()
    for part in parts:
        weights.update({e.id: e.weight for e in part.edges})
    assert weights == Counter({e.id: e.weight for e in whole.edges})
    assert {c.id for c in whole.claims} == {c.id for p in parts for c in p.claims}
    for node in whole.nodes:
        mine = [n for p in parts for n in p.nodes if n.id == node.id]
        assert sorted(node.chunk_ids) == sorted(c for n in mine for c in n.chunk_ids)
        assert {d.text for d in node.descriptions} == {d.text for n in mine for d in n.descriptions}


@few
@given(corpora())
def test_weights_are_counts_and_ends_are_nodes(corpus):
    chunks, found, _ = corpus
    graph = build_graph(chunks, found)
    expected = Counter()
    for e in found.values():
        known = {normalize_name(x.name) for x in e.entities}
        for r in e.relationships:
            pair = tuple(sorted({normalize_name(r.source), normalize_name(r.target)}))
            if len(pair) == 2 and known.issuperset(pair):
                expected[pair] += 1
    keys = {n.id: n.key for n in graph.nodes}
    assert {tuple(sorted((keys[e.source], keys[e.target]))): e.weight for e in graph.edges} == expected
    assert all(len(e.chunk_ids) <= e.weight and e.source < e.target for e in graph.edges)
    for node in graph.nodes:
        assert node.degree == len(graph.edges_of(node.id)) == len(set(graph.neighbours(node.id)))
    for rows in (graph.nodes, graph.edges, graph.claims):
        assert [r.id for r in rows] == sorted({r.id for r in rows})


@few
@given(corpora())
def test_mentions_are_the_name_in_the_document_each_span_once(corpus):
    chunks, found, texts = corpus
    by_id = {c.id: c for c in chunks}
    for node in build_graph(chunks, found).nodes:
        places = [(by_id[m.chunk_id].document_id, m.start, m.end) for m in node.mentions]
        assert len(places) == len(set(places)) and places == sorted(places)
        assert all(normalize_name(texts[d][start:end]) == node.key for d, start, end in places)
        assert {m.chunk_id for m in node.mentions} <= set(node.chunk_ids)


# Looking things up


def test_unknown_ids_are_named():
    graph = graph_of()
    for look in (graph.node, graph.edges_of, graph.neighbours, graph.claims_of):
        with pytest.raises(NotFoundError, match="'e-1'"):
            look("e-1")
    with pytest.raises(NotFoundError, match="'r-1'"):
        graph.edge("r-1")


def test_neighbours():
    c = make_chunk("A B C")
    graph = graph_of((c, extraction(c, ["A", "B", "C"], [("A", "B", ""), ("C", "A", "")])))
    a = graph.nodes_by_key["a"]
    assert {n.name for n in graph.neighbours(a.id)} == {"B", "C"}
    assert graph.edge(graph.edges_of(a.id)[0].id) in graph.edges and graph.node(a.id) is a


# Other forms


def test_links_with_and_without_shared_chunks():
    a, b = make_chunk("A B C"), make_chunk("A C", ordinal=1, start=9)
    first, second = extraction(a, ["A", "B", "C"], [("A", "B", "")]), extraction(b, ["A", "C"], [("C", "A", "")])
    graph = graph_of((a, first), (b, second))
    names = [n.name for n in graph.nodes]

    def links(weight):
        found = weighted_links(graph, weight)
        pairs = zip(found.sources, found.targets, found.weights, strict=True)
        return {"".join(sorted(names[i] + names[j])): pytest.approx(w) for i, j, w in pairs}

    assert links(0) == {"AB": 1.0, "AC": 1.0}
    assert links(0.1) == {"AB": 1.1, "AC": 1.2, "BC": 0.1}
    found = weighted_links(graph, 0.1)
    assert (found.sources < found.targets).all()


@few
@given(corpora())
def test_shared_chunks_are_counted_for_every_pair(corpus):
    chunks, found, _ = corpus
    graph = build_graph(chunks, found)
    expected = Counter()
    for (i, m), (j, n) in combinations(enumerate(graph.nodes), 2):
        expected[i, j] += len(set(m.chunk_ids) & set(n.chunk_ids))
        expected[i, j] += sum(e.weight for e in graph.edges if {e.source, e.target} == {m.id, n.id})
    links = weighted_links(graph, 1.0)
    pairs = zip(links.sources.tolist(), links.targets.tolist(), strict=True)
    assert dict(zip(pairs, links.weights, strict=True)) == +expected


def test_links_of_nothing():
    assert weighted_links(graph_of(), 0.1).weights.dtype == np.float64


def test_networkx_view():
    c = make_chunk("A B C")
    graph = graph_of((c, extraction(c, [entity("A", "person", "first", c.text), "B", "C"], [("A", "B", "met")])))
    a, b, other = (graph.nodes_by_key[k].id for k in "abc")
    view = to_networkx(graph)
    assert list(view) == [n.id for n in graph.nodes]
    assert view.nodes[a] == {"name": "A", "type": "person", "description": "first", "degree": 1, "mentions": 1}
    assert view.edges[a, b]["weight"] == 1 and view.number_of_edges() == 1
    near = to_networkx(graph, 0.5)
    assert near.edges[a, b] == {"id": graph.edges[0].id, "description": "met", "weight": 1.5}
    assert near.edges[a, other] == {"id": "", "description": "", "weight": 0.5}


# Merging descriptions


WRITTEN = Settings(descriptions="written")


def many_descriptions(count, words=30):
    parts = []
    for i in range(count):
        c = make_chunk("Ada Bob", ordinal=i, start=10 * i)
        about = f"Fact {i} about her: " + "word " * words
        parts.append((c, extraction(c, [entity("Ada", "person", about), "Bob"], [("Ada", "Bob", "met")])))
    return graph_of(*parts)


def test_only_what_exceeds_the_budget_is_merged_and_keeps_its_sources():
    graph = many_descriptions(12)
    engine = ScriptedEngine(lambda messages, request: '{"description":"Ada, in one sentence."}')
    units = list(description_units(graph, WRITTEN, Prompts(), engine.tokenizer))
    ada = graph.nodes_by_key["ada"]
    assert [u.name for u in units] == [ada.id] and units[0].chunks == ada.chunk_ids
    merged = with_descriptions(graph, EngineRunner(engine).run(units))
    assert merged.node(ada.id).description == merged.node(ada.id).summary == "Ada, in one sentence."
    assert merged.node(ada.id).descriptions == ada.descriptions
    assert merged.nodes_by_key["bob"] == graph.nodes_by_key["bob"] and merged.edges == graph.edges
    assert not list(description_units(many_descriptions(3), WRITTEN, Prompts(), engine.tokenizer))


def test_a_merged_description_that_ran_into_its_limit_ends_with_a_sentence():
    most = 4 * WRITTEN.description_budget
    text = ("Ada led the guild. " * most)[: most - 8] + "and she "
    assert len(text) == most
    engine = ScriptedEngine(lambda messages, request: f'{{"description":"{text}"}}')
    (outcome,) = EngineRunner(engine).run(
        description_units(many_descriptions(12), WRITTEN, Prompts(), engine.tokenizer)
    )
    assert outcome.value.text == text[: text.rindex(".") + 1]


def test_edges_are_merged_too_and_failures_change_nothing():
    parts = [
        (c := make_chunk("Ada Bob", ordinal=i), extraction(c, ["Ada", "Bob"], [("Ada", "Bob", f"{i} " + "met " * 200)]))
        for i in range(3)
    ]
    graph = graph_of(*parts)
    engine = ScriptedEngine(lambda messages, request: "not JSON")
    outcomes = list(EngineRunner(engine).run(description_units(graph, WRITTEN, Prompts(), engine.tokenizer)))
    assert [o.unit.name for o in outcomes] == [graph.edges[0].id] and not outcomes[0].ok
    assert with_descriptions(graph, outcomes) == graph
    names = " - ".join(graph.node(end).name for end in (graph.edges[0].source, graph.edges[0].target))
    assert f"Name: {names}" in engine.requests[0].prompt


def test_more_descriptions_than_the_context_holds_are_spaced_evenly():
    graph = many_descriptions(400)
    engine = ScriptedEngine(lambda messages, request: '{"description":"x"}', context_tokens=2000)
    config = Settings(descriptions="written", context_window=2000)
    (outcome,) = EngineRunner(engine).run(description_units(graph, config, Prompts(), engine.tokenizer))
    assert outcome.ok
    shown = [int(line.split()[2]) for line in engine.requests[0].prompt.splitlines() if line.startswith("- Fact")]
    assert len(shown) > 10 and shown == sorted(shown) and shown[0] == 0 and shown[-1] > 350
    assert len(outcome.unit.chunks) == len(shown)


def test_what_the_model_is_shown():
    graph = many_descriptions(3, words=2)
    config = Settings(descriptions="written", description_budget=50)
    tokenizer = WordTokenizer()
    tokenizer.count = lambda text: len(text)  # so that little is much
    (unit,) = description_units(graph, config, Prompts(), tokenizer)
    request = next(unit.ask())
    shown = "\n\n".join(f"[{m.role}]\n{m.content}" for m in (*request.prefix, Message("user", request.prompt)))
    assert shown + "\n" == (GOLDEN / "describe.txt").read_text(encoding="utf-8")


def test_quoted_descriptions_are_not_put_into_the_model_s_words():
    graph = many_descriptions(400)
    assert list(description_units(graph, Settings(), Prompts(), WordTokenizer())) == []
