import hashlib
import io
import json
import os
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localgraphrag.documents import Skipped, read_documents
from localgraphrag.errors import ConfigError, DocumentError, NoDocumentsError
from localgraphrag.readers import pdf, word
from localgraphrag.readers.text import clean, decode
from localgraphrag.readers.web import read_html
from localgraphrag.readers.word import read_docx

SAMPLES = {
    "en": "It was late. The quick brown fox went home.\n",
    "fr": "Le garçon était très fâché, où est-il allé? Ça va.\n",
    "pl": "Zażółć gęślą jaźń. Święta w Łodzi były piękne.\n",
    "tr": "Şişli'de ığdır çayı içen güzel öğretmen.\n",
    "ru": "Однажды, в студеную зимнюю пору, я из лесу вышел.\n",
    "el": "Η γρήγορη αλεπού πηδά πάνω από το τεμπέλικο σκυλί.\n",
    "he": "בראשית ברא אלהים את השמים ואת הארץ והארץ היתה תהו.\n",
    "ar": "في البدء خلق الله السماوات والأرض وكانت الأرض خربة.\n",
    "ja": "むかしむかし、あるところに、おじいさんが住んでいました。\n",
    "ko": "옛날 옛적에 호랑이가 담배 피우던 시절에.\n",
    "zh": "从前有座山，山里有座庙，庙里有个老和尚。\n",
}
ENCODINGS = {
    "en": ["cp500", "cp037"], "fr": ["cp1252"], "pl": ["cp1250", "iso8859-2"], "tr": ["cp1254"],
    "ru": ["cp1251", "koi8-r", "cp866"], "el": ["cp1253"], "he": ["cp1255"], "ar": ["cp1256"],
    "ja": ["shift_jis", "euc_jp", "iso2022_jp"], "ko": ["euc_kr", "iso2022_kr"], "zh": ["gb18030"],
}  # fmt: skip
UNICODE = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def read(path, **options):
    return read_documents([path], **options)


def sources(reading):
    return [source for document in reading.documents for source in document.sources]


def reasons(reading):
    return {skip.path: skip.reason for skip in reading.skipped}


