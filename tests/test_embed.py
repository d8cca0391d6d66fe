from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localgraphrag.config import Settings, models_folder
from localgraphrag.embed import Embedder, HashEmbedder, SentenceTransformerEmbedder, load_embedder
from localgraphrag.errors import ModelBrokenError, ModelMissingError

MINILM = models_folder() / "all-minilm-l6-v2"
TEXT = "The reservoir above Ostrava burst in spring, and unbelievably the mill survived. " * 40


@pytest.fixture(scope="module")
def minilm():
    if not MINILM.is_dir():
        pytest.skip(f"no embedder at {MINILM}; run `localgraphrag models pull all-minilm-l6-v2`")
    return SentenceTransformerEmbedder(MINILM)


@given(st.lists(st.text(max_size=40), max_size=6))
def test_hash_vectors_have_length_one_or_no_words(texts):
    matrix = HashEmbedder(64).embed(texts)
    assert matrix.dtype == np.float32
    assert matrix.shape == (len(texts), 64)
    lengths = np.linalg.norm(matrix, axis=1)
    assert all(np.isclose(length, 1, atol=1e-5) or length == 0 for length in lengths)


@given(st.lists(st.text(max_size=40), min_size=1, max_size=6))
@settings(max_examples=30)
def test_hash_vector_of_a_text_does_not_depend_on_its_neighbours(texts):
    together = HashEmbedder().embed(texts)
    alone = np.vstack([HashEmbedder().embed([text]) for text in texts])
    assert np.array_equal(together, alone)


def test_hash_embedder_is_the_same_in_another_process():
    code = "from localgraphrag.embed import HashEmbedder; print(HashEmbedder(8).embed(['the dam burst']).tolist())"
    env = {**os.environ, "PYTHONHASHSEED": "7"}
    other = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str(HashEmbedder(8).embed(["the dam burst"]).tolist())


def test_shared_words_are_near_whatever_case_and_form():
    dam, loud, poem = HashEmbedder().embed(["the dam burst", "THE ＤＡＭ broke", "a poem about autumn"])
    assert dam @ loud > dam @ poem


def test_both_are_embedders():
    assert isinstance(HashEmbedder(), Embedder)
    assert HashEmbedder(32).identity != HashEmbedder(64).identity


def test_settings_choose_the_hash_embedder():
    assert isinstance(load_embedder(Settings(embedder="hash")), HashEmbedder)


def test_missing_model_names_path_and_command(tmp_path, monkeypatch):
    monkeypatch.setenv("LOCALGRAPHRAG_MODELS", str(tmp_path))
    with pytest.raises(ModelMissingError) as caught:
        load_embedder(Settings())
    assert str(tmp_path / "all-minilm-l6-v2") in str(caught.value)
    assert "localgraphrag models pull all-minilm-l6-v2" in str(caught.value)


def test_half_a_model_names_the_files_it_lacks(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelMissingError, match=r"lacks tokenizer\.json, model\.safetensors"):
        SentenceTransformerEmbedder(tmp_path)


@pytest.mark.model
def test_broken_weights_are_one_clear_error(tmp_path, minilm):
    for file in MINILM.rglob("*.json"):
        copy = tmp_path / "minilm" / file.relative_to(MINILM)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    (tmp_path / "minilm" / "model.safetensors").write_bytes(b"not a tensor")
    with pytest.raises(ModelBrokenError, match="Delete the folder and run `localgraphrag models pull minilm`"):
        SentenceTransformerEmbedder(tmp_path / "minilm")


@pytest.mark.model
def test_minilm_knows_meaning(minilm):
    dam, flood, poem = minilm.embed(["The dam burst.", "Water flooded the valley.", "She wrote a sonnet."])
    assert dam @ flood > dam @ poem
    assert minilm.dimensions == 384
    assert minilm.identity == "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@pytest.mark.model
@pytest.mark.parametrize("text", ["", " ", "word", TEXT, "a" * 3000, "水库决堤。" * 300, " \n" + TEXT + "\n "])
def test_windows_lose_nothing_and_fit_the_model(minilm, text):
    windows = minilm.windows(text)
    assert "".join(window for window, _ in windows) == text
    for window, tokens in windows:
        read = len(minilm._model.tokenizer(window, truncation=False)["input_ids"])
        assert read <= minilm._model.max_seq_length
        assert tokens == max(read - 2, 1)


@pytest.mark.model
def test_the_end_of_a_long_text_counts(minilm):
    calm = TEXT + "Nothing else happened that year in the whole of the district."
    comet = TEXT + "A comet of extraordinary brightness was seen by astronomers every night." * 12
    question, first, second = minilm.embed(["astronomers saw a comet", calm, comet])
    assert question @ second > question @ first + 0.1


@pytest.mark.model
def test_minilm_vector_does_not_depend_on_neighbours(minilm):
    texts = ["The dam burst.", TEXT, "", "Short."]
    together = minilm.embed(texts)
    assert together.dtype == np.float32
    assert np.array_equal(together, np.vstack([minilm.embed([text]) for text in texts]))
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    assert minilm.embed([]).shape == (0, 384)
