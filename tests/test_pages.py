"""The written pages: links lead somewhere, and the page on prompts knows every prompt."""

import re
from pathlib import Path

import pytest

from localgraphrag.config import Settings
from localgraphrag.prompts import PACKAGED

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#]+)", (DOCS / page).read_text(encoding="utf-8"))
    assert [t for t in targets if not t.startswith("https://") and not (DOCS / t).exists()] == []


def test_the_index_leads_to_every_page():
    linked = set(re.findall(r"\]\((\w+\.md)\)", (DOCS / "index.md").read_text(encoding="utf-8")))
    assert linked == set(PAGES) - {"index.md"}


def test_every_prompt_is_described_and_no_other():
    table = re.findall(r"^\| (`.*?) \|", (DOCS / "prompts.md").read_text(encoding="utf-8"), re.MULTILINE)
    described = {name for cell in table for name in re.findall(r"`(\w+)`", cell)}
    assert described == {path.stem for path in PACKAGED.glob("*.j2")}


# store.md names tables, log.md whatever was tried
@pytest.mark.parametrize("page", [page for page in PAGES if page not in ("store.md", "log.md")])
def test_settings_named_exist(page):
    named = re.findall(r"`(\w+_\w+)(?: = [^`]*)?`", (DOCS / page).read_text(encoding="utf-8"))
    known = set(Settings.model_fields) | {path.stem for path in PACKAGED.glob("*.j2")} | {"LOCALGRAPHRAG_MODELS"}
    assert set(named) <= known