def a_pdf(*pages, title=""):
    """A minimal PDF; each page is a list of lines."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for lines in pages:
        text = b" T* ".join(b"(%b) Tj" % line.encode("latin-1") for line in lines)
        stream = b"BT /F1 12 Tf 14 TL 72 700 Td %b ET" % text
        objects.append(b"<< /Length %d >>\nstream\n%b\nendstream" % (len(stream), stream))
        kids.append(b"%d 0 R" % (len(objects) + 1))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % len(objects)
        )
    objects[1] = b"<< /Type /Pages /Kids [%b] /Count %d >>" % (b" ".join(kids), len(kids))
    objects.append(b"<< /Title (%b) >>" % title.encode())
    out = bytearray(b"%PDF-1.4\n")
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n%b" % (len(objects) + 1, table)
    out += b"trailer << /Size %d /Root 1 0 R /Info %d 0 R >>\nstartxref\n%d\n%%%%EOF" % (
        len(objects) + 1,
        len(objects),
        start,
    )
    return bytes(out)


def encrypted(data, password):
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(data)))
    writer.encrypt(password, owner_password="owner", algorithm="AES-256")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def a_docx(build, title=""):
    import docx

    document = docx.Document()
    build(document)
    document.core_properties.title = title
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


# documents


def test_a_document(tmp_path):
    reading = read(write(tmp_path, {"notes/harbour_board.txt": "\ufeffOne\r\ntwo\rthree"}))
    (document,) = reading.documents
    assert document.text == "One\ntwo\nthree"
    assert document.id == hashlib.sha256(document.text.encode()).hexdigest()
    assert document.sources == ("notes/harbour_board.txt",)
    assert document.title == "Harbour board"
    assert reading.skipped == ()


def test_same_text_is_one_document_with_the_title_of_the_first_source(tmp_path):
    reading = read(write(tmp_path, {"b.txt": "Same\r\n", "a.txt": "Same\n", "c.txt": "Other"}))
    assert [(d.title, d.sources) for d in reading.documents] == [("A", ("a.txt", "b.txt")), ("C", ("c.txt",))]


def test_order_does_not_depend_on_the_order_given(tmp_path):
    write(tmp_path, {"x/b.txt": "b", "x/a.txt": "a", "y/a.txt": "c"})
    forward = read_documents([tmp_path / "x", tmp_path / "y"])
    assert forward == read_documents([tmp_path / "y", tmp_path / "x"])
    assert sources(forward) == ["x/a.txt", "x/b.txt", "y/a.txt"]


def test_overlapping_paths_are_read_once(tmp_path, monkeypatch):
    write(tmp_path, {"x/a.txt": "a"})
    assert sources(read_documents([tmp_path / "x", tmp_path / "x" / "a.txt"])) == ["a.txt"]
    assert sources(read_documents([tmp_path / "x", tmp_path])) == ["x/a.txt"]
    monkeypatch.chdir(tmp_path)
    assert sources(read(Path("x/a.txt"))) == ["x/a.txt"]


def test_progress(tmp_path):
    seen = []
    read(write(tmp_path, {"a.txt": "a", "b.txt": "b"}), progress=lambda *step: seen.append(step))
    assert seen == [(0, 2, "a.txt"), (1, 2, "b.txt")]


# folders


@pytest.mark.parametrize(
    ("include", "exclude", "found"),
    [
        (["*.md"], [], ["a.md", "x/b.MD", "x/y/c.md"]),
        (["x/*"], [], ["x/b.MD", "x/y/c.md"]),  # a glob that matches a folder takes what is in it
        (["x/*.md"], [], ["x/b.MD"]),
        (["x/**/*.md"], [], ["x/b.MD", "x/y/c.md"]),
        (["**/y/*"], [], ["x/y/c.md"]),
        ([], ["x"], ["a.md", "d.txt"]),
        ([], ["*.md"], ["d.txt"]),
        (["*.md"], ["[ab].md"], ["x/y/c.md"]),
        (["?.txt", "[!a].md"], ["y/"], ["d.txt", "x/b.MD"]),
    ],
)
def test_globs(tmp_path, include, exclude, found):
    write(tmp_path, {"a.md": "a", "x/b.MD": "b", "x/y/c.md": "c", "d.txt": "d"})
    assert sources(read(tmp_path, include=include, exclude=exclude)) == found


def test_hidden_files_and_links_out_are_not_read(tmp_path):
    write(
        tmp_path,
        {
            "out/secret.txt": "secret",
            "in/a.txt": "a",
            "in/.git/x.txt": "x",
            "in/.hidden.txt": "h",
            "in/~$a.docx": "lock",
        },
    )
    folder = tmp_path / "in"
    (folder / "away.txt").symlink_to(tmp_path / "out" / "secret.txt")
    (folder / "away").symlink_to(tmp_path / "out")
    (folder / "up").symlink_to(tmp_path)
    (folder / "loop").symlink_to(folder)
    (folder / "self").symlink_to(folder / "self")
    (folder / "peek.txt").symlink_to(folder / ".hidden.txt")
    (folder / "second.txt").symlink_to("a.txt")
    os.mkfifo(folder / "pipe")
    reading = read(folder)
    assert sources(reading) == ["a.txt", "second.txt"]
    assert set(reasons(reading)) == {"away", "away.txt", "up", "self", "peek.txt", "pipe"}
    assert "leads out of the folder" in reasons(reading)["away.txt"]
    assert {skip.path for skip in reading.skipped if skip.deliberate} == {"away", "away.txt", "up", "peek.txt"}
    assert reasons(reading)["pipe"] == "is not a regular file"


def test_a_projects_own_files_are_not_documents(tmp_path):
    write(
        tmp_path,
        {
            "localgraphrag.toml": "seed = 1",
            "index.db": "x",
            "index.db-wal": "x",
            "index.db.lock": "",
            "prompts/a.j2": "x",
            "a.txt": "a",
        },
    )
    assert read(tmp_path).skipped == () and sources(read(tmp_path)) == ["a.txt"]
    write(tmp_path / "other", {"prompts/a.txt": "a prompt that is a document"})
    assert "other/prompts/a.txt" in sources(read(tmp_path))


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path):
    write(tmp_path, {"a.txt": "a", "b.txt": "b", "c/d.txt": "d"})
    (tmp_path / "b.txt").chmod(0)
    (tmp_path / "c").chmod(0)
    try:
        assert set(reasons(read(tmp_path))) == {"b.txt", "c"}
    finally:
        (tmp_path / "c").chmod(0o700)


def test_name_that_is_not_utf8(tmp_path):
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("text")
    (document,) = read(tmp_path).documents
    document.sources[0].encode()
    document.title.encode()


@pytest.mark.parametrize("given", ["missing", "missing.txt"])
def test_missing_path(tmp_path, given):
    write(tmp_path, {"a.txt": "a"})
    with pytest.raises(NoDocumentsError, match=f"no file or folder at '.*{given}'"):
        read_documents([tmp_path, tmp_path / given])


def test_nothing_readable(tmp_path):
    for arrange, said in [
        ({}, "There is no document in"),
        ({"a.txt": ""}, r"Nothing in .* could be read: a.txt is empty\.$"),
        ({f"{n}.txt": b"\0" for n in range(6)}, r"could be read: .*; and 4 more\.$"),
    ]:
        with pytest.raises(NoDocumentsError, match=said) as caught:
            read(write(tmp_path, arrange))
        assert "\n" not in str(caught.value)
    with pytest.raises(NoDocumentsError, match="No file or folder was given"):
        read_documents([])
    with pytest.raises(NoDocumentsError, match="include and exclude globs leave"):
        read(tmp_path, include=["*.md"])


# what is skipped


def test_bad_files_are_named_and_the_others_go_on(tmp_path):
    import random

    noise = random.Random(0).randbytes(2000)
    files = {
        "empty.txt": b"", "blank.txt": b" \n\t\n", "wide_blank.txt": " \n\u3000".encode("utf-16"),
        "nul.txt": bytes(5000),
        "mostly_nul.txt": b"x" + bytes(5000) + b"y", "noise.dat": noise, "controls.txt": bytes(range(32)),
        "picture.txt": b"\x89PNG\r\n" + noise,
        "sheet.xlsx": b"PK\x03\x04" + noise, "old.docx": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + noise,
        "broken.docx": b"PK\x03\x04" + noise,
        "not.docx.docx": b"plain text", "data.json": b"{}", "book.ipynb": b"{}", "broken.pdf": b"%PDF-1.7\n" + noise,
        "encrypted.pdf": encrypted(a_pdf(["secret"]), "pass"), "scanned.pdf": a_pdf([], []), "nopages.pdf": a_pdf(),
        "empty.docx": a_docx(lambda document: None), "script.html": b"<script>var a = 1</script>", "good.txt": b"good",
        "no_rows.csv": b"text\n", "no.jsonl": b"[1]\n[2]",
    }  # fmt: skip
    reading = read(write(tmp_path, files))
    assert sources(reading) == ["good.txt"]
    said = reasons(reading)
    assert set(said) == set(files) - {"good.txt"}
    for name, part in {
        "empty.txt": "is empty", "blank.txt": "white space", "wide_blank.txt": "white space", "nul.txt": "only NUL",
        "mostly_nul.txt": "NUL",
        "noise.dat": "binary", "controls.txt": "binary", "picture.txt": "not read",
        "sheet.xlsx": "supported are txt", "old.docx": "encrypted",
        "broken.docx": "DOCX", "not.docx.docx": "broken DOCX", "data.json": "not read", "book.ipynb": "not read",
        "broken.pdf": "broken PDF",
        "encrypted.pdf": "is encrypted", "scanned.pdf": "without text (2 pages, perhaps scanned)",
        "nopages.pdf": "0 pages",
        "empty.docx": "without text", "script.html": "without text", "no_rows.csv": "no row with text",
        "no.jsonl": "no line is a JSON object",
    }.items():  # fmt: skip
        assert part in said[name], (name, said[name])


def test_what_shows_nothing_counts_as_empty(tmp_path):
    unseen = "\u200b\u00ad\ufeff \u2060\n"
    files = {
        "zero.txt": unseen, "page.html": f"<p>{unseen}&shy;</p>",
        "word.docx": a_docx(lambda document: document.add_paragraph("\u200b")),
        "rows.csv": f'text\n"{unseen}"\ngood\n', "joined.txt": "na\u200cme",
    }  # fmt: skip
    reading = read(write(tmp_path, files))
    assert sources(reading) == ["joined.txt", "rows.csv#2"]
    assert reasons(reading) == {
        "zero.txt": "holds only white space and characters of no width", "page.html": "is HTML without text",
        "word.docx": "is a DOCX file without text", "rows.csv": "1 of 2 rows have no text (the first is row 1)",
    }  # fmt: skip


def test_text_that_begins_like_a_binary_format(tmp_path):
    write(tmp_path, {"a.txt": "ID3 tags explained", "b.txt": "GGUF is a format", "c": "PK is a region"})
    assert sources(read(tmp_path)) == ["a.txt", "b.txt", "c"]


def test_data_files_are_read_as_text_when_asked_for(tmp_path):
    write(tmp_path, {"a.json": '{"a": 1}', "b.txt": "b"})
    assert sources(read(tmp_path)) == ["b.txt"]
    assert sources(read(tmp_path, include=["*.json"])) == ["a.json"]
    assert read(tmp_path / "a.json").documents[0].text == '{"a": 1}'


def test_a_few_nuls_are_forgiven(tmp_path):
    write(tmp_path, {"a.txt": b"a,b,c\n\0,2,3\n", "b.txt": b"cut off" + bytes(4000)})
    assert [document.text for document in read(tmp_path).documents] == ["a,b,c\n,2,3\n", "cut off"]


# encodings


@pytest.mark.parametrize("language", SAMPLES)
def test_encodings(language):
    for times in (2, 20):
        text = SAMPLES[language] * times
        for encoding in ENCODINGS[language] + UNICODE:
            assert decode(text.encode(encoding)) == text, encoding


def test_broken_utf8_is_still_utf8():
    text = SAMPLES["ru"] * 3
    assert decode(text.encode()[:-3]) == text[:-3] + "\ufffd"
    assert decode("hi there".encode("utf-16")[:-1]) == "hi ther\ufffd"
    assert decode(("IT WAS LATE and cold.\x85" * 3).encode("cp500")) == "IT WAS LATE and cold.\n" * 3
    assert decode("one © sign in 1990".encode("latin-1")) == "one © sign in 1990"


@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc", "Cn", "Co"]), min_size=1))
@settings(max_examples=200, deadline=None)
def test_utf8_is_read_as_it_stands(text):
    if text.strip() and not text.startswith("\ufeff"):
        assert decode(text.encode()) == clean(text)


@given(st.binary(max_size=400))
@settings(max_examples=300, deadline=None)
def test_any_bytes_give_clean_text_or_a_reason(data):
    try:
        text = decode(data)
    except DocumentError as error:
        assert str(error)
    else:
        text.encode("utf-8")
        assert text.strip() and "\0" not in text and "\r" not in text


# html


def test_html(tmp_path):
    page = """<!DOCTYPE html><html><head><title>The  board
      meets</title><style>p {}</style><script>if (a < b) "</p>";</script></head><body><nav><a>Home</a></nav>
      <h1>Head</h1><p>First <b>bold</b>
      words.</p><!-- note --><p>Second<br>line &amp; more</p><ul><li>one<li><p>two</p></ul>
      <table><tr><th>Name<th>Age</tr><tr><td>Ann</td><td>7</td></tr></table><pre>a
        b</pre><div>x</div>y</body></html>"""
    (document,) = read(write(tmp_path, {"a.html": page})).documents
    assert document.title == "The board meets"
    head = "Head\n\nFirst bold words.\n\nSecond\nline & more\n\n"
    expected = head + "- one\n- two\n\nName | Age\nAnn | 7\n\na\n        b\n\nx\ny\n"
    assert document.text == expected


@pytest.mark.parametrize(
    ("encoding", "declared"),
    [
        ("cp1256", "utf-8"), ("utf-8", "iso-8859-1"), ("cp1256", "windows-1256"), ("utf-8", "utf-16"),
        ("utf-8", "nonsense"),
        ("utf-16", "iso-8859-1"), ("utf-16-le", "utf-8"), ("cp1256", ""),
    ],
)  # fmt: skip
def test_html_that_misstates_its_charset(encoding, declared):
    meta = f"<meta http-equiv='Content-Type' content='text/html; charset={declared}'>"
    page = f"<html><head>{meta}<title>T</title><p>{SAMPLES['ar'] * 4}"
    assert read_html(page.encode(encoding))[0] == " ".join((SAMPLES["ar"] * 4).split("\n")).strip() + "\n"


def test_html_table_cells_that_hold_blocks():
    cells = "<table><tr><th>Born<td><p>1 May</p><p>London</p><td><tr><td></td><td><div>x</div></td></tr></table>after"
    assert read_html(cells.encode())[0] == "Born | 1 May\n\nLondon |\n| x\n\nafter\n"


def test_html_declared_charset_is_used_where_bytes_allow_several():
    page = "<!--{}--><meta charset=koi8-u><p>{}".format("x" * 9000, "Її")
    assert read_html(page.encode("koi8-u"))[0] == "Її\n"


@pytest.mark.parametrize(
    "page",
    [
        "<div>" * 20_000 + "text",
        "<head><title>x</title><body>text",
        "<nav>text",
        "<p>text<script>never closed",
        "<![bogus[ <p>text",
        "text<",
    ],
)
def test_malformed_html(page):
    assert "text" in read_html(page.encode())[0]


def test_no_html_takes_square_time():
    for part in ("<!--", "<script ", "<meta ", "<p>" + " " * 9, "<i> </i>", "<td>", "\t"):
        page = "<p>text</p><pre>" + part * (60_000 // len(part)) + "</pre>"
        assert "text" in read_html(page.encode())[0]


# docx


def test_docx_in_body_order(tmp_path):
    def build(document):
        document.add_paragraph("before")
        table = document.add_table(2, 2)
        table.cell(0, 0).text = "Name"
        table.cell(0, 1).text = "Age"
        table.cell(1, 0).text = "Ann"
        inner = table.cell(1, 1).add_table(1, 2)
        inner.cell(0, 0).text = "7"
        inner.cell(0, 1).text = "years"
        document.add_paragraph("after\tthe\ntable")

    (document,) = read(write(tmp_path, {"a.docx": a_docx(build, "Minutes")})).documents
    assert document.text == "before\n\nName | Age\nAnn | 7 | years\n\nafter\tthe\ntable\n"
    assert document.title == "Minutes"


def test_docx_title_from_its_style_and_by_content(tmp_path):
    data = a_docx(
        lambda document: (document.add_heading("The harbour", 0), document.add_paragraph("text")), "Word Document"
    )
    (document,) = read(write(tmp_path, {"report": data})).documents
    assert document.title == "The harbour" and document.text == "The harbour\n\ntext\n"


def rewrite(data, change):
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return out.getvalue()


def test_docx_with_dangling_part_tracked_changes_and_text_box():
    data = a_docx(lambda document: document.add_paragraph("MARK"))
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'

    def change(name, content):
        if name == "word/_rels/document.xml.rels":
            return content.replace(b'Target="styles.xml"', b'Target="NULL"')
        run = "<w:t>{}</w:t>"
        new = (
            f"<w:ins {space}><w:r>{run.format('added')}</w:r></w:ins>"
            f"<w:del {space}><w:r><w:delText>deleted</w:delText></w:r></w:del>"
            f"<w:r {space}><w:pict><w:txbxContent><w:p><w:r>{run.format('boxed')}</w:r></w:p></w:txbxContent>"
            "</w:pict></w:r>"
        )
        return content.replace(b"<w:r><w:t>MARK</w:t></w:r>", new.encode())

    assert read_docx(rewrite(data, change))[0] == "added\n\nboxed\n"


def test_docx_that_unpacks_to_too_much(monkeypatch):
    monkeypatch.setattr(word, "LARGEST_XML", 30_000_000)
    data = a_docx(lambda document: document.add_paragraph("x"))
    bomb = rewrite(data, lambda name, content: content + b" " * 40_000_000 if name == "word/document.xml" else content)
    assert len(bomb) < 1_000_000
    with pytest.raises(DocumentError, match="unpacks to more"):
        read_docx(bomb)


# pdf


def test_pdf(tmp_path, capfd):
    files = {
        "a.pdf": a_pdf(
            ["The exam-", "ple is well-known and well-", "known here."], [], ["Page two."], title="Harbour report"
        ),
        "b": a_pdf(["By content"], title="Microsoft Word - x.doc"),
        "open.pdf": encrypted(a_pdf(["Opens without a password"]), ""),
    }
    reading = read(write(tmp_path, files))
    assert [(d.title, d.text) for d in reading.documents] == [
        ("Harbour report", "The example is well-known and well-known here.\n\nPage two.\n"),
        ("B", "By content\n"),
        ("Open", "Opens without a password\n"),
    ]
    assert capfd.readouterr() == ("", "")


def test_pdf_page_that_cannot_be_read_is_reported(tmp_path, monkeypatch):
    lines = [{"title": "", "pages": 3}, {"text": "one"}, {"error": "KeyError: x"}, {"text": "three"}, {"end": True}]
    monkeypatch.setattr(
        pdf, "_command", lambda path: [sys.executable, "-c", f"print({chr(10).join(map(json.dumps, lines))!r})"]
    )
    reading = read(write(tmp_path, {"a.pdf": "%PDF-"}))
    assert reading.documents[0].text == "one\n\nthree\n"
    assert reading.skipped == (Skipped("a.pdf", "1 of 3 pages could not be read (page 2: KeyError: x)"),)


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        ("import time; time.sleep(60)", "at page 2 the reader took more than"),
        ("import os; os.abort()", "ended without a word"),
    ],
)
def test_pdf_that_hangs_or_kills_its_reader(tmp_path, monkeypatch, ending, said):
    start = 'print(\'{"title": "", "pages": 2}\\n{"text": "one"}\', flush=True); '
    monkeypatch.setattr(pdf, "_command", lambda path: [sys.executable, "-c", start + ending])
    monkeypatch.setattr(pdf, "PAGE_SECONDS", 2.0)
    reading = read(write(tmp_path, {"a.pdf": "%PDF-", "b.txt": "b"}))
    assert sources(reading) == ["a.pdf", "b.txt"]
    assert said in reasons(reading)["a.pdf"] and "only 1 of 2 pages" in reasons(reading)["a.pdf"]


# rows


def test_csv(tmp_path):
    table = 'id;Text;title\n1;"one; with\r\nlines";First\n2;;\n3;three;\n\n4;one\n'
    reading = read(write(tmp_path, {"news_items.csv": table}))
    assert [(d.title, d.text, d.sources) for d in reading.documents] == [
        ("First", "one; with\nlines", ("news_items.csv#1",)),
        ("News items, row 3", "three", ("news_items.csv#3",)),
        ("News items, row 4", "one", ("news_items.csv#4",)),
    ]
    assert reasons(reading) == {"news_items.csv": "1 of 4 rows have no text (the first is row 2)"}


def test_rows_are_in_order_and_merge(tmp_path):
    reading = read(write(tmp_path, {"a.tsv": "text\n" + "".join(f"t{n % 11}\n" for n in range(1, 13))}))
    assert [d.sources for d in reading.documents] == [
        (f"a.tsv#{n}",) + ((f"a.tsv#{n + 11}",) if n == 1 else ()) for n in range(1, 12)
    ]


def test_long_field_and_old_mac_newlines(tmp_path):
    write(tmp_path, {"a.csv": "text\r" + "word " * 50_000 + "\r"})
    assert len(read(tmp_path).documents[0].text) == 250_000


def test_jsonl(tmp_path):
    lines = [
        '{"body": "one\\r\\ntwo \\ud800", "name": "N"}',
        "",
        "not json",
        '{"body": 5}',
        "[" * 100_000,
        '{"body": "x\u2028y"}',
    ]
    reading = read(write(tmp_path, {"a.jsonl": "\n".join(lines)}), text_column="body", title_column="name")
    assert [(d.title, d.text, d.sources) for d in reading.documents] == [
        ("N", "one\ntwo \ufffd", ("a.jsonl#1",)), ("A, row 6", "x\u2028y", ("a.jsonl#6",)),
    ]  # fmt: skip
    assert reasons(reading)["a.jsonl"] == (
        "lines that are no JSON objects: 2 (the first is line 3); 1 of 3 rows have no text (the first is row 4)"
    )


@pytest.mark.parametrize("files", [{"a.csv": "id,body\n1,x\n"}, {"a.jsonl": '{"id": 1}\n{"body": "x"}'}])
def test_wrong_column_lists_the_columns(tmp_path, files):
    write(tmp_path, files)
    (name,) = files
    with pytest.raises(ConfigError, match="no column 'text'; its columns are 'id', 'body'"):
        read(tmp_path / name)
    with pytest.raises(NoDocumentsError, match="no column 'text'; its columns are 'id', 'body'"):
        read(tmp_path)
    write(tmp_path, {"b.txt": "b"})
    assert "its columns are 'id', 'body'" in reasons(read(tmp_path))[name]


# titles


@pytest.mark.parametrize(
    ("name", "text", "title"),
    [
        (
            "pep-0013.rst",
            "PEP: 13\nTitle: Python Language\n Governance\nStatus: Active\n\nAbstract\n========\n",
            "Python Language",
        ),
        ("a.md", "intro\n\n```\n# no\n```\n## The *harbour* ##\n", "The *harbour*"),
        ("a.md", "---\ntitle: 'From the front'\n---\n# Not this\n", "From the front"),
        ("a.md", "Set under\n=========\n", "Set under"),
        ("a.rst", "==========\nOver under\n==========\n\ntext", "Over under"),
        ("a.txt", "# a comment, not a heading\n", "A"),
        ("2024-05-06_board-meeting.txt", "Time: 10\nAnn: hello\n", "2024-05-06 board meeting"),
        ("untitled.html", "<title>Untitled Document</title><p>x", "Untitled"),
        ("page.html", "<title></title><h1>Heading <i>one</i></h1><p>x", "Heading one"),
    ],
)
def test_titles(tmp_path, name, text, title):
    assert read(write(tmp_path, {name: text})).documents[0].title == title


# real files


def test_awkward_files(corpus):
    reading = read(corpus("awkward"))
    by_source = {source: document for document in reading.documents for source in document.sources}
    for source, start in {
        "encodings/russian.cp866.txt": "Однажды, в студеную", "encodings/sample-hebrew-2.txt": "אין כמעט",
        "encodings/sample-korean.txt": "역사적 예수", "encodings/sample-chinese.txt": "維基大典",
        "encodings/test_BOM.txt": "hello",
        "encodings/sample-french-1.txt": "JEAN-BAPTISTE POQUELIN MOLIÈRE",
        "html/testArabicMisleadingCharset.html": "في قرية من القرى",
        "html/testHTML_charset_utf16le.html": "This is a sample text",
        "pdf/multilang.pdf": "English:\nHello World\nArabic",
    }.items():  # fmt: skip
        assert by_source[source].text.startswith(start)
    said = reasons(reading)
    assert "encrypted" in said["pdf/crazyones-encrypted-256.pdf"]
    assert "without text" in said["docx/doc-word-default-blank.docx"]
    assert "column_a" in said["csv/bad.csv"] and "'a', 'b', 'c'" in said["csv/test_utf16_big.csv"]
    assert {
        "other/random.bin",
        "other/test.xlsx",
        "text/empty.txt",
        "text/test.binary",
        "text/control_characters.txt",
    } <= set(said)


def test_every_file_of_a_corpus_is_read(corpus):
    assert len(read(corpus("udhr"), exclude=["SOURCE.txt"]).documents) == len(list(corpus("udhr").glob("???*.txt"))) - 1
    peps = read(corpus("peps"), include=["*.rst"])
    assert peps.skipped == () and "Python Language Governance" in {document.title for document in peps.documents}
