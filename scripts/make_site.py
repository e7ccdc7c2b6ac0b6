"""Build the documentation as a site: build/site, from docs/*.md and the OpenAPI description.

``docs/index.md`` is the first page, and its lists of links are the navigation. Nothing on a page is
loaded from elsewhere, and all of it works from a folder, without a server.
"""

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from os.path import relpath
from pathlib import Path
from string import Template
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from penstock.api.document import document

ROOT = Path(__file__).parent.parent
DOCS, SITE = ROOT / "docs", ROOT / "build" / "site"
PARTS = Path(__file__).parent / "site"
ALSO = {"changelog.md": ROOT / "CHANGELOG.md", "contributing.md": ROOT / "CONTRIBUTING.md"}
"""Pages that are elsewhere in the repository."""
API_PAGE = "api-reference.md"


@dataclass
class Page:
    """A page: its place in the site, its text, and what was found in it."""

    name: str
    """Its path below docs: ``tutorials/backfill.md``."""
    text: str
    source: Path
    """The folder that its links are relative to, and its name."""
    title: str = ""
    body: str = ""
    anchors: set[str] = field(default_factory=set)
    links: list[tuple[str, str]] = field(default_factory=list)
    """Pages and anchors that it links to."""
    broken: list[str] = field(default_factory=list)
    headings: list[tuple[int, str, str]] = field(default_factory=list)
    """Level, anchor and text of each."""

    @property
    def address(self) -> str:
        """Its path in the site."""
        return self.name.removesuffix(".md") + ".html"


def pages() -> dict[str, Page]:
    """Every page of the site, rendered."""
    found = {path.relative_to(DOCS).as_posix(): path for path in sorted(DOCS.rglob("*.md"))}
    made = {name: Page(name, path.read_text(), path) for name, path in {**found, **ALSO}.items()}
    made[API_PAGE] = Page(API_PAGE, api_reference(document()), DOCS / API_PAGE)
    places = {page.source.resolve(): name for name, page in made.items()}
    for page in made.values():
        render(page, places)
    return made


def problems(made: Mapping[str, Page]) -> Iterator[str]:
    """What is wrong with the pages: links that lead nowhere, pages that nothing leads to."""
    known = {name for _, links in navigation(made["index.md"].text) for name, _ in links}
    for page in made.values():
        for link in page.broken:
            yield f"{page.name} links to {link}, which does not exist"
        for name, anchor in page.links:
            if anchor and anchor not in made[name].anchors:
                yield f"{page.name} links to {name}#{anchor}, and there is no such heading"
        if page.name not in known and not page.name.startswith(("index", "decisions/0")):
            yield f"{page.name} is not in docs/index.md"


