"""Settings: one flat list, read from `localgraphrag.toml` and from LOCALGRAPHRAG_* in the environment."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any, Literal

import platformdirs
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from localgraphrag.errors import ConfigError

SETTINGS_FILE = "localgraphrag.toml"
INDEX_FILE = "index.db"
PROMPTS_FOLDER = "prompts"


def models_folder() -> Path:
    """Where model files live: LOCALGRAPHRAG_MODELS if set, else the user's cache directory."""
    named = os.environ.get("LOCALGRAPHRAG_MODELS")
    return Path(named) if named else Path(platformdirs.user_cache_dir("localgraphrag")) / "models"


class Settings(BaseSettings):
    """Everything a user can set. `init` writes each with its default and its line of why."""

    model_config = SettingsConfigDict(env_prefix="LOCALGRAPHRAG_", extra="forbid", frozen=True)

    model: str = Field(
        "qwen2.5-coder-1.5b", description="Language model: a name from `models list`, or the path of a GGUF file."
    )
    embedder: str = Field("all-minilm-l6-v2", description="Embedding model for vector search: a name or a folder.")

    include: list[str] = Field([], description="Globs of files to read; empty reads every supported kind.")
    exclude: list[str] = Field([], description="Globs of files to leave out.")
    text_column: str = Field("text", description="Column or field of CSV and JSONL files that holds the text.")
    title_column: str = Field(
        "title", description="Column or field of CSV and JSONL files that holds the title, if there is one."
    )

    chunk_size: int = Field(
        600, ge=20, le=8000, description="Tokens per chunk. 600 is the paper's; larger chunks are faster and find less."
    )
    chunk_overlap: int = Field(100, ge=0, description="Tokens that a chunk shares with the one before it.")

    entity_types: list[str] = Field(
        ["person", "organization", "place", "event", "object", "concept"],
        description="Types an entity can have; `other` is always added.",
    )
    max_gleanings: int = Field(
        1, ge=0, le=5, description="Times the model is asked whether it missed entities of a chunk."
    )
    descriptions: Literal["quoted", "written"] = Field(
        "quoted",
        description="Entities and relationships are described by sentences of the text, or `written` by the model.",
    )
    claims: bool = Field(True, description="Extract claims (statements that can be checked) about entities.")
    grounded: bool = Field(True, description="Entity names must be verbatim spans of the chunk.")

    description_budget: int = Field(
        300,
        ge=50,
        description="Tokens of descriptions of one entity or relationship shown to the model; of more, evenly spaced "
        "quotations are shown, and written ones merged.",
    )
    cooccurrence_weight: float = Field(
        0.1, ge=0, description="Weight, for clustering only, of two entities sharing a chunk; 0 is the paper's graph."
    )
    max_community_size: int = Field(10, ge=2, description="Communities with more entities than this are divided again.")
    max_levels: int = Field(4, ge=1, le=8, description="Levels of the community hierarchy, C0 the coarsest.")

    context_window: int = Field(
        8000, ge=1000, description="Tokens of prompt, context and output together for reports and answers."
    )
    min_report_tokens: int = Field(
        250, ge=0, description="A community with less text than this is its own report; no model is called."
    )
    report_tokens: int = Field(500, ge=100, description="Cap on the tokens of a written report.")
    report_levels: list[int] = Field([], description="Levels whose reports `index` writes; empty means all.")

    map_budget: int = Field(700, ge=200, description="Tokens of reports or chunks that one map call reads.")
    map_tokens: int = Field(400, ge=50, description="Cap on the tokens of one map reply.")
    reduce_budget: int = Field(3000, ge=200, description="Tokens of points that the reduce call reads.")
    answer_tokens: int = Field(600, ge=50, description="Cap on the tokens of an answer.")

    vector_budget: int = Field(
        2000, ge=200, description="Tokens of chunks that vector search reads; the paper fills the context window."
    )

    seed: int = Field(0, ge=0, description="Seed of everything random: Leiden, the shuffle, sampling.")
    slots: int = Field(0, ge=0, description="Requests the model works on at once; 0 measures this machine and chooses.")
    threads: int = Field(0, ge=0, description="Processor threads; 0 uses all usable cores.")
    gpu_layers: int = Field(-1, ge=-1, description="Model layers put on a GPU; -1 means all, where the build can.")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Two sources, the environment before the file; no `.env`, no secrets."""
        return env_settings, init_settings


def load_settings(folder: Path, **overrides: Any) -> Settings:
    """Settings of the project in `folder`: defaults, then its file, then the environment, then `overrides`.

    Overrides that are None count as not given. Raises ConfigError naming the setting and what it may be.
    """
    path = folder / SETTINGS_FILE
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        settings = Settings(**values)
        given = {name: value for name, value in overrides.items() if value is not None}
        return Settings.model_validate(settings.model_dump() | given) if given else settings
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"{path} is not valid TOML: {error}. Mend that line, or delete the file and run `localgraphrag init`."
        ) from error
    except ValidationError as error:
        raise ConfigError(_explain(error, path)) from error


def _explain(error: ValidationError, path: Path) -> str:
    lines = []
    for item in error.errors():
        name = ".".join(map(str, item["loc"]))
        if item["type"] == "extra_forbidden":
            lines.append(f"there is no setting '{name}'; known settings: {', '.join(Settings.model_fields)}")
        else:
            lines.append(f"setting '{name}' was given {item['input']!r}: {item['msg']}")
    return f"Settings ({path}): " + "; ".join(lines) + "."
