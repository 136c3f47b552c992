"""The docs say what is so: names, tables, numbers and links."""

from __future__ import annotations

import csv
import importlib
import itertools
import pkgutil
import re
from pathlib import Path

import pytest

import isthmus
from isthmus.align import aligner, caption
from isthmus.calibration import METHODS, NNN_PAPER_GRID, Spec
from isthmus.cli.verbs import VERBS
from isthmus.evaluate.benchmarks import BENCHMARKS

ROOT = Path(__file__).parent.parent
HELPERS = (
    "chat_sets",
    "corpora",
    "drawn_screens",
    "esc10",
    "flickr8k",
    "kept",
    "match_corpora",
    "mixture",
    "mixture_things",
    "packed",
    "paired",
    "stroke_test",
    "tables",
    "yardsticks",
)  # of reproduce: what its scripts share
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "reproduce").glob("*.md")])


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


@pytest.mark.parametrize(
    "room", ["", ".align", ".calibration", ".encoders", ".evaluate", ".index", ".queries", ".search", ".sources"]
)
def test_what_a_module_exports_is_sorted_and_exists(room: str) -> None:
    loaded = importlib.import_module(f"isthmus{room}")
    constants_first = sorted(loaded.__all__, key=lambda name: (not name.isupper(), name.islower(), name))
    assert constants_first == loaded.__all__
    assert all(hasattr(loaded, name) for name in loaded.__all__)


@pytest.mark.parametrize("page", ["docs/calibration.md", "docs/papers.md"])
def test_every_calibration_stands_in_the_docs(page: str) -> None:
    text = (ROOT / page).read_text()
    assert [name for name in METHODS if f"`{name}" not in text] == []


def test_the_defaults_in_the_table_of_specs_are_those_of_the_code() -> None:
    rows = [cells(line) for line in (ROOT / "docs/calibration.md").read_text().splitlines() if line.startswith("| `")]
    settings = {row[0].strip("`"): row[2] for row in rows if row[0].strip("`") in METHODS and len(row) == 4}
    assert set(settings) == set(METHODS)
    for name, said in settings.items():
        default = METHODS[name].settings()
        for names, value in re.findall(r"((?:`\w+`(?:, )?)+) \((\w[\w.]*)", said):
            for setting in re.findall(r"`(\w+)`", names):
                actual = getattr(default, setting)
                if actual is not None:  # a default that depends on the data is said in words
                    assert str(actual).lower() in (value, f"{value}.0"), (name, setting)


def test_the_readme_is_short_and_says_what_there_is() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 120
    assert "one index per modality" in text
    verbs = {verb.__name__ for verb in VERBS}
    shown = re.findall(r"(?:^    |`)isthmus ([a-z]+)", text, re.MULTILINE)
    assert len(shown) >= 3
    assert [verb for verb in shown if verb not in verbs] == []


def test_every_page_stands_in_the_index_and_in_the_sites_navigation() -> None:
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in PAGES if ROOT / "docs" in page.parents]
    navigation, index = (ROOT / "mkdocs.yml").read_text(), (ROOT / "docs/index.md").read_text()
    assert [page for page in pages if f" {page}\n" not in navigation] == []
    assert [page for page in pages if f"({page})" not in index and page != "index.md"] == []


def test_every_name_in_the_reference_exists() -> None:
    for page in sorted((ROOT / "docs/reference").glob("*.md")):
        for path in re.findall(r"^::: (\S+)", page.read_text(), re.MULTILINE):
            module, name = path.rsplit(".", 1)  # by module: a function hides the module of the same name
            assert hasattr(importlib.import_module(module), name), f"{page.name}: {path}"


def test_every_module_stands_in_the_tree() -> None:
    tree = (ROOT / "docs/architecture.md").read_text().split("## Modules")[1].split("## Add a calibration")[0]
    root = Path(isthmus.__file__).parent
    rooms = [str(root / room) for room in ("", "align", "calibration", "encoders", "search")]
    names = {m.name for m in pkgutil.iter_modules(rooms)}
    missing = [name for name in names if not name.startswith("_") and not re.search(rf"\b{name}\b", tree)]
    assert missing == []


