"""Recorded answers: what a model said once, kept in a small file, said again where there is no model.

`RecordingEngine` listens to an engine at work and writes a file; `RecordedEngine` answers from it. A file has the
replies, the lengths of the tokens of every text that was cut into tokens, and the counts of those that were counted, so
that chunks and budgets come out as they did with the model. It does not have the prompts.

The file is gzipped JSON lines: first what was recorded, then one line per reply, text and prompt, each under a hash;
and per vector, where an embedder was recorded as well (`llm.recorded_vectors`).
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

from localgraphrag.errors import ModelBrokenError, ModelMissingError
from localgraphrag.llm import output
from localgraphrag.llm.scripted import ScriptedEngine, WordTokenizer
from localgraphrag.llm.types import Completion, Engine, Message, Request, Tokenizer, Usage
from localgraphrag.llm.units import content_hash

FORMAT = 1

_Note = Callable[[str, str, Any], None]


def request_digest(history: Sequence[Message], request: Request) -> str:
    """Names a request by all that decides its reply: every message so far, the grammar, the sampling.

    `history` ends with the request's own prompt. At temperature 0 the seed decides nothing and is left out.
    """
    seed = str(request.seed) if request.temperature else ""
    sampling = (str(request.max_tokens), str(request.temperature), seed)
    return content_hash(output.grammar(request.output), *sampling, _prompt_digest(history))


def _prompt_digest(messages: Sequence[Message]) -> str:
    return content_hash(*(part for message in messages for part in (message.role, message.content)))


class RecordingEngine:
    """Passes everything on to an engine and notes what it says.

    Parameters
    ----------
    engine : the one that answers; closed with this one.
    path : where `close` or `save` writes the recording. A file that is there is replaced.
    """

    def __init__(self, engine: Engine, path: Path | str) -> None:
        self.engine, self.path = engine, Path(path)
        self.identity, self.context_tokens = engine.identity, engine.context_tokens
        self._rows: dict[tuple[str, str], Any] = {}
        self.tokenizer: Tokenizer = _RecordingTokenizer(engine.tokenizer, self.note)
        self._closed = False

    @property
    def on_heartbeat(self) -> Any:
        """The engine's, where it has one; see `llm.llamacpp`."""
        return getattr(self.engine, "on_heartbeat", None)

    @on_heartbeat.setter
    def on_heartbeat(self, callback: Any) -> None:
        self.engine.on_heartbeat = callback  # type: ignore[attr-defined]

    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """See `Engine.run`."""
        return self.engine.run(self._overheard(request, request.prefix) for request in requests)

    def prompt_tokens(self, request: Request) -> int:
        """See `Engine.prompt_tokens`."""
        count = self.engine.prompt_tokens(request)
        self.note("prompt", _prompt_digest((*request.prefix, Message("user", request.prompt))), count)
        return count

    def save(self) -> None:
        """Write what was noted so far."""
        head = {"format": FORMAT, "model": self.identity, "context_tokens": self.context_tokens}
        rows = [head, *({kind: name, "is": value} for (kind, name), value in self._rows.items())]
        text = "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_name(self.path.name + ".part")
        part.write_bytes(gzip.compress(text.encode(), mtime=0))
        part.replace(self.path)

    def close(self) -> None:
        """Write the recording and close the engine. Safe to call twice."""
        if not self._closed:
            self._closed = True
            self.save()
            self.engine.close()

    def note(self, kind: str, name: str, value: Any) -> None:
        """Keep a value under its kind and a hash; the first one given stays."""
        self._rows.setdefault((kind, name), value)

    def _overheard(self, request: Request, before: Sequence[Message]) -> Request:
        """The request, with an ear at its reply and at every later turn of the conversation."""
        history = (*before, Message("user", request.prompt))

        def then(reply: Completion) -> Request | None:
            kept = {"key": reply.key, "text": reply.text, "finish": reply.finish, "error": reply.error}
            self.note("reply", request_digest(history, request), {**kept, "usage": astuple(reply.usage)})
            following = request.then(reply) if request.then else None
            return following and self._overheard(following, (*history, Message("assistant", reply.text)))

        return replace(request, then=then)


class _RecordingTokenizer:
    """A tokenizer that notes the lengths of the tokens it makes, and the counts where only these were asked for."""

    def __init__(self, tokenizer: Tokenizer, note: _Note) -> None:
        self._tokenizer, self._note = tokenizer, note

    def encode(self, text: str) -> list[int]:
        tokens = self._tokenizer.encode(text)
        self._note("tokens", content_hash(text), [len(piece) for piece in self._tokenizer.token_bytes(tokens)])
        return tokens

    def count(self, text: str) -> int:
        count = self._tokenizer.count(text)
        self._note("count", content_hash(text), count)
        return count

    def token_bytes(self, tokens: Sequence[int]) -> list[bytes]:
        return self._tokenizer.token_bytes(tokens)


