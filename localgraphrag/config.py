"""Settings: one flat list, read from `localgraphrag.toml` and from LOCALGRAPHRAG_* in the environment."""

from __future__ import annotations

import json
import os
import textwrap
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Self, get_args

import platformdirs
from pydantic import Field, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from localgraphrag.errors import ConfigError

SETTINGS_FILE = "localgraphrag.toml"
INDEX_FILE = "index.db"
PROMPTS_FOLDER = "prompts"
ENVIRONMENT = "LOCALGRAPHRAG_"
_THERE = "the environment"


def models_folder() -> Path:
    """Where model files live: LOCALGRAPHRAG_MODELS if set, else the user's cache directory."""
    named = os.environ.get("LOCALGRAPHRAG_MODELS")
    return Path(named) if named else Path(platformdirs.user_cache_dir("localgraphrag")) / "models"


def expanded(path: Path) -> Path:
    """The path with `~` as the home. `~name` of nobody is a name like others."""
    with suppress(RuntimeError):
        return path.expanduser()
    return path


def project_folder(given: str | Path) -> Path:
    """The project's folder, which need not be there yet; `~` is the home.

    Raises ConfigError for what is no path or cannot be one (too long, on a drive that is not there), and where a file
    is in the place of the folder or on the way to it.
    """
    if not isinstance(given, (str, os.PathLike)):
        raise ConfigError(f"The project's folder was given as {given!r}; it must be a path: a text or a Path.")
    folder = expanded(Path(given))
    try:
        there = nearest(folder)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"The project's folder was given as {str(given)!r}, which cannot be used: {why}.") from error
    if there is None:
        raise ConfigError(
            f"The project's folder was given as {given}, but {folder.absolute().anchor} is not there. Name a folder on "
            "a drive of this machine."
        )
    if not there.is_dir():
        inside = there == folder.absolute() and there.name in (INDEX_FILE, SETTINGS_FILE)
        mend = f"give the folder that it is in: {there.parent}" if inside else "name a folder, or a new one"
        raise ConfigError(f"The project's folder was given as {given}, but {there} is a file; {mend}.")
    return folder


def nearest(path: Path) -> Path | None:
    """The path if it is there, else the closest folder on the way to it; None where not even its drive is there.

    Raises OSError or ValueError for what cannot be a path.
    """
    for place in (path.absolute(), *path.absolute().parents):
        with suppress(FileNotFoundError, NotADirectoryError):
            place.stat()  # `exists` hides other errors in some versions of Python
            return place
    return None


def paths_given(paths: str | Path | Iterable[str | Path] | None) -> list[str | Path] | None:
    """One path, or several, as a list; None for those of the last run. Raises ConfigError for one that is none."""
    if paths is None:
        return None
    several = list(paths) if isinstance(paths, Iterable) and not isinstance(paths, (str, bytes)) else [paths]
    for path in several:
        if not isinstance(path, (str, os.PathLike)):
            raise ConfigError(f"A path was given as {path!r}; it must be a text or a Path, or a list of these.")
    return several