def test_every_benchmark_and_every_verb_stands_in_the_docs() -> None:
    text = (ROOT / "docs/evaluate.md").read_text()
    assert [name for name in BENCHMARKS if f"`{name}`" not in text] == []
    verbs = (ROOT / "docs/collections.md").read_text()
    names = [verb.__name__.replace("_", "-") for verb in VERBS]
    assert [name for name in names if f"`isthmus {name}" not in verbs] == []


def test_every_aligner_captioner_and_prompt_stands_in_the_docs() -> None:
    text = (ROOT / "docs/align.md").read_text()
    prompts = [path.name for path in Path(isthmus.__file__).parent.joinpath("align/prompts").glob("*.txt")]
    assert [name for name in (*aligner.NAMES, *caption.KINDS, *prompts) if f"`{name}" not in text] == []


def test_every_relative_link_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_reproduce_script_is_listed_and_has_expected_values() -> None:
    listed = (ROOT / "reproduce/README.md").read_text()
    scripts = [p.stem for p in (ROOT / "reproduce").glob("*.py") if p.stem not in HELPERS]
    assert scripts
    for name in scripts:
        row = next(line for line in listed.splitlines() if f"reproduce/{name}.py" in line)
        assert (ROOT / f"reproduce/expected/{name}.csv").exists() or "no values yet" in row


def test_the_readmes_table_of_proof_is_what_reproduce_expects() -> None:
    with (ROOT / "reproduce/expected/collection.csv").open() as file:
        header, *expected = list(csv.reader(file))
    text = (ROOT / "README.md").read_text().split(f"| {' | '.join(header)} |")[1].split("\n\n")[0]
    assert [cells(line) for line in text.strip().splitlines()[1:]] == expected


def test_the_table_of_clip_vectors_is_what_reproduce_expects() -> None:
    with (ROOT / "reproduce/expected/clip_f8k.csv").open() as file:
        expected = {row["calibration"]: row for row in csv.DictReader(file)}
    text = (ROOT / "docs/vectors.md").read_text()
    shown = [cells(line) for line in text.splitlines() if line.count("|") == 5][2:]
    assert len(shown) == 6
    for name, images, rank, ndcg in shown:
        row = expected[name.split(" ")[0]]
        assert (images, rank, ndcg) == (row["images in top 10"], row["median rank of the image"], row["nDCG@10"])
    assert f"all {len(expected)} rows" in " ".join(text.split())


@pytest.mark.parametrize("page", ["docs/vectors.md", "docs/mini.md"])
def test_the_tables_of_the_mixed_corpus_are_what_reproduce_expects(page: str) -> None:
    with (ROOT / "reproduce/expected/mini_mix.csv").open() as file:
        expected = [list(row.values()) for row in csv.DictReader(file)]
    text = (ROOT / page).read_text().split("| calibration | all | text | image | image+text |")[1].split("\n\n")[0]
    shown = [cells(line) for line in text.strip().splitlines()[1:]]
    assert len(shown) >= 5
    assert [row for row in shown if row not in expected] == []


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("align", "passages"),
        ("collections", "collection"),
        ("collections", "match"),
        ("collections", "match_prior"),
        ("encoders", "quantised"),
        ("evaluate", "headline"),
        ("evaluate", "trade"),
        *(("experiments", name) for name in ("gap", "groups", "scores", "transfer")),
        *(("papers/nnn", name) for name in ("recalls", "hub_counts", "groups_clip", "nnn_settings")),
        *(("papers/standardize", name) for name in ("standardize_moments", "standardize_skewness")),
        *(("papers/mr_right", f"mr_right{name}") for name in ("", "_generated", "_log", "_maps", "_unique")),
        ("papers/mr_right", "related_set"),
        ("queries", "queries"),
        ("stores", "stores"),
        ("queries", "tagger"),
        ("lens", "lens"),
        ("mini", "text_tower"),
        ("pages", "pages_forms"),
    ],
)
def test_the_tables_of_a_page_are_what_reproduce_expects(page: str, name: str) -> None:
    with (ROOT / f"reproduce/expected/{name}.csv").open() as file:
        header, *expected = list(csv.reader(file))
    text = (ROOT / f"docs/{page}.md").read_text().split(f"| {' | '.join(header)} |")[1].split("\n\n")[0]
    assert [cells(line) for line in text.strip().splitlines()[1:]] == expected


