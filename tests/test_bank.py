"""The built-in bank: general, varied, in natural English, and what its words and templates make."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from isthmus.encoders import Encoder, bank, load
from isthmus.encoders.bank.views import PARTS, View, views
from isthmus.encoders.locations import COMPLETE
from isthmus.encoders.references import SHIPPED_QUERIES, bank_vectors, references
from isthmus.errors import BadInput
from isthmus.types import Vectors
from tiny import DIM, write_encoder

FOLDER = files("isthmus.encoders.bank")
NO_BASE = "" if os.environ.get("ISTHMUS_CLIP") else "ISTHMUS_CLIP names no file with CLIP's image tower"
AN_BEFORE_A_CONSONANT = ("hour", "honest", "heir", "X-ray", "x-ray")
A_BEFORE_A_VOWEL = ("eucalyptus", "eulogy", "one", "ukulele", "uniform", "university", "used", "useful", "user")


def read(name: str) -> str:
    return FOLDER.joinpath(name).read_text(encoding="utf-8")


def words(query: str) -> list[str]:
    return re.findall(r"[^\W_]+", query.lower())


def test_the_shipped_bank_is_what_generate_makes() -> None:
    assert list(bank.queries()) == bank.generate()


def test_the_file_has_one_query_per_line_and_ends_with_a_line_break() -> None:
    text = FOLDER.joinpath("queries.txt").read_bytes().decode("utf-8")
    assert text == "\n".join(bank.queries()) + "\n"


def test_it_holds_a_few_thousand_queries_that_all_differ() -> None:
    assert 3_500 <= len(bank.queries()) <= 5_000
    assert len({query.casefold() for query in bank.queries()}) == len(bank.queries())


def test_every_style_is_there_and_none_is_more_than_three_tenths() -> None:
    made = bank.by_style()
    assert set(made) == {
        "keyword", "caption", "question", "chat", "document", "howto", "comparison", "navigation", "claim"
    }  # fmt: skip
    assert sorted(query for style in made.values() for query in style) == sorted(bank.queries())
    assert all(0.02 < len(style) / len(bank.queries()) <= 0.3 for style in made.values())


def test_the_first_thousand_are_a_fair_sample_of_the_styles() -> None:
    first = set(bank.queries()[:1000])
    for name, style in bank.by_style().items():
        assert len(first & set(style)) / 1000 == pytest.approx(len(style) / 4000, abs=0.04), name


def test_lengths_go_from_one_word_to_more_than_twenty_five() -> None:
    lengths = [len(query.split()) for query in bank.queries()]
    assert lengths.count(1) >= 100
    assert sum(3 <= n <= 12 for n in lengths) >= 2_000
    assert sum(n > 25 for n in lengths) >= 200
    assert max(lengths) <= 45


def test_long_messages_have_about_twenty_to_forty_words_and_keywords_few() -> None:
    made = bank.by_style()
    assert all(18 <= len(query.split()) <= 42 for query in made["chat"])
    assert sum(len(query.split()) <= 3 for query in made["keyword"]) >= 0.9 * len(made["keyword"])


def test_no_template_marker_is_left_over() -> None:
    assert [query for query in bank.queries() if re.search(r"[{}|<>\[\]/\\_=]", query)] == []


def test_spaces_and_punctuation_are_sane() -> None:
    for query in bank.queries():
        assert query == " ".join(query.split()), query
        assert "" not in query.split(" "), query
        assert not re.search(r" [,.;:?!]|[,;:]$|[,.;:?!]{2}|^[^\w]", query), query
        assert all(character.isalnum() or character in " ,.:?!'-" for character in query), query
        assert not re.search(r"\b(\w+) \1\b", query.lower()), query


def test_a_and_an_follow_the_sound_of_the_next_word() -> None:
    for query in bank.queries():
        for article, word in re.findall(r"\b(an?) ([\w-]+)", query, flags=re.IGNORECASE):
            vowel = word.startswith(AN_BEFORE_A_CONSONANT) or (
                word[0].lower() in "aeiou" and not word.startswith(A_BEFORE_A_VOWEL)
            )
            assert (article.lower() == "an") == vowel, query


def test_a_sentence_begins_with_a_capital_letter_and_a_mark_ends_it() -> None:
    for query in bank.by_style()["chat"]:
        assert all(part[0].isupper() for part in re.split(r"(?<=[.?!]) ", query)), query
        assert query[-1] in ".?!", query
    assert all(q[0].isupper() for style in ("question", "caption") for q in bank.by_style()[style] if q[-1] in ".?")


def test_any_two_queries_share_less_than_half_of_their_content_words() -> None:
    stop = {word.strip() for word in tomllib.loads(read("words.toml"))["lists"]["stop"].split(",")}
    meanings = [set(words(query)) - stop for query in bank.queries()]
    column = {word: i for i, word in enumerate(sorted(set().union(*meanings)))}
    held = np.zeros((len(meanings), len(column)), dtype=np.float32)
    for row, meaning in zip(held, meanings, strict=True):
        row[[column[word] for word in meaning]] = 1
    common = held @ held.T
    union = held.sum(axis=1)[:, None] + held.sum(axis=1) - common
    np.fill_diagonal(common, 0)
    assert (held.sum(axis=1) > 0).all()
    assert (common / union).max() < 0.5


def test_the_vocabulary_is_wide() -> None:
    assert len({word for query in bank.queries() for word in words(query)}) > 3_500


def test_the_same_seed_gives_the_same_bank_and_another_seed_another() -> None:
    assert bank.generate(seed=3, count=300) == bank.generate(seed=3, count=300)
    assert len(set(bank.generate(seed=1)) & set(bank.queries())) < 0.6 * len(bank.queries())


def test_a_smaller_bank_keeps_the_shares_of_the_styles() -> None:
    made = bank.by_style(seed=5, count=200)
    assert sum(map(len, made.values())) == 200
    assert len(made["caption"]) == 50


def test_more_than_the_words_can_give_is_refused_with_what_to_do() -> None:
    with pytest.raises(BadInput, match=r"The words give only \d+ different queries .* add words and templates"):
        bank.generate(count=100_000)


def test_shares_add_up_and_every_word_list_is_used() -> None:
    templates, text = read("templates.toml"), read("words.toml")
    assert sum(style["share"] for style in tomllib.loads(templates).values()) == pytest.approx(1)
    held = tomllib.loads(text)
    cells = [f"{name}.{column}" for name, table in held["tables"].items() for column in table["columns"].split()]
    used = {re.sub(r"\d", "", slot) for slot in re.findall(r"\{([\w.]+)\}", templates + text)}
    assert {*held["lists"], *cells} - {"stop"} - used == set()


def test_the_examples_in_the_docs_are_queries_of_their_style() -> None:
    page = (Path(__file__).parent.parent / "docs/bank.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"(?m)^\| (\w+) \| (.+) \|$", page))
    del shown["style"]
    made = bank.by_style()
    assert set(shown) == set(made)
    for name, examples in shown.items():
        assert set(examples.split(" · ")) <= set(made[name])


def test_importing_the_bank_reads_and_brings_in_nothing_heavy() -> None:
    code = "from isthmus.encoders import bank; import sys; print(bank.queries.cache_info().currsize, *sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded[0] == "0"
    assert not {"torch", "onnxruntime", "faiss", "transformers", "scipy"} & set(loaded)


def tiny(folder: Path, parts: str) -> Encoder:
    return load(f"onnx:{write_encoder(folder / parts, parts)}")


def test_every_picture_is_there_whole_and_in_parts_that_all_differ() -> None:
    whole = [view for view in views() if view.box == (0, 0, 1, 1)]
    assert len(whole) >= 40
    assert len(views()) == len(set(views())) == (1 + PARTS) * len(whole)
    assert {view.mirrored for view in views()} == {False, True}
    for view in views():
        left, top, right, bottom = view.box
        assert 0 <= left < right <= 1, view
        assert 0 <= top < bottom <= 1, view


def test_a_view_is_that_part_of_its_picture_mirrored_or_not() -> None:
    whole = np.asarray(View("dog.jpg").image())
    height, width = whole.shape[:2]
    half = np.asarray(View("dog.jpg", (0.5, 0.0, 1.0, 1.0), mirrored=True).image())
    assert np.array_equal(half, whole[:, round(width / 2) :][:, ::-1])
    assert half.shape[0] == height


def test_the_same_seed_gives_the_same_views_and_another_seed_others() -> None:
    assert views(3) == views(3)
    assert len(set(views(3)) & set(views())) == len(views()) / (1 + PARTS)


def test_the_pictures_take_less_than_250_kilobytes() -> None:
    folder = Path(str(FOLDER.joinpath("pictures")))
    assert sum(path.stat().st_size for path in folder.iterdir()) < 250_000


def test_the_bank_asks_with_words_with_pictures_and_with_both() -> None:
    held = references()
    assert {modality: len(several) for modality, several in held.items()} == {
        "text": 4000,
        "image": len(views()),
        "image+text": len(views()),
    }
    assert all(reference.query().modality == modality for modality in held for reference in held[modality][:3])
    assert len({reference.text for reference in held["image+text"]}) == len(views())


def counts(vectors: Vectors) -> dict[str, int]:
    return {str(name): int((vectors.modality == name).sum()) for name in vectors.modalities}


def test_an_encoder_gets_the_modalities_it_reads(tmp_path: Path) -> None:
    n = len(views())
    for parts, expected in (
        ("image+text", {"image": n, "image+text": n, "text": 4000}),
        ("image", {"image": n}),
        ("text", {"text": 4000}),
    ):
        made = bank_vectors(tiny(tmp_path, parts), tmp_path / "kept" / parts)
        assert counts(made) == expected
        assert made.dim == DIM
        assert set(made.parts) == set(parts.split("+"))
        assert {matrix.dtype for matrix in made.parts.values()} == {np.dtype(np.float32)}


def test_pictures_are_encoded_once_and_a_damaged_file_again(tmp_path: Path) -> None:
    encoder, kept = tiny(tmp_path, "image+text"), tmp_path / "kept"
    first, second = (bank_vectors(encoder, kept, limit=20) for _ in range(2))
    assert counts(first) == {"image": 20, "image+text": 20, "text": 20}
    files_in = sorted(kept.iterdir())
    assert len(files_in) == 3
    stamps = [path.stat().st_mtime_ns for path in files_in]
    for path in files_in[:2]:
        path.write_bytes(path.read_bytes()[:-40])
    third = bank_vectors(encoder, kept, limit=20)
    for part in ("image", "text"):
        assert np.array_equal(first.parts[part], second.parts[part])
        assert np.array_equal(first.parts[part], third.parts[part])
    assert [path.stat().st_mtime_ns == stamp for path, stamp in zip(files_in, stamps, strict=True)][2]


def test_a_limit_takes_so_many_of_each_modality_from_all_over_the_bank(tmp_path: Path) -> None:
    encoder = tiny(tmp_path, "image")
    whole, some = (bank_vectors(encoder, tmp_path / "kept", limit=limit) for limit in (None, 7))
    rows = [int(row) for row in np.linspace(0, len(whole) - 1, 7)]
    np.testing.assert_allclose(some.parts["image"], whole.parts["image"][rows], atol=1e-6)


def test_a_picture_with_words_has_the_vectors_of_both(tmp_path: Path) -> None:
    made = bank_vectors(tiny(tmp_path, "image+text"), tmp_path / "kept", limit=5)
    alone, both = made.take(made.modality == "image"), made.take(made.modality == "image+text")
    np.testing.assert_allclose(both.parts["image"], alone.parts["image"], atol=1e-6)
    assert both.present["text"].all()


@pytest.mark.parametrize(
    "name", [*COMPLETE, pytest.param("base", marks=pytest.mark.skipif(bool(NO_BASE), reason=NO_BASE))]
)
def test_the_banks_vectors_are_shipped_beside_an_encoder_and_are_those_that_it_makes(name: str, tmp_path: Path) -> None:
    """When this fails, the encoder or the bank has changed: run ``isthmus.encoders.references.ship(name)``."""
    encoder = load(name)
    shipped = bank_vectors(encoder, tmp_path, SHIPPED_QUERIES)
    assert not list(tmp_path.iterdir())  # nothing had to be encoded
    some = [0, 333, 999]
    made = encoder.encode_queries([bank.queries()[int(row)] for row in np.linspace(0, 3999, SHIPPED_QUERIES)[some]])
    np.testing.assert_allclose(shipped.parts["text"][some], made.parts["text"], atol=1e-3)