class Settings(BaseSettings):
    """Everything a user can set. `init` writes each with its default and its line of why."""

    model_config = SettingsConfigDict(env_prefix=ENVIRONMENT, extra="forbid", frozen=True)

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
    empty_chunks: int = Field(
        10, ge=0, description="If the first so many chunks give not one entity, `index` stops; 0: it goes on."
    )

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
    batch: int = Field(
        0, ge=0, le=4096, description="Tokens of a prompt the model reads at once; 0 measures this machine and chooses."
    )
    threads: int = Field(0, ge=0, description="Processor threads; 0 uses all usable cores.")
    gpu_layers: int = Field(-1, ge=-1, description="Model layers put on a GPU; -1 means all, where the build can.")

    @model_validator(mode="after")
    def _overlap_below_size(self) -> Self:
        if self.chunk_overlap >= self.chunk_size:
            raise PydanticCustomError(
                "chunks", "chunk_overlap must be less than chunk_size. Lower the first, or raise the second"
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """What is given, then the environment; no `.env`, no secrets. `load_settings` puts the file beneath both."""
        return init_settings, _Environment(settings_cls)


class _Environment(EnvSettingsSource):
    """Variables of the environment; of lists as JSON, or as they are, to be refused with the other wrong values."""

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        try:
            return super().decode_complex_value(field_name, field, value)
        except ValueError:
            return value


def load_settings(folder: Path, **overrides: Any) -> Settings:
    """Settings of the project in `folder`: defaults, then its file, then the environment, then `overrides`.

    Overrides that are None count as not given. Raises ConfigError naming the setting and what it may be.
    """
    path = folder / SETTINGS_FILE
    written, given = _read(path), {name: value for name, value in overrides.items() if value is not None}
    environment = _Environment(Settings)()
    values = written | environment | given
    try:
        return Settings(**values)
    except ValidationError as error:
        sources = dict.fromkeys(written, str(path)) | dict.fromkeys(environment, _THERE) | dict.fromkeys(given, "")
        raise ConfigError(" ".join(_explain(item, values, sources) for item in error.errors())) from error


def model_in_file(folder: Path) -> str:
    """The model that the settings file of the project names, or the default; options and environment do not count."""
    return str(_read(folder / SETTINGS_FILE).get("model", Settings.model_fields["model"].default))


def in_environment(name: str) -> bool:
    """Whether the environment gives this setting."""
    return _variable(name) in os.environ


def settings_text(given: Mapping[str, Any] | None = None) -> str:
    """A settings file that names every setting, with its default and its line of why.

    `given` are values that stand in place of the defaults.

    >>> 'max_gleanings = 1' in settings_text() and 'max_gleanings = 2' in settings_text({"max_gleanings": 2})
    True
    """
    values = given or {}
    lines = ["# Settings of this project. LOCALGRAPHRAG_NAME in the environment wins over this file.", ""]
    for name, field in Settings.model_fields.items():
        default = field.get_default()
        why = f"{field.description} Default: {_toml(default)}"
        lines += [f"# {line}" for line in textwrap.wrap(why, 110, break_long_words=False, break_on_hyphens=False)]
        lines += [f"{name} = {_toml(values.get(name, default))}", ""]
    return "\n".join(lines)


def _toml(value: Any) -> str:
    # JSON's strings, numbers, booleans and lists of them are TOML's too, but for one control character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _read(path: Path) -> dict[str, Any]:
    """What the settings file says; nothing where there is none."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"{path} is not valid TOML: {error}. Mend that line, or delete the file and run `localgraphrag init`."
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}. It must be a text file in UTF-8.") from error


def _explain(item: ErrorDetails, values: Mapping[str, Any], sources: Mapping[str, str]) -> str:
    """One wrong value: what was given where, and what it must be."""
    if not item["loc"]:  # of the one pair that must go together
        pair = " and ".join(_stated(name, values, sources) for name in ("chunk_overlap", "chunk_size"))
        return f"{pair} do not go together: {item['msg']}."
    name = str(item["loc"][0])
    if item["type"] == "extra_forbidden":
        where = f" ({sources[name]})" if sources[name] else ""
        return f"There is no setting '{name}'{where}. Known settings: {', '.join(Settings.model_fields)}."
    text = f"{_stated(name, values, sources)} was given; it must be {_wanted(Settings.model_fields[name])}."
    return text + (f" Change or unset it{_as_list(name)}." if sources[name] == _THERE else "")


def _stated(name: str, values: Mapping[str, Any], sources: Mapping[str, str]) -> str:
    """A setting as it was written where it was given, and the place in brackets."""
    if name not in values:
        return f"{name} = {Settings.model_fields[name].default} (the default)"
    if sources[name] == _THERE:
        return f"{_variable(name)}={os.environ.get(_variable(name), values[name])!r} ({_THERE})"
    shown = json.dumps(values[name], ensure_ascii=False, default=str)
    return f"{name} = {shown} ({sources[name]})" if sources[name] else f"{name} = {shown}"


def _variable(name: str) -> str:
    """The variable of a setting as it is spelt in the environment, where upper and lower case are alike."""
    wanted = ENVIRONMENT + name.upper()
    return next((spelt for spelt in os.environ if spelt.upper() == wanted), wanted)


def _wanted(field: FieldInfo) -> str:
    """What a setting may be, in words: of the field's type and bounds.

    >>> _wanted(Settings.model_fields["chunk_size"]), _wanted(Settings.model_fields["seed"])
    ('a whole number from 20 to 8000', 'a whole number, at least 0')
    """
    kind = field.annotation
    if kind not in _KINDS:
        return " or ".join(f'"{choice}"' for choice in get_args(kind))
    bounds = {name: getattr(bound, name) for bound in field.metadata for name in ("ge", "le") if hasattr(bound, name)}
    words = _KINDS[kind]
    if len(bounds) == 2:
        return f"{words} from {bounds['ge']} to {bounds['le']}"
    return words + "".join(f", at least {least}" for least in bounds.values())


_KINDS: dict[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list[str]: "a list of texts",
    list[int]: "a list of whole numbers",
}


def _as_list(name: str) -> str:
    """How a variable that is no list would be written as one; "" for a setting that is none."""
    kind, given = Settings.model_fields[name].annotation, os.environ.get(_variable(name), "")
    if kind not in (list[str], list[int]) or given.startswith("["):
        return ""
    parts = [part.strip() for part in given.split(",") if part.strip()]
    if kind == list[int]:
        parts = [part for part in parts if part.isdigit()] or ["0", "1"]
    items: list[Any] = [int(part) for part in parts] if kind == list[int] else parts
    return f": {_variable(name)}='{json.dumps(items, ensure_ascii=False)}'"