@pytest.mark.parametrize(
    ("page", "names"),
    [
        *(("experiments", [name]) for name in ("hubs", "shares")),
        ("papers/standardize", ["standardize"]),
        *(("calibration", [name]) for name in ("strengths", "wants")),
        ("evaluate", ["mixtures", "mixtures_held_out"]),
        ("collections", ["match_mixtures", "match_mixtures_held_out"]),
    ],
)
def test_the_shorter_tables_of_a_page_are_of_what_reproduce_expects(page: str, names: list[str]) -> None:
    expected: list[list[str]] = []
    for name in names:
        with (ROOT / f"reproduce/expected/{name}.csv").open() as file:
            header, *rows = list(csv.reader(file))
        expected += rows
    columns, shown = tables(page, header)
    assert len(shown) >= 5
    assert {row[0] for row in shown} & {row[0] for row in rows} != set()  # also of the last file
    assert [row for row in shown if row not in [[row[at] for at in columns] for row in expected]] == []


def tables(page: str, header: list[str]) -> tuple[list[int], list[list[str]]]:
    """Return the rows of the tables of a page whose columns are some of the header's, its first two among them."""
    lines = (ROOT / f"docs/{page}.md").read_text().splitlines()
    found: list[str] = []
    rows: list[list[str]] = []
    for at, line in enumerate(lines):
        names = cells(line) if line.startswith("| ") else []
        if names[:2] == header[:2] and set(names) <= set(header):
            found = names
            rows += [cells(row) for row in itertools.takewhile(lambda one: one.startswith("|"), lines[at + 2 :])]
    return [header.index(name) for name in found], rows


@pytest.mark.parametrize(("page", "name"), [("papers/gr_clip", name) for name in ("gr_cases", "gr_clip", "gr_mixture")])
def test_the_shorter_tables_of_a_paper_are_of_what_reproduce_expects(page: str, name: str) -> None:
    with (ROOT / f"reproduce/expected/{name}.csv").open() as file:
        header, *expected = list(csv.reader(file))
    text = (ROOT / f"docs/{page}.md").read_text().split(f"| {' | '.join(header)} |")[1].split("\n\n")[0]
    shown = [cells(line) for line in text.strip().splitlines()[1:]]
    assert len(shown) >= 5
    assert [row for row in shown if row not in expected] == []


def test_what_stands_beside_gr_clips_own_numbers_is_what_reproduce_expects() -> None:
    with (ROOT / "reproduce/expected/gr_mixture.csv").open() as file:
        rows = {(row["vectors"], row["text:image:both"], row["calibration"]): row for row in csv.DictReader(file)}
    tuned = "CLIP, halves, tuned on the other, rate 5e-04"
    text = (ROOT / "docs/papers/gr_clip.md").read_text().split("| measure | theirs |")[1].split("\n\n")[0]
    for measure, _, _, *ours in map(cells, text.strip().splitlines()[2:]):
        name, ratio = measure.split(", ")[:2]
        sets = (tuned,) if "fine-tuned" in measure else ("CLIP", "mini")
        first, sign = ("center, own means", ", ") if "means" in measure else ("none", " → ")
        for vectors, shown in zip(sets, ours, strict=False):
            expected = [rows[vectors, ratio, each][name].removeprefix("0") for each in (first, "center, train means")]
            assert shown == sign.join(expected), (measure, vectors)


