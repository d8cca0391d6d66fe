"""A GGUF model in memory: weights, vocabulary, chat format. No generation here; that is `llamacpp.py`."""

from __future__ import annotations

import _thread
import ctypes
import logging
import threading
import warnings
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from localgraphrag.errors import ModelBrokenError, ModelError
from localgraphrag.llm.types import Message

log = logging.getLogger(__name__)

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""The format used for a model that does not bring a chat template."""

_SOON = 0.05  # seconds


@lru_cache(maxsize=1)
def _silence() -> Any:
    """Send llama.cpp's own messages to logging. The callback is kept alive by the cache."""
    import llama_cpp

    native = logging.getLogger("localgraphrag.llama")

    @llama_cpp.llama_log_callback  # type: ignore[untyped-decorator,unused-ignore]
    def callback(level: int, text: bytes, _data: Any) -> None:
        try:
            report = native.warning if level == 4 else native.debug  # 4: GGML_LOG_LEVEL_ERROR
            report(text.decode("utf-8", "replace").rstrip())
        except KeyboardInterrupt:  # what is raised here is lost in llama.cpp's C: say it again when that has returned
            threading.Timer(_SOON, _thread.interrupt_main).start()

    llama_cpp.llama_log_set(callback, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    return callback


def system_info() -> str:
    """What llama.cpp was built with, as it says itself: "AVX2 = 1 | ..."."""
    import llama_cpp

    _silence()
    return str(llama_cpp.llama_print_system_info().decode())


def slow_build_warning(info: str) -> str:
    """One line if this build of llama.cpp lacks the vector instructions that make it usable, else ""."""
    if any(f"{feature} = 1" in info for feature in ("AVX2", "NEON", "RVV", "VSX", "CUDA", "METAL", "Metal")):
        return ""
    return (
        "llama.cpp was built without AVX2 or NEON and will be several times slower than it could be. Rebuild it: "
        "unset SOURCE_DATE_EPOCH; pip install --force-reinstall --no-cache-dir --no-binary llama-cpp-python "
        "llama-cpp-python"
    )


def offloading(gpu_layers: int) -> bool:
    """Whether this build of llama.cpp can use a graphics card and is to put layers there."""
    import llama_cpp

    return bool(llama_cpp.llama_supports_gpu_offload()) and gpu_layers != 0


class GGUFModel:
    """A loaded model file.

    Parameters
    ----------
    path : the GGUF file.
    gpu_layers : layers to put on a GPU, -1 for all; ignored by a build without one.
    vocab_only : no weights, for counting tokens and for what the file's header says.

    Raises ModelBrokenError if llama.cpp cannot load the file.
    """

    def __init__(self, path: Path, *, gpu_layers: int = -1, vocab_only: bool = False) -> None:
        import llama_cpp

        _silence()
        self.path = path
        self.api = llama_cpp
        params = llama_cpp.llama_model_default_params()
        offloads = offloading(gpu_layers)
        params.n_gpu_layers = (9999 if gpu_layers < 0 else gpu_layers) if offloads else 0
        if not offloads:
            # weights are repacked for the processor: of a mapped file both the pages and the copy would stay in memory
            params.load_mode = llama_cpp.LLAMA_LOAD_MODE_NONE
        params.vocab_only = vocab_only
        self.handle = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        if not self.handle:
            raise ModelBrokenError(
                f"llama.cpp cannot load {path}. The file is damaged or of a kind this build does not know. "
                "Fetch it again with `localgraphrag models pull NAME`, or check it with `localgraphrag doctor`."
            )
        self.on_gpu = bool(offloads)
        self.vocab = llama_cpp.llama_model_get_vocab(self.handle)
        self.vocab_size: int = llama_cpp.llama_vocab_n_tokens(self.vocab)
        self.trained_context: int = self.number("context_length") or llama_cpp.llama_model_n_ctx_train(self.handle)

    def close(self) -> None:
        """Free the weights. Safe to call twice."""
        if self.handle:
            self.api.llama_model_free(self.handle)
            self.handle = None

    @property
    def forgets(self) -> bool:
        """Whether the last tokens can be taken out of the cache: not with recurrent and hybrid models."""
        return not (self.api.llama_model_is_recurrent(self.handle) or self.api.llama_model_is_hybrid(self.handle))

    # -- figures ---------------------------------------------------------------------------------------------

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of f16 keys and values that one token takes in the cache."""
        heads = self.number("attention.head_count") or 1
        width = self.number("embedding_length") // heads
        both = (self.number("attention.key_length") or width) + (self.number("attention.value_length") or width)
        return self.number("block_count") * (self.number("attention.head_count_kv") or heads) * both * 2

    def number(self, key: str) -> int:
        """A whole number from the header, `key` without the architecture's name; 0 if there is none."""
        value = self.metadata(f"{self.metadata('general.architecture')}.{key}")
        return int(value) if value.isdigit() else 0

    def metadata(self, key: str) -> str:
        """A value from the file's header as text; "" if there is none."""
        size = 1 << 16
        buffer = ctypes.create_string_buffer(size)
        found = self.api.llama_model_meta_val_str(self.handle, key.encode(), buffer, size)
        return buffer.value.decode("utf-8", "replace") if found >= 0 else ""

    # -- tokens ----------------------------------------------------------------------------------------------

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Token ids of a text. Only with `special` can control tokens come out."""
        data = text.encode("utf-8", "replace")
        size = len(data) + 8
        buffer = (ctypes.c_int32 * size)()
        found = self.api.llama_tokenize(self.vocab, data, len(data), buffer, size, False, special)
        if found < 0:
            raise ModelError(f"The tokenizer of {self.path.name} failed on a text of {len(data)} bytes.")
        return list(buffer[:found])

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text."""
        return self.tokenize(text, special=False) if text else []

    def count(self, text: str) -> int:
        """Number of tokens of plain text."""
        return len(self.encode(text))

    def token_bytes(self, tokens: Sequence[int]) -> list[bytes]:
        """The bytes of each token."""
        pieces = self._pieces
        return [pieces[token] for token in tokens]

    @cached_property
    def _pieces(self) -> list[bytes]:
        size = 1 << 10
        buffer = ctypes.create_string_buffer(size)
        pieces = []
        for token in range(self.vocab_size):
            length = self.api.llama_token_to_piece(self.vocab, token, buffer, size, 0, True)
            pieces.append(buffer.raw[: max(length, 0)])
        return pieces

    @cached_property
    def end_tokens(self) -> frozenset[int]:
        """Tokens that end a reply."""
        return frozenset(t for t in range(self.vocab_size) if self.api.llama_vocab_is_eog(self.vocab, t))

    @cached_property
    def matcher_tokenizer(self) -> Any:
        """The vocabulary as llguidance sees it, built from the tokens' bytes (about a second)."""
        from llguidance.llamacpp import lltokenizer_from_vocab

        # outlines' own LlamaCppTokenizer loses tokens over 32 bytes and lets control tokens into strings
        with warnings.catch_warnings():
            # llguidance asks by a name that llama-cpp-python has renamed, once per token of the vocabulary
            warnings.simplefilter("ignore", DeprecationWarning)
            return lltokenizer_from_vocab(self.vocab, eos_token=sorted(self.end_tokens) or None)

    # -- chat format -----------------------------------------------------------------------------------------

    def chat_segments(self, messages: Sequence[Message]) -> list[list[int]]:
        """Tokens of a conversation, ready for the assistant's next words, in 2n + 1 segments for n messages.

        Segment 2i is the format before message i, segment 2i + 1 its content, the last one the format after the
        last message. Contents are tokenized apart and with special tokens off, so that no text can become a
        control token and equal prefixes have equal tokens.

        Raises ModelError if the model's chat template refuses such a conversation.
        """
        import jinja2

        marks = [f"\ue000{i}\ue001" for i in range(len(messages))]
        shown = [{"role": m.role, "content": mark} for m, mark in zip(messages, marks, strict=True)]
        try:
            rest = self._template.render(
                messages=shown,
                add_generation_prompt=True,
                bos_token=self._piece_of("bos"),
                eos_token=self._piece_of("eos"),
            )
        except jinja2.TemplateError as error:
            raise ModelError(f"The chat template of {self.path.name} fails on the conversation: {error}") from error
        segments: list[list[int]] = []
        starts_with_bos = bool(self._piece_of("bos")) and rest.startswith(self._piece_of("bos"))
        for message, mark in zip(messages, marks, strict=True):
            before, found, rest = rest.partition(mark)
            if not found:
                raise ModelError(f"The chat template of {self.path.name} drops the {message.role} message.")
            segments += [self.tokenize(before, special=True), self.encode(message.content)]
        segments.append(self.tokenize(rest, special=True))
        if self.api.llama_vocab_get_add_bos(self.vocab) and not starts_with_bos:
            segments[0].insert(0, self.api.llama_vocab_bos(self.vocab))
        return segments

    def _piece_of(self, name: str) -> str:
        token = getattr(self.api, f"llama_vocab_{name}")(self.vocab)
        return self._pieces[token].decode("utf-8", "replace") if token >= 0 else ""

    @cached_property
    def _template(self) -> Any:
        import jinja2
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        def fail(message: str) -> None:
            raise ModelError(f"The chat template of {self.path.name} refuses the conversation: {message}")

        # the template comes with the model file: it runs sandboxed
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.globals["raise_exception"] = fail
        text = self.metadata("tokenizer.chat_template") or CHATML
        try:
            return environment.from_string(text)
        except jinja2.TemplateError as error:
            log.warning("The chat template of %s cannot be read (%s); using ChatML.", self.path.name, error)
            return environment.from_string(CHATML)
