"""The command line: each verb is the library's verb of the same name, its result printed.

Only this file's own imports run before a verb does, so that `--help` answers at once. Results go to stdout, progress
to stderr. Exit codes: 0 done; 1 failed items under `--strict`, or a broken index; 2 wrong use, or work that could not
start; 130 stopped with Ctrl-C; 141 nobody reads the output to its end.
"""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from localgraphrag import console
from localgraphrag.errors import ConfigError, LocalGraphRAGError

if TYPE_CHECKING:
    from localgraphrag.progress import Progress
    from localgraphrag.project import Project
    from localgraphrag.search.answer import Answer

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="GraphRAG on your own machine: index a folder of documents, ask questions of the whole of it.",
)  # fmt: skip

ProjectOption = Annotated[Path, typer.Option("--project", "-p", metavar="DIR", help="The project's folder.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
PathsArgument = Annotated[  # no Path, which takes an empty one for the current folder
    list[str] | None, typer.Argument(help="Files and folders; those of last time by default.")
]
ModelOption = Annotated[str | None, typer.Option(metavar="NAME|FILE", help="Model, in place of the project's own.")]
GleaningsOption = Annotated[int | None, typer.Option(min=0, help="Times to ask whether entities were missed.")]
ClaimsOption = Annotated[bool | None, typer.Option("--claims/--no-claims", help="Extract claims, or do not.")]
LevelsOption = Annotated[str | None, typer.Option(metavar="0,1,..", help="Levels whose reports are written now.")]
SeedOption = Annotated[int | None, typer.Option(min=0, help="Seed, in place of the project's own.")]
IncludeOption = Annotated[
    list[str] | None, typer.Option(metavar="GLOB", help="Files to read, in place of the project's own; repeatable.")
]
ExcludeOption = Annotated[list[str] | None, typer.Option(metavar="GLOB", help="Files to leave out, in the same way.")]
TextColumnOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Column or field of CSV and JSONL files that holds the text.")
]
TitleColumnOption = Annotated[str | None, typer.Option(metavar="NAME", help="Column or field that holds the title.")]


def main() -> None:
    """Run the command line and exit: an error made on purpose, or a file in the way, is one line and exit code 2."""
    if sys.stdout is None:  # Python's way of saying that it was closed; the next file opened would take its place
        _stop("Standard output is closed, so nothing can be printed. Leave it open, or send it to a file or /dev/null.")
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    # an error is told in words; llama.cpp's own lines about it are shown with --debug
    logging.getLogger("localgraphrag.llama").setLevel(logging.NOTSET if debug else logging.CRITICAL)
    try:
        try:
            app(arguments, prog_name="localgraphrag")
        finally:
            sys.stdout.flush()  # here, where an error can still be told
    except SystemExit as stopped:
        if isinstance(stopped.__context__, BrokenPipeError):  # typer's own way with it: exit code 1
            _unread()
        raise
    except BrokenPipeError:
        _unread()
    except LocalGraphRAGError as error:
        if debug:
            raise
        _stop(str(error))
    except KeyboardInterrupt:
        _stop("Stopped.", code=130)
    except OSError as error:
        if debug:
            raise
        _stop(_in_words(error))


def _in_words(error: OSError) -> str:
    """Which file is in the way, and what to do."""
    if not isinstance(error.filename, str):
        return f"The output, or a file, cannot be written: {error.strerror or error}. See whether the disk is full."
    remedy = "Name another place, or see what is there and who may write to it."
    return f"{Path(error.filename).absolute()} cannot be used: {error.strerror}. {remedy}"


def _unread() -> NoReturn:
    """End quietly, as a program does that `head` has read enough of."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes what is left when it ends
    sys.exit(141)


@contextmanager
def _at_work() -> Iterator[console.ProgressView]:
    """Progress on stderr while something long runs; Ctrl-C says that nothing is lost and exits with 130."""
    try:
        with console.ProgressView() as view:
            yield view
    except KeyboardInterrupt:
        _stop("Stopped. What was finished is kept; run the same command again to go on.", code=130)


def _stop(text: str, code: int = 2) -> NoReturn:
    console.note(f"localgraphrag: {text}")
    sys.exit(code)


def _version(wanted: bool) -> None:
    if wanted:
        from localgraphrag import __version__

        console.write(f"localgraphrag {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
) -> None:
    """Options of every command."""


# A project


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The project's folder; made if it is not there.")],
    model: ModelOption = None,
) -> None:
    """Write localgraphrag.toml, every setting with its why."""
    from localgraphrag import Project
    from localgraphrag.config import SETTINGS_FILE

    project = Project.init(folder, model=model)
    console.write(str(project.folder / SETTINGS_FILE))
    console.note(f"Next: localgraphrag index PATHS --project {shlex.quote(str(project.folder))}")


@app.command()
def index(
    paths: PathsArgument = None,
    project: ProjectOption = Path(),
    model: ModelOption = None,
    max_gleanings: GleaningsOption = None,
    claims: ClaimsOption = None,
    levels: LevelsOption = None,
    seed: SeedOption = None,
    include: IncludeOption = None,
    exclude: ExcludeOption = None,
    text_column: TextColumnOption = None,
    title_column: TitleColumnOption = None,
    drop: Annotated[bool, typer.Option("--drop", help="Drop what is of paths gone or named no more.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if anything failed or was skipped, but for links out.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Read documents and build the index.

    Extracts, builds the graph, divides it, writes reports. The index holds exactly the paths named: does only what is
    missing or changed in them, and drops what is gone. Stop it at any moment and run it again: it goes on. The index
    keeps its model; the other options are for this run, and what is to stay belongs in localgraphrag.toml.
    """
    from localgraphrag import report_view

    opened = _open(
        project, model=model, max_gleanings=max_gleanings, claims=claims, report_levels=_levels(levels), seed=seed,
        include=include or None, exclude=exclude or None, text_column=text_column, title_column=title_column,
    )  # fmt: skip
    with opened, _at_work() as view:
        summary = opened.index(paths or None, drop=drop, progress=_into(view))
    if as_json:
        console.write_json(summary)
    else:
        report_view.print_summary(summary)
    if strict and not summary.complete:
        raise typer.Exit(1)


@app.command()
def query(
    question: Annotated[str, typer.Argument(help="In words, between quotation marks.")],
    project: ProjectOption = Path(),
    method: Annotated[
        str, typer.Option(metavar="global|ts|ss", help="Reports of a level, all texts, or vectors.")
    ] = "global",
    level: Annotated[int, typer.Option(min=0, help="Level of the reports, 0 the coarsest.")] = 0,
    model: ModelOption = None,
    seed: SeedOption = None,
    as_json: JsonOption = False,
    show_record: Annotated[bool, typer.Option("--show-record", help="Print how the answer came about.")] = False,
) -> None:
    """Answer a question, with citations.

    Each citation leads to a report or chunk, and from there to characters of a document. Reports of a level that are
    not written yet are written first.
    """
    with _open(project, model=model) as opened, _at_work() as view:
        answer = opened.query(question, method, level=level, seed=seed, progress=_into(view))  # type: ignore[arg-type]
    if as_json:
        console.write_json(answer)
    else:
        _print_answer(opened, answer, record=show_record)


@app.command()
def compare(
    question: Annotated[str, typer.Argument(help="In words, between quotation marks.")],
    project: ProjectOption = Path(),
    conditions: Annotated[str | None, typer.Option(metavar="C0,..,TS,SS", help="Which; all by default.")] = None,
    model: ModelOption = None,
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer a question by every method, side by side.

    From the reports of each level (C0 to C3), from all texts (TS) and by vectors (SS), with calls, tokens and seconds.
    """
    from localgraphrag import report_view
    from localgraphrag.search.question import CONDITIONS

    chosen = _names("--conditions", conditions, CONDITIONS)
    with _open(project, model=model) as opened, _at_work() as view:
        comparison = opened.compare(question, chosen, seed=seed, progress=_into(view))
    if as_json:
        console.write_json(comparison)
    else:
        report_view.print_comparison(comparison)
    if not comparison.answers:
        raise typer.Exit(2)


@app.command()
def status(project: ProjectOption = Path(), as_json: JsonOption = False) -> None:
    """What the index holds and what it cost."""
    from localgraphrag import report_view
    from localgraphrag.llm.catalog import model_name

    found = _open(project).status()
    name = model_name(found.model)
    named = found if name == found.model else replace(found, model=f"{name} (sha256 {found.model})")
    console.write_json(found) if as_json else report_view.print_status(named)


@app.command()
def show(
    what: Annotated[str, typer.Argument(help="An id or its beginning, a name, a path; or the name of a list.")],
    project: ProjectOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """One thing of the index, its links and its source.

    An entity, relationship, claim, community with its report, chunk, document or answer: what links to it, and the text
    it comes from with the words in question marked. Lists: `documents`, `entities`, `relationships`, `claims`,
    `communities`, `reports`, `answers`, a level (`C0`), the path of a table.
    """
    from localgraphrag import report_view

    found = _open(project).show(what)
    console.write_json(found) if as_json else report_view.print_shown(found)


@app.command()
def estimate(
    paths: PathsArgument = None,
    project: ProjectOption = Path(),
    model: ModelOption = None,
    max_gleanings: GleaningsOption = None,
    claims: ClaimsOption = None,
    levels: LevelsOption = None,
    seed: SeedOption = None,
    include: IncludeOption = None,
    exclude: ExcludeOption = None,
    text_column: TextColumnOption = None,
    title_column: TitleColumnOption = None,
    as_json: JsonOption = False,
) -> None:
    """What indexing would take, before you start.

    Chunks, reports, model calls, tokens and minutes of `index` with the same options, from a probe of this machine that
    takes about five seconds. What is done already costs nothing. Writes nothing.
    """
    from localgraphrag import report_view

    opened = _open(
        project, model=model, max_gleanings=max_gleanings, claims=claims, report_levels=_levels(levels), seed=seed,
        include=include or None, exclude=exclude or None, text_column=text_column, title_column=title_column,
    )  # fmt: skip
    with opened, _at_work() as view:
        found = opened.estimate(paths or None, progress=_into(view))
    console.write_json(found) if as_json else report_view.print_estimate(found)


@app.command()
def verify(project: ProjectOption = Path(), as_json: JsonOption = False) -> None:
    """Whether the index is sound.

    Looks at references, spans and partitions. Exits with 1 and lists what is wrong if it is not sound.
    """
    problems = _open(project).verify()
    if as_json:
        console.write_json({"sound": not problems, "problems": problems})
    else:
        console.write("\n".join(problems) or "The index is sound.")
    if problems:
        raise typer.Exit(1)


@app.command()
def demo(
    project: Annotated[Path, typer.Option("--project", "-p", metavar="DIR", help="Where to put it.")] = Path(
        "demo-project"
    ),
    model: ModelOption = None,
    question: Annotated[str, typer.Option(help="Another question.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Index the demo corpus and answer a question.

    Sixteen papers from a small harbour town, packaged with the program, and a question that no single one answers.
    """
    from localgraphrag import report_view
    from localgraphrag.demo import corpus_folder, facts
    from localgraphrag.search.question import check_question

    asked = check_question(question) if question else facts().of_type("global")[0].question
    # reports of finer levels are written when a question first asks for them
    with _open(project, model=model, report_levels=[0]) as opened, _at_work() as view:
        _check_for_demo(opened, corpus_folder())
        summary = opened.index(corpus_folder(), progress=_into(view))
        answer = opened.query(asked, level=0, progress=_into(view))
    if as_json:
        console.write_json({"index": opened.index_path, "summary": summary, "answer": answer})
        return
    report_view.print_summary(summary)
    console.write(f"\n{asked}\n")
    _print_answer(opened, answer)
    here = f" --project {shlex.quote(str(project))}"
    cited = answer.citations[0].id if answer.citations else "Silka Morrow"
    console.write(
        f"\nThe index is {opened.index_path.absolute()}. Try next:\n"
        f'  localgraphrag query "Who has a claim to the Long Pier, and how strong is each claim?"{here}\n'
        f'  localgraphrag show "{cited}"{here}\n'
        f'  localgraphrag compare "{asked}"{here}'
    )


def _open(folder: Path, **overrides: Any) -> Project:
    from localgraphrag import Project

    return Project.open(folder, **overrides)


def _check_for_demo(project: Project, corpus: Path) -> None:
    """Raise ConfigError if the folder has an index of something else."""
    from localgraphrag.remembered import last_run, listed

    # told by the end of its path: the program may have moved
    others = [path for path in last_run(project.folder).paths if path.parts[-3:] != corpus.parts[-3:]]
    if others:
        raise ConfigError(
            f"The index in {project.folder.absolute()} is of {listed(others)}. Give the demo another folder with "
            "`--project DIR`. Nothing has been changed."
        )


def _names(option: str, given: str | None, known: Iterable[str]) -> list[str] | None:
    """The names in a list with commas; None for all."""
    if given is None:
        return None
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not names:
        raise ConfigError(f"{option} was given '{given}'; name some of {', '.join(known)}, or leave it out for all.")
    return names


def _levels(given: str | None) -> list[int] | None:
    if given is None:
        return None
    try:
        return [int(level.strip().upper().removeprefix("C")) for level in given.split(",")]
    except ValueError:
        raise ConfigError(f"--levels was given '{given}'; give numbers, as in 0 or 0,1.") from None


def _into(view: console.ProgressView) -> Callable[[Progress], None]:
    """Progress of the library, drawn: tokens per second and the time that is left."""

    def report(progress: Progress) -> None:
        finished = progress.detail == "done"
        if progress.stage == "report" and progress.total and not progress.done and not progress.tokens:
            view.say(progress.detail)  # how many calls there will be, and how long that will take
        view.update(progress.stage, progress.done, progress.total, console.pace(progress), finished=finished)

    return report


def _print_answer(project: Project, answer: Answer, *, record: bool = False) -> None:
    from localgraphrag import report_view, tables

    with project.store() as store:
        documents = {document.id: document for document in tables.load_documents(store)}
    report_view.print_answer(answer, documents, record=record)


# The machine


@app.command()
def doctor(project: ProjectOption = Path(), model: ModelOption = None, as_json: JsonOption = False) -> None:
    """What this machine can do, and remedies.

    Checks model, memory, context, processor, graphics card, threads and disk. The models are hashed anew.
    """
    with _open(project, model=model) as opened, _at_work() as view:
        checks = opened.doctor(cli_models._bytes_into(view))
    if as_json:
        console.write_json(checks)
    else:
        console.write_table(("", "", ""), [(check.state, check.name, check.found) for check in checks])
        for check in checks:
            if check.remedy:
                console.write(f"\n{check.name}: {check.remedy}")
    if any(check.state == "fail" for check in checks):
        raise typer.Exit(2)


# Commands of their own files, which use the options and helpers above

from localgraphrag import cli_evaluate, cli_lab, cli_measures, cli_models  # noqa: E402

models_app = typer.Typer(no_args_is_help=True, help="Model files: list, pull, add, path.")
app.add_typer(models_app, name="models")
evaluate_app = typer.Typer(no_args_is_help=True, help="The paper's evaluation, step by step, each resumable.")
app.add_typer(evaluate_app, name="evaluate")
cli_models.register(models_app)
cli_evaluate.register(evaluate_app)
cli_measures.register(app, evaluate_app)
cli_lab.register(app)