def navigation(text: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The sections of docs/index.md, with the pages that each lists and their titles."""
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        found = re.findall(r"\[([^\]]+)\]\(([^)#:]+\.md)\)", part)
        links = [(_page_of(name), words) for words, name in found]
        # It is made here, so docs has no file to which a link could lead.
        made = [at + 1 for at, (name, _) in enumerate(links) if name == "api.md"]
        for at in made:
            links.insert(at, (API_PAGE, "API reference"))
        yield part.partition("\n")[0], links


def _page_of(link: str) -> str:
    return link.removeprefix("../").lower() if link.startswith("../") else link


def render(page: Page, places: Mapping[Path, str]) -> None:
    """Make the HTML of a page, and note its headings and links; ``places`` are all pages."""
    reader = MarkdownIt("commonmark", {"html": False, "highlight": _coloured})
    reader.enable(["table", "strikethrough"])
    tokens = reader.parse(page.text)
    for position, token in enumerate(tokens):
        if token.type == "heading_open":
            _name_heading(page, token, tokens[position + 1])
        for child in token.children or ():
            if child.type == "link_open":
                _lead(page, child, places)
    made = reader.renderer.render(tokens, reader.options, {})
    page.body = made.replace("<table>", '<div class="wide"><table>').replace(
        "</table>", "</table></div>"
    )


def _name_heading(page: Page, opening: Token, inline: Token) -> None:
    words = "".join(child.content for child in inline.children or ())
    # As on GitHub, so that a link works there and here.
    anchor = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
    number = sum(each == anchor for _, each, _ in page.headings)
    anchor = f"{anchor}-{number}" if number else anchor
    opening.attrSet("id", anchor)
    page.anchors.add(anchor)
    page.headings.append((int(opening.tag[1:]), anchor, words))
    page.title = page.title or words


def _lead(page: Page, link: Token, places: Mapping[Path, str]) -> None:
    target = str(link.attrGet("href"))
    if "://" in target or target.startswith("mailto:"):
        link.attrSet("rel", "noreferrer")
        return
    path, _, anchor = target.partition("#")
    # What is made here is a page too, although docs has no such file.
    aimed = (page.source.parent / path).resolve() if path else page.source.resolve()
    name = places.get(aimed)
    if name is not None:
        page.links.append((name, anchor))
        to = relpath(name, Path(page.name).parent).removesuffix(".md") + ".html"
        link.attrSet("href", to + (f"#{anchor}" if anchor else ""))
    elif aimed.exists():
        # A file of the repository: it is shown, and not a part of the site.
        link.attrs = {"title": aimed.relative_to(ROOT).as_posix()}
    else:
        page.broken.append(target)


def _coloured(code: str, language: str, _: str) -> str:
    try:
        lexer = get_lexer_by_name(language or "text", stripnl=False)
    except ClassNotFound:
        return ""
    return str(highlight(code, lexer, HtmlFormatter(nowrap=True)))


def html(page: Page, made: Mapping[str, Page]) -> str:
    """The file of a page."""
    inner = [(anchor, words) for level, anchor, words in page.headings if level == 2]
    contents = "".join(f'<a href="#{anchor}">{escape(words)}</a>' for anchor, words in inner)
    return Template((PARTS / "page.html").read_text()).substitute(
        title=escape(page.title if page.name == "index.md" else f"{page.title} – penstock"),
        up="../" * page.name.count("/"),
        menu="\n".join(_menu(page, made)),
        body=page.body,
        contents=f"<b>On this page</b>{contents}" if contents else "",
    )


def _menu(page: Page, made: Mapping[str, Page]) -> Iterator[str]:
    for section, links in navigation(made["index.md"].text):
        yield f"<b>{escape(section)}</b>"
        for name, words in links:
            to = relpath(made[name].address, Path(page.name).parent)
            here = ' aria-current="page"' if name == page.name else ""
            yield f'<a href="{to}"{here}>{escape(words)}</a>'


def search_index(made: Mapping[str, Page]) -> str:
    """Every section of every page, for the search: address, page, heading and words."""
    rows = []
    for page in made.values():
        text = re.sub(r"^```.*?$", "", page.text, flags=re.M)
        parts = re.split(r"^#{1,4} .*$", text, flags=re.M)[1:]
        for (_, anchor, words), part in zip(page.headings, parts, strict=False):
            said = re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*|#]|-{3,}", r"\1", part)
            rows.append([f"{page.address}#{anchor}", page.title, words, " ".join(said.split())])
    return f"window.sections = {json.dumps(rows, ensure_ascii=False)};\n"


def api_reference(description: Mapping[str, Any]) -> str:
    """Every operation of the HTTP API, from its OpenAPI description, as a page."""
    lines = [
        "# API reference", "",
        "Made from `/api/v1/openapi.json` by `make docs`. What all operations have in common, such",
        "as errors, pages and versions, is in [HTTP API](api.md).", "",
    ]  # fmt: skip
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            lines += _operation(path, method, operation)
    lines += ["## Documents", ""]
    for name, schema in sorted(description["components"]["schemas"].items()):
        lines += [f"### `{name}`", "", _plain(schema.get("description", "")), ""]
        lines += _fields(schema)
    return "\n".join(lines)


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> list[str]:
    said = operation.get("description") or operation.get("summary") or ""
    lines = [f"## `{method.upper()} {path}`", "", _plain(said), ""]
    given = [
        f"| `{each['name']}` | {each['in']} | {_kind(each.get('schema', {}))} |"
        f" {_plain(each.get('description') or each.get('schema', {}).get('description', ''))} |"
        for each in operation.get("parameters", ())
    ]
    if given:
        lines += ["| parameter | in | type | |", "|---|---|---|---|", *given, ""]
    for content in operation.get("requestBody", {}).get("content", {}).values():
        lines += [f"Body: {_kind(content.get('schema', {}))}", ""]
    lines += ["| answer | | |", "|---|---|---|"]
    for status, answer in operation.get("responses", {}).items():
        schemas = [content.get("schema", {}) for content in answer.get("content", {}).values()]
        kinds = ", ".join(dict.fromkeys(filter(None, map(_kind, schemas))))
        lines.append(f"| {status} | {kinds} | {_plain(answer.get('description', ''))} |")
    return [*lines, ""]


def _fields(schema: Mapping[str, Any]) -> list[str]:
    rows = [
        f"| `{name}` | {_kind(each)} | {_plain(each.get('description', ''))} |"
        for name, each in schema.get("properties", {}).items()
    ]
    if rows:
        return ["| field | type | |", "|---|---|---|", *rows, ""]
    return [_kind(schema), ""] if "enum" in schema else []


def _kind(schema: Mapping[str, Any]) -> str:
    """A schema in few words: ``integer``, a link to a document, ``"open" or "closed"``."""
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        anchor = re.sub(r"[^\w\- ]", "", name.lower())
        return f"[{name}](#{anchor})"
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(each)}`" for each in schema["enum"])
    if any_of := schema.get("anyOf"):
        return " or ".join(dict.fromkeys(map(_kind, any_of)))
    kind = schema.get("type", "any")
    if kind == "array" and "items" in schema and isinstance(schema["items"], Mapping):
        return f"list of {_kind(schema['items'])}"
    return kind if isinstance(kind, str) else " or ".join(kind)


def _plain(text: str) -> str:
    return " ".join(text.replace("``", "`").replace("|", "\\|").split())


def styles() -> str:
    """The style sheet, with the colours of code for light and dark."""
    light = HtmlFormatter(style="default").get_style_defs("pre")
    dark = HtmlFormatter(style="github-dark").get_style_defs("pre")
    code = re.compile(r"^pre \.\w+.*$", re.M)
    own = (PARTS / "site.css").read_text()
    in_dark = ["@media (prefers-color-scheme: dark) {", *code.findall(dark), "}\n"]
    return "\n".join([own, *code.findall(light), *in_dark])


def build(folder: Path) -> None:
    """Write the site to an empty folder."""
    made = pages()
    found = list(problems(made))
    if found:
        raise SystemExit("\n".join(found))
    shutil.rmtree(folder, ignore_errors=True)
    for page in made.values():
        path = folder / page.address
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(html(page, made))
    for picture in sorted({*DOCS.rglob("*.png"), *DOCS.rglob("*.svg")}):
        copy = folder / picture.relative_to(DOCS)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, copy)
    (folder / "site.css").write_text(styles())
    (folder / "site.js").write_text((PARTS / "site.js").read_text())
    (folder / "search.js").write_text(search_index(made))


if __name__ == "__main__":
    build(SITE)