class RecordedEngine(ScriptedEngine):
    """Answers from a file that `RecordingEngine` wrote.

    It knows the replies to the very requests that were made then: the same documents, settings, prompts and questions.
    Any other comes back with `finish="error"`. Usage, with its seconds, is that of the recording.

    Parameters
    ----------
    path : the recording.

    Raises ModelMissingError when it is not there, ModelBrokenError when it is not a recording.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        head, rows = read_recording(self.path)
        super().__init__(self._no_script, context_tokens=head["context_tokens"])
        self.identity = f"recorded:{head['model']}"
        self._replies, self._prompts = rows["reply"], rows["prompt"]
        self.tokenizer = RecordedTokenizer(rows["tokens"], rows["count"])

    def prompt_tokens(self, request: Request) -> int:
        """As the model counted them; roughly, for a prompt that it was not asked about."""
        known = self._prompts.get(_prompt_digest((*request.prefix, Message("user", request.prompt))))
        return super().prompt_tokens(request) if known is None else int(known)

    def _complete(self, history: tuple[Message, ...], request: Request) -> Completion:
        self.requests.append(request)
        found = self._replies.get(request_digest(history, request))
        if found is None:
            return Completion(request.key, "", "error", Usage(calls=1), self._unknown(request))
        return Completion(request.key, found["text"], found["finish"], Usage(*found["usage"]), found["error"])

    def _unknown(self, request: Request) -> str:
        return (
            f"{request.key or 'A request'} is not among the {len(self._replies)} answers in {self.path.name}, which "
            "belong to the documents, settings, prompts and questions that they were recorded with. To ask the model "
            "itself, set `REAL_MODEL = True` in the notebook's cell “Which model” and run from there; elsewhere open "
            "the project without `engine`."
        )

    @staticmethod
    def _no_script(_messages: tuple[Message, ...], _request: Request) -> str:
        raise NotImplementedError("a recording has no script")


class RecordedTokenizer(WordTokenizer):
    """Cuts recorded texts as the model did, and others into words.

    Parameters
    ----------
    lengths : bytes of each token, by the hash of a text.
    counts : number of tokens, by the hash of a text.
    """

    def __init__(self, lengths: dict[str, list[int]], counts: dict[str, int]) -> None:
        super().__init__()
        self._lengths, self._counts = lengths, counts
        self._numbers: dict[bytes, int] = {}
        self._tokens: list[bytes] = []

    def encode(self, text: str) -> list[int]:
        """Numbers of the tokens of `text`, given out in order of first appearance."""
        return [self._number(piece) for piece in self._pieces(text)]

    def count(self, text: str) -> int:
        """Number of tokens of `text`."""
        name = content_hash(text)
        if name in self._counts:
            return self._counts[name]
        return len(self._lengths[name]) if name in self._lengths else super().count(text)

    def token_bytes(self, tokens: Sequence[int]) -> list[bytes]:
        """The bytes of each token."""
        return [self._tokens[token] for token in tokens]

    def _pieces(self, text: str) -> list[bytes]:
        lengths = self._lengths.get(content_hash(text))
        if lengths is None:
            return super().token_bytes(super().encode(text))
        data, pieces, at = text.encode("utf-8", "surrogatepass"), [], 0
        for length in lengths:
            pieces.append(data[at : at + length])
            at += length
        return pieces

    def _number(self, piece: bytes) -> int:
        if piece not in self._numbers:
            self._numbers[piece] = len(self._tokens)
            self._tokens.append(piece)
        return self._numbers[piece]


def read_recording(path: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The first line of a recording, and its rows by kind and hash. Raises as `RecordedEngine` does."""
    kinds = ("reply", "tokens", "count", "prompt", "embedder", "vector")
    rows: dict[str, dict[str, Any]] = {kind: {} for kind in kinds}
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            head: dict[str, Any] = json.loads(next(lines))
            if head["format"] != FORMAT:
                raise ValueError(f"its format is {head['format']}, not {FORMAT}")
            for line in lines:
                (kind, name), (_, value) = json.loads(line).items()
                rows[kind][name] = value
    except FileNotFoundError:
        raise ModelMissingError(
            f"There is no recording at {path}. `python scripts/record_demo.py` makes the demo's with the real model."
        ) from None
    except (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError, AttributeError, StopIteration) as error:
        raise ModelBrokenError(
            f"{path} is not a recording of answers, or is damaged: {error!r}. Record it anew."
        ) from error
    return head, rows