def test_the_numbers_quoted_in_the_calibration_page_are_those_of_reproduce() -> None:
    with (ROOT / "reproduce/expected/clip_f8k.csv").open() as file:
        value = {row["calibration"]: row["nDCG@10"] for row in csv.DictReader(file)}
    text = " ".join((ROOT / "docs/calibration.md").read_text().split())
    assert f"nDCG@10 {value['center, means of another set']} against {value['center']}" in text
    folded = value["dbnorm(dynamic=true), folded"]
    assert f"nDCG@10 {value['dbnorm(dynamic=true)']} dense and {folded} folded" in text


def values(name: str) -> dict[str, list[str]]:
    """Return the rows of an expected table by their first column, numbers as the docs shorten them."""
    with (ROOT / f"reproduce/expected/{name}.csv").open() as file:
        return {key: [number.removeprefix("0") for number in numbers] for key, *numbers in list(csv.reader(file))[1:]}


def test_the_results_of_the_embedded_encoders_are_what_reproduce_expects() -> None:
    mini, base = values("mini"), values("base")
    text = (ROOT / "docs/mini.md").read_text().split("| measure | `mini` | `base` |")[1].split("\n\n")[0]
    shown = {key: numbers for key, *numbers in map(cells, text.strip().splitlines()[1:])}
    assert set(base) < set(shown)
    texts = "SciFact test, nDCG@10"  # both have the same text tower
    assert shown == {key: [*mini[key], *(base[key] if key in base else mini[texts])] for key in [*base, texts]}


def test_the_things_that_both_encoders_find_are_what_reproduce_expects() -> None:
    expected = values("things")
    page = (ROOT / "docs/mini.md").read_text()
    text = page.split("| thing | `mini` | `base` | thing | `mini` | `base` |")[1].split("\n\n")[0]
    rows = [row for line in text.strip().splitlines()[1:] for row in (cells(line)[:3], cells(line)[3:])]
    short = {"1.000": "1"}
    assert {key: found for key, *found in rows} == {
        key: [short.get(each, each.removesuffix("00")) for each in found]
        for key, found in expected.items()
        if key != "mean of 40"
    }
    mini, base = expected["mean of 40"]
    assert f"The means are {mini} and {base}" in page


def test_the_nnn_papers_grid_is_that_of_the_paper() -> None:
    specs = [Spec.parse(text).bias for text in NNN_PAPER_GRID]
    assert {spec.k for spec in specs} == {2**i for i in range(10)}  # type: ignore[union-attr]
    assert sorted({spec.alpha for spec in specs}) == [0.25 + i / 8 for i in range(11)]  # type: ignore[union-attr]


def test_the_table_of_aligned_queries_is_of_what_reproduce_expects() -> None:
    with (ROOT / "reproduce/expected/bridge.csv").open() as file:
        expected = {(row["set"], row["retriever"], row["searched"]): row for row in csv.DictReader(file)}
    text = (ROOT / "docs/align.md").read_text().split("| set | retriever | + caption |")[1].split("\n\n")[0]
    _, _, *lines = text.splitlines()
    assert len(lines) >= 10
    for line in lines:
        name, retriever, *shown = cells(line)
        ways = ("+ caption", "+ forge-mini", "the clean query")
        rows = [expected[name, retriever, way] for way in ways]
        assert shown == [*(row["nDCG@10"] for row in rows), rows[1]["closed"]]


def test_the_table_of_the_ladder_is_of_what_reproduce_expects() -> None:
    expected: dict[tuple[str, str, str], str] = {}
    for name in ("ladder", "ladder_lens"):
        with (ROOT / f"reproduce/expected/{name}.csv").open() as file:
            expected |= {
                (row["set"], row["searched"], row["retriever"]): row["nDCG@10"] for row in csv.DictReader(file)
            }
    text = (ROOT / "docs/papers/bridge.md").read_text().split("| set | searched | ")[1].split("\n\n")[0]
    header, _, *lines = text.splitlines()
    names = [name.strip() for name in header.strip().strip("|").split("|")]
    assert len(lines) >= 10
    for line in lines:
        chosen, way, *shown = cells(line)
        assert shown == [expected.get((chosen, way, name), "") for name in names]
