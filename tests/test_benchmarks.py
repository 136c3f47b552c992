"""Every benchmark is read from the layout it is published in: a miniature of each is written here first."""

from __future__ import annotations

import gzip
import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from isthmus import Document, Query, encoders
from isthmus.align import Aligned
from isthmus.cli import app
from isthmus.documents import Image, Text
from isthmus.encoders.references import SHIPPED_QUERIES, bank_vectors
from isthmus.errors import BadFile, BadInput, UnknownName
from isthmus.evaluate.aligned import aligned
from isthmus.evaluate.benchmarks import BENCHMARKS, Benchmark, Question, expand, load
from isthmus.evaluate.compare import alone, fit, ranked
from isthmus.evaluate.encode import encoded

PNG = b"\x89PNG and so on"


def write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def write_json(path: Path, content: object) -> None:
    write(path, json.dumps(content))


def write_lines(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    write(path, gzip.compress(text.encode()) if path.suffix == ".gz" else text)


def write_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(arrow.Table.from_pylist(list(rows)), path)


def modalities(benchmark: Benchmark) -> dict[str, str]:
    return {document.id: document.modality for document in benchmark.documents}


def asked(benchmark: Benchmark) -> dict[str, tuple[str | None, str]]:
    return {question.id: (question.query.text, question.kind) for question in benchmark.questions}


# --- the miniatures ---------------------------------------------------------------------------------------------------


def mixbench(data: Path) -> None:
    folder = data / "MSCOCO"
    write_lines(
        folder / "queries.jsonl", [{"query_id": 1, "text": "a cat"}, {"query_id": 2, "text": "?", "image": "q.jpg"}]
    )
    mixed: list[dict[str, object]] = [{"corpus_id": 1, "text": "a cat sits", "image": ""}]
    mixed += [{"corpus_id": 2, "text": None, "image": "2.jpg"}]
    write_lines(folder / "mixed_corpus.jsonl", [*mixed, {"corpus_id": 3, "text": "a bus", "image": "3.jpg"}])
    write_lines(folder / "corpus.jsonl", [{"corpus_id": n, "text": "words", "image": f"{n}.jpg"} for n in (1, 2, 3)])
    write(folder / "qrels/qrels.tsv", "query_id\tcorpus_id\tscore\n1\t1\t1\n2\t2\t1\n")
    write(folder / "images/2.jpg", PNG)


def beir(data: Path) -> None:
    held = [("d1", "Cats", 'sit "here"'), ("d2", "", "A bus."), ("d3", "", "")]
    write_lines(data / "corpus.jsonl", [{"_id": key, "title": title, "text": text} for key, title, text in held])
    write_lines(data / "queries.jsonl", [{"_id": f"q{n}", "text": f"question {n}"} for n in (1, 2, 3)])
    write(data / "qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\n")
    write(data / "qrels/train.tsv", "query-id\tcorpus-id\tscore\nq2\td3\t1\nq2\td2\t1\nq3\td3\t1\n")


def mmqa(data: Path) -> None:
    def question(qid: str, kind: str, *context: tuple[str, str]) -> dict[str, object]:
        supporting = [{"doc_id": key, "doc_part": part} for key, part in context]
        return {"qid": qid, "question": f"{qid}?", "metadata": {"type": kind}, "supporting_context": supporting}

    dev = [question("q1", "TextQ", ("t1", "text")), question("q2", "ImageQ", ("i1", "image"), ("t1", "text"))]
    dev += [question("q3", "Compose(TableQ,ImageListQ)", ("i1", "image")), question("q4", "TableQ", ("x", "table"))]
    write_lines(data / "MMQA_dev.jsonl.gz", dev)
    write_lines(data / "MMQA_train.jsonl.gz", [question("q5", "ImageQ", ("i1", "image"))])
    write_lines(data / "MMQA_texts.jsonl.gz", [{"id": "t1", "title": "Korra", "url": "", "text": "A game."}])
    write_lines(data / "MMQA_images.jsonl.gz", [{"id": "i1", "title": "Taipei", "url": "", "path": "Taipei.jpg"}])
    write(data / "final_dataset_images/Taipei.jpg", PNG)


def webqa(data: Path) -> None:
    def fact(n: int) -> dict[str, object]:
        return {"snippet_id": f"s_{n}", "title": "", "fact": f"fact {n}", "url": ""}

    def image(n: int) -> dict[str, object]:
        return {"image_id": n, "title": "", "caption": f"caption {n}", "url": "", "imgUrl": ""}

    def row(split: str, **facts: list[dict[str, object]]) -> dict[str, object]:
        empty: dict[str, object] = {f"{kind}_{sign}Facts": [] for kind in ("txt", "img") for sign in ("pos", "neg")}
        return {"Q": '"Which?"', "A": ["that"], "split": split, "Qcate": "text"} | empty | facts

    text = row("val", txt_posFacts=[fact(1)], txt_negFacts=[fact(2)], img_negFacts=[image(30000001)])
    picture = row("val", img_posFacts=[image(30000001), image(30000002)], txt_negFacts=[fact(1)])
    other = row("train", txt_posFacts=[fact(9), fact(8)])
    write_json(data / "WebQA_train_val.json", {"a": text, "b": picture, "c": other})
    write(data / "images/30000001.jpg", PNG)


def karpathy(name: str, data: Path) -> None:
    def photo(n: int, split: str, captions: int = 5) -> dict[str, object]:
        sentences = [{"raw": f"caption {n}.{c} ", "imgid": n, "sentid": 10 * n + c} for c in range(captions)]
        where = {"filepath": "val2014"} if name == "coco" else {}
        return where | {"filename": f"{n}.jpg", "imgid": n, "split": split, "sentences": sentences}

    images = [photo(1, "test", 7), photo(2, "test"), photo(3, "val"), photo(4, "train"), photo(5, "restval")]
    write_json(data / f"dataset_{name}.json", {"dataset": name, "images": images})
    write(data / ("val2014" if name == "coco" else "flickr30k-images") / "1.jpg", PNG)


def flickr8k(data: Path) -> None:
    names = [f"{n}_a.jpg" for n in range(5)]
    captions = [f"{name}#{c}\tcaption {c} of {name} ." for name in [*names, "9_b.jpg.1"] for c in range(5)]
    write(data / "Flickr8k.token.txt", "\n".join(captions) + "\n")
    write(data / "Flickr_8k.testImages.txt", "\n".join(names[:2]) + "\n")
    write(data / "Flickr_8k.devImages.txt", "\n".join([*names[2:], "no_captions.jpg"]))
    write(data / "img224/0_a.webp", PNG)


def flickr8k_mix(data: Path) -> None:
    flickr8k(data / "flickr8k")
    docs = [
        {"id": "f0", "modality": "text", "text": "A girl ."},
        {"id": "f1", "modality": "image", "image": "0_a.webp"},
    ]
    docs += [{"id": "f2", "modality": "image+text", "image": "1_a.webp", "text": "A boy ."}]
    queries = [{"id": f"q{n}", "text": f"who {n}", "rel": [f"f{n}"]} for n in range(3)]
    write_json(data / "mix/flickr8k_mix.json", {"docs": docs, "queries": queries})


def docvqa(data: Path) -> None:
    def question(n: int, page: str) -> dict[str, object]:
        return {"questionId": n, "question": f"What {n}?", "image": f"documents/{page}.png", "docId": 1, "answers": []}

    held = [question(1, "aa_1"), question(2, "bb_2"), question(3, "aa_1")]
    write_json(data / "val_v1.0.json", {"dataset_name": "docvqa", "data": held})
    write_json(data / "page_text.json", {"aa_1": "Dear Sir", "bb_2": " \n "})
    write(data / "documents/aa_1.png", PNG)


def mr_right(data: Path) -> None:
    documents = [{"id": n, "title": f"T{n}", "doc_text": f"text {n}", "img_url": f"http://x/{n}.jpg"} for n in (0, 1)]
    write_json(data / "multimodal_documents.json", [documents[0] | {"doc_image": "0.jpg"}, documents[1]])
    three: dict[str, object] = {
        "query_text": "a river",
        "query_img": "a blue river",
        "query_multi": "a blue river of France",
    }
    write_json(data / "multimodal_test_queries.json", [three | {"id": 1, "title": "T1", "doc_text": "text 1"}])
    write_json(data / "multimodal_val_queries.json", [three | {"id": 0, "title": "T0"}])
    write_json(data / "multimodal_finetune_pairs.json", [three | documents[0], three | documents[0] | {"id": 77}])
    pretrain: dict[str, object] = {"query_text": "made", "query_img": "drawn", "org_doc_text": "…"}
    write_json(data / "multimodal_pretrain_pairs.json", [pretrain | documents[0]])
    write(data / "images/0.jpg", PNG)


def mbeir(data: Path) -> None:
    pool = [{"did": "9:1", "txt": None, "img_path": "mbeir_images/mscoco_images/1.jpg", "modality": "image"}]
    pool += [{"did": "9:2", "txt": "a cat", "img_path": None, "modality": "text"}]
    both = {"did": "3:1", "txt": "a bus", "img_path": "mbeir_images/x.jpg", "modality": "image,text"}
    write_lines(data / "cand_pool/global/mbeir_union_test_cand_pool.jsonl", [*pool, both])
    write_lines(data / "cand_pool/local/mbeir_mscoco_task0_test_cand_pool.jsonl", pool)
    write_lines(data / "cand_pool/local/mbeir_edis_task2_cand_pool.jsonl", [both])
    query = {"query_txt": "a cat", "query_img_path": None, "query_modality": "text", "query_src_content": "{}"}
    coco = query | {"qid": "9:1", "pos_cand_list": ["9:1"], "neg_cand_list": []}
    edis = query | {"qid": "3:7", "query_img_path": "mbeir_images/q.jpg", "pos_cand_list": [{"did": "3:1"}]}
    write_lines(data / "query/test/mbeir_mscoco_task0_test.jsonl", [coco])
    write_lines(data / "query/test/mbeir_edis_task2_test.jsonl", [edis])
    write_lines(data / "query/val/mbeir_edis_task2_val.jsonl", [edis | {"qid": "3:8", "query_txt": "a tram"}])
    write(data / "qrels/test/mbeir_mscoco_task0_test_qrels.txt", "9:1 0 9:1 1 0\n9:1 0 9:2 1 0\n")


def mm_bright(data: Path) -> None:
    for domain, passage in (("biology", "fec40b40_1635_4"), ("law", "a7beca61_6123")):
        first, other = f"{domain}/{passage}.txt", f"{domain}/0000ffff_1.txt"
        picture = f"{domain}/{domain}_{passage.partition('_')[0]}_0002/image_1.webp"
        write_table(
            data / f"documents/{domain}.parquet", [{"id": first, "content": "x"}, {"id": other, "content": "y"}]
        )
        example = {"id": "0", "query": "why?", "gold_ids": [first], "negative_ids": [other]}
        write_table(data / f"examples/{domain}.parquet", [example])
        positive = [{"image_path": picture.replace("/", "\\")}]
        paths = ["none.png", f"{domain}/q.png", f"{domain}\\r.png"]
        shown = {"image_paths": paths, "positive_images": positive, "negative_images": [other]}
        write_table(data / f"examples_multimodal/{domain}.parquet", [example | shown])
        asked = [{"path": f"{domain}/{name}.png", "bytes": said} for name, said in (("q", b"question"), ("r", b"more"))]
        write_table(data / f"examples_images/{domain}.parquet", asked)
        write_table(data / f"document_images/{domain}.parquet", [{"path": picture, "bytes": b"answer"}])


def mixtures(data: Path) -> None:
    for name in ("photos-dev", "pages"):
        folder = data / name
        documents = [{"id": "a#image", "image": "images/a.webp"}, {"id": "a#text", "text": "a cat sits"}]
        write_lines(folder / "documents.jsonl", [*documents, {"id": "b", "text": "a dog", "image": "images/b.webp"}])
        asked = [{"id": "q0", "text": "cat"}, {"id": "q1", "image": "images/a.webp"}]
        write_lines(folder / "queries.jsonl", [*asked, {"id": "q2", "text": "dog", "image": "images/q2.jpg"}])
        judged = ["q0\ta#image\t2", "q0\ta#text\t2", "q1\ta#image\t2", "q1\ta#text\t1", "q2\tb\t2"]
        write(folder / "qrels.tsv", "\n".join(["query-id\tcorpus-id\tscore", *judged]))


MINIATURES: dict[str, Callable[[Path], None]] = {
    "beir": beir,
    "coco": lambda data: karpathy("coco", data),
    "docvqa": docvqa,
    "flickr30k": lambda data: karpathy("flickr30k", data),
    "flickr8k": flickr8k,
    "flickr8k-mix": flickr8k_mix,
    "m-beir": mbeir,
    "mixbench": lambda data: mixbench(data),
    "mixtures": mixtures,
    "mm-bright": mm_bright,
    "mmqa": mmqa,
    "mr-right": mr_right,
    "webqa": webqa,
}
DEFAULT = {"mixbench": "mixbench:MSCOCO", "mixtures": "mixtures:pages"}


@pytest.fixture
def mini(tmp_path: Path) -> Callable[[str], Benchmark]:
    def read(name: str) -> Benchmark:
        MINIATURES[name.partition(":")[0]](tmp_path)
        return load(name, tmp_path)

    return read


# --- what holds for all -----------------------------------------------------------------------------------------------


def test_every_benchmark_has_a_miniature() -> None:
    assert sorted(MINIATURES) == sorted(BENCHMARKS) == list(BENCHMARKS)


@pytest.mark.parametrize("name", MINIATURES)
def test_questions_are_judged_and_the_right_documents_are_there(
    name: str, mini: Callable[[str], Benchmark], tmp_path: Path
) -> None:
    read = mini(DEFAULT.get(name, name))
    held = {document.id for document in read.documents}
    assert read.questions
    assert set(read.qrels) == {question.id for question in read.questions}
    assert all(set(judged) <= held for judged in read.qrels.values())
    assert all(any(score > 0 for score in judged.values()) for judged in read.qrels.values())
    pictures = [document.image for document in read.documents if document.image is not None]
    assert all(isinstance(picture, bytes) or tmp_path in Path(str(picture)).parents for picture in pictures)


@pytest.mark.parametrize("name", MINIATURES)
def test_a_missing_file_is_named_with_where_it_comes_from(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"needs .*, which does not exist\. (Download it from|Build it with:) .*"):
        load(DEFAULT.get(name, name), tmp_path)


@pytest.mark.parametrize("name", MINIATURES)
def test_a_file_cut_short_is_an_error_that_names_it(name: str, tmp_path: Path) -> None:
    MINIATURES[name](tmp_path)
    for path in tmp_path.rglob("*.json*"):
        path.write_bytes(path.read_bytes()[:-9])
    for path in tmp_path.rglob("*.parquet"):
        path.write_bytes(path.read_bytes()[:-9])
    if name != "flickr8k":  # whose files are lines of text: what is left of them is a smaller benchmark
        with pytest.raises(BadFile, match=r"Parquet|\.json"):
            load(DEFAULT.get(name, name), tmp_path)


@pytest.mark.parametrize("name", [name for name in MINIATURES if name not in ("beir", "m-beir")])
def test_a_variant_that_is_not_there_is_refused(name: str, mini: Callable[[str], Benchmark]) -> None:
    with pytest.raises(BadInput, match="called 'nonsense'"):
        mini(f"{name}:nonsense")


def test_an_unknown_benchmark_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'mr-right'"):
        load("mr_right", tmp_path)
    with pytest.raises(BadInput, match="no folder"):
        load("beir", tmp_path / "none")


def test_a_benchmark_that_contradicts_itself_is_refused() -> None:
    one, question = Document("d", "a cat"), Question("q", Query("cat"))
    with pytest.raises(BadInput, match="two documents with the id 'd'"):
        Benchmark("x", [one, one], [question], {"q": {"d": 1}})
    with pytest.raises(BadInput, match="not one of its queries"):
        Benchmark("x", [one], [question], {"q": {"d": 1}, "r": {"d": 1}})
    with pytest.raises(BadInput, match="no qrels"):
        Benchmark("x", [one], [question], {})
    with pytest.raises(BadInput, match="not one of its documents"):
        Benchmark("x", [one], [question], {"q": {"d": 1}}, [(Query("cat"), "e")])


# --- one by one -------------------------------------------------------------------------------------------------------


def test_mixbench_is_read_as_lines(mini: Callable[[str], Benchmark], tmp_path: Path) -> None:
    read = mini("mixbench:MSCOCO")
    assert modalities(read) == {"1": "text", "2": "image", "3": "image+text"}
    assert read.documents[1].image == tmp_path / "MSCOCO/images/2.jpg"
    assert [question.query.modality for question in read.questions] == ["text", "image+text"]
    assert read.qrels == {"1": {"1": 1}, "2": {"2": 1}}
    assert modalities(load("mixbench:MSCOCO,corpus", tmp_path)) == dict.fromkeys("123", "image+text")
    assert load("mixbench", tmp_path / "MSCOCO").documents == read.documents
    with pytest.raises(BadInput, match="choose one, as in mixbench:MSCOCO"):
        load("mixbench", tmp_path)


def test_mixbench_is_read_as_tables_with_the_pictures_inside(tmp_path: Path) -> None:
    mixbench(tmp_path)
    folder = tmp_path / "MSCOCO"
    for name in ("queries", "mixed_corpus"):
        (folder / f"{name}.jsonl").unlink()
    shutil.rmtree(folder / "images")
    picture = {"bytes": PNG, "path": "2.jpg"}
    write_table(
        folder / "queries.parquet",
        [{"id": "1", "text": "a cat", "image": None}, {"id": "2", "text": "?", "image": picture}],
    )
    corpus: list[dict[str, Any]] = [{"id": "1", "text": "a cat sits", "image": None}]
    corpus += [{"id": "2", "text": None, "image": picture}]
    write_table(folder / "mixed_corpus.parquet", corpus)
    read = load("mixbench:MSCOCO", tmp_path)
    assert modalities(read) == {"1": "text", "2": "image"}
    assert read.documents[1].image == PNG
    assert [question.query.modality for question in read.questions] == ["text", "image+text"]


def test_beir_joins_titles_and_takes_references_from_train(mini: Callable[[str], Benchmark], tmp_path: Path) -> None:
    read = mini("beir")
    assert [document.text for document in read.documents] == ['Cats sit "here"', "A bus."]
    assert read.qrels == {"q1": {"d1": 2, "d2": 0}}
    assert read.references == [(Query("question 2"), "d2"), (Query("question 3"), None)]
    assert load(f"beir:{tmp_path.name}", tmp_path.parent).documents == read.documents
    assert set(asked(load("beir:train", tmp_path))) == {"q2", "q3"}


def test_mmqa_asks_text_and_image_questions_of_every_paragraph_and_picture(
    mini: Callable[[str], Benchmark], tmp_path: Path
) -> None:
    read = mini("mmqa")
    assert asked(read) == {"q1": ("q1?", "TextQ"), "q2": ("q2?", "ImageQ")}
    assert read.qrels == {"q1": {"t1": 1}, "q2": {"i1": 1}}
    assert read.documents[1].image == tmp_path / "final_dataset_images/Taipei.jpg"
    assert read.references == [(Query("q5?"), ("i1",))]
    for path in tmp_path.glob("*.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    assert load("mmqa", tmp_path).documents == read.documents


def test_webqa_asks_the_val_split_among_the_facts_of_all_questions(
    mini: Callable[[str], Benchmark], tmp_path: Path
) -> None:
    read = mini("webqa")
    images = {"30000001": "image", "30000002": "image"}
    assert modalities(read) == {"s_1": "text", "s_2": "text", "s_8": "text", "s_9": "text"} | images
    assert asked(read) == {"a": ("Which?", "TextQ"), "b": ("Which?", "ImageQ")}
    assert read.qrels == {"a": {"s_1": 1}, "b": {"30000001": 1, "30000002": 1}}
    assert read.references == [(Query("Which?"), ("s_9", "s_8"))]
    smaller = load("webqa:val", tmp_path)
    assert modalities(smaller) == {"s_1": "text", "s_2": "text"} | images
    assert (smaller.qrels, smaller.references) == (read.qrels, [(Query("Which?"), None)])
    assert modalities(load("webqa:captions", tmp_path))["30000001"] == "image+text"
    shutil.move(tmp_path / "images", tmp_path / "imgs.tsv")
    with pytest.raises(BadInput, match="pictures as files"):
        load("webqa", tmp_path)


@pytest.mark.parametrize(("name", "folder"), [("coco", "val2014"), ("flickr30k", "flickr30k-images")])
def test_karpathys_test_split_has_five_captions_a_photo(
    name: str, folder: str, mini: Callable[[str], Benchmark], tmp_path: Path
) -> None:
    read = mini(name)
    assert read.documents == [Document(f"{n}.jpg", image=tmp_path / folder / f"{n}.jpg") for n in (1, 2)]
    assert Counter(right for judged in read.qrels.values() for right in judged) == {"1.jpg": 5, "2.jpg": 5}
    assert read.questions[0].query == Query("caption 1.0")
    assert read.references[0] == (Query("caption 3.0"), "3.jpg")
    assert [document.id for document in read.reference_documents] == ["3.jpg"]
    back = load(f"{name}:to-texts", tmp_path)
    assert set(modalities(back).values()) == {"text"}
    assert back.qrels["1.jpg"] == {f"1.jpg#{n}": 1 for n in range(5)}
    assert back.questions[0].query.modality == "image"


@pytest.mark.parametrize("name", ["coco", "flickr30k"])
def test_a_fifth_of_karpathys_training_split_may_be_the_references(
    name: str, mini: Callable[[str], Benchmark], tmp_path: Path
) -> None:
    usual = mini(name)
    held = json.loads((tmp_path / f"dataset_{name}.json").read_text())
    for number in range(18):  # beside the two that are there
        split = "restval" if name == "coco" and number % 2 else "train"
        said = [{"raw": f"caption {number}.{n}"} for n in range(5)]
        held["images"].append({"filename": f"t{number}.jpg", "split": split, "sentences": said})
    (tmp_path / f"dataset_{name}.json").write_text(json.dumps(held))
    read = load(f"{name}:train", tmp_path)
    assert (read.documents, read.qrels) == (usual.documents, usual.qrels)
    chosen = [document.id for document in read.reference_documents]
    train = {image["filename"] for image in held["images"] if image["split"] in ("train", "restval")}
    assert len(chosen) == 4
    assert set(chosen) < train
    assert [source for _, source in read.references] == [one for one in chosen for _ in range(5)]
    back = load(f"{name}:to-texts,train", tmp_path)
    assert [query.image.name for query, _ in back.references if isinstance(query.image, Path)] == chosen
    with pytest.raises(UnknownName, match="Did you mean 'train'"):
        load(f"{name}:to-texts,trian", tmp_path)


def test_flickr8k_takes_the_small_copies_too(mini: Callable[[str], Benchmark], tmp_path: Path) -> None:
    read = mini("flickr8k")
    assert [document.image for document in read.documents] == [tmp_path / f"img224/{n}_a.webp" for n in (0, 1)]
    assert read.qrels["1_a.jpg#4"] == {"1_a.jpg": 1}
    assert len(read.questions) == 10
    assert [document.id for document in read.reference_documents] == ["2_a.jpg", "3_a.jpg", "4_a.jpg"]
    write(tmp_path / "Flicker8k_Dataset/0_a.jpg", PNG)
    assert load("flickr8k", tmp_path).documents[0].image == tmp_path / "Flicker8k_Dataset/0_a.jpg"


def test_flickr8k_mix_calibrates_on_the_dev_split_mixed_alike(mini: Callable[[str], Benchmark]) -> None:
    read = mini("flickr8k-mix")
    assert modalities(read) == {"f0": "text", "f1": "image", "f2": "image+text"}
    assert read.qrels == {f"q{n}": {f"f{n}": 1} for n in range(3)}
    assert [document.modality for document in read.reference_documents] == ["text", "image", "image+text"]
    assert read.reference_documents[0].text == "caption 0 of 2_a.jpg ."
    assert len(read.references) == 12
    assert read.references[0] == (Query("caption 1 of 2_a.jpg ."), "2_a.jpg")


def test_docvqa_pages_are_whole_or_apart(mini: Callable[[str], Benchmark], tmp_path: Path) -> None:
    read = mini("docvqa")
    assert modalities(read) == {"aa_1": "image+text", "bb_2": "image"}
    assert read.qrels == {"1": {"aa_1": 1}, "2": {"bb_2": 1}, "3": {"aa_1": 1}}
    assert read.documents[0].image == tmp_path / "documents/aa_1.png"
    apart = load("docvqa:apart", tmp_path)
    assert modalities(apart) == {"aa_1": "image", "bb_2": "image", "aa_1#text": "text"}
    assert apart.qrels["1"] == {"aa_1": 1, "aa_1#text": 1}
    assert len(load("docvqa:mixed", tmp_path).documents) == 2
    held = load("docvqa:held-out", tmp_path)
    assert ([page.id for page in held.documents], set(held.qrels)) == (["bb_2"], {"2"})
    assert [page.id for page in held.reference_documents] == ["aa_1"]
    assert held.references == [(Query("What 1?"), "aa_1"), (Query("What 3?"), "aa_1")]
    (tmp_path / "page_text.json").unlink()
    assert set(modalities(load("docvqa:images", tmp_path)).values()) == {"image"}


def test_mr_right_asks_three_questions_of_a_document(mini: Callable[[str], Benchmark], tmp_path: Path) -> None:
    read = mini("mr-right")
    assert modalities(read) == {"0": "image+text", "1": "text"}
    assert read.documents[0].image == tmp_path / "images/0.jpg"
    assert {question.kind: question.query.text for question in read.questions} == {
        "text-related": "a river",
        "image-related": "a blue river",
        "mixed": "a blue river of France",
    }
    assert all(judged == {"1": 1} for judged in read.qrels.values())
    assert [source for _, source in read.references] == ["0"] * 3 + [None] * 3
    assert [query.text for query, _ in load("mr-right:pretrain", tmp_path).references] == ["made", "drawn"]
    (tmp_path / "multimodal_finetune_pairs.json").unlink()
    assert len(load("mr-right", tmp_path).references) == 3


def test_m_beir_asks_the_whole_pool_or_a_tasks_own(mini: Callable[[str], Benchmark], tmp_path: Path) -> None:
    read = mini("m-beir")
    assert modalities(read) == {"9:1": "image", "9:2": "text", "3:1": "image+text"}
    assert asked(read) == {"edis_task2/3:7": ("a cat", "edis_task2"), "mscoco_task0/9:1": ("a cat", "mscoco_task0")}
    assert read.qrels == {"edis_task2/3:7": {"3:1": 1}, "mscoco_task0/9:1": {"9:1": 1, "9:2": 1}}
    assert read.questions[0].query.image == tmp_path / "mbeir_images/q.jpg"
    assert [query.text for query, _ in read.references] == ["a tram"]
    assert set(modalities(load("m-beir:mscoco_task0", tmp_path))) == {"9:1", "9:2"}
    assert set(modalities(load("m-beir:edis_task2", tmp_path))) == {"3:1"}
    assert len(load("m-beir:edis_task2,global", tmp_path).documents) == 3
    with pytest.raises(BadInput, match="mbeir_nonsense_test_cand_pool"):
        load("m-beir:nonsense", tmp_path)


def test_mm_bright_has_four_tasks_in_domains(mini: Callable[[str], Benchmark], tmp_path: Path) -> None:
    read = mini("mm-bright")
    gold, picture = "biology/fec40b40_1635_4.txt", "biology/biology_fec40b40_0002/image_1.webp"
    assert read.domains == {"biology/0": "biology", "law/0": "law"}
    assert set(modalities(read).values()) == {"text"}
    assert read.qrels["biology/0"] == {gold: 1}
    assert read.questions[0].query == Query(parts=[Text("why?"), Image(b"question"), Image(b"more")])
    assert read.documents[0].metadata == {"domain": "biology"}
    words = load("mm-bright:task1,biology", tmp_path)
    assert (len(words.documents), words.questions[0].query) == (2, Query("why?"))
    images = load("mm-bright:task3", tmp_path)
    assert images.documents[0] == Document(picture, image=b"answer", metadata={"domain": "biology"})
    assert images.qrels["biology/0"] == {picture: 1}
    pairs = load("mm-bright:task4,biology", tmp_path)
    assert sorted(modalities(pairs).values()) == ["image+text", "text", "text"]
    assert pairs.qrels == {"biology/0": {gold: 1, f"{gold}|||{picture}": 2}}
    with pytest.raises(UnknownName, match="Did you mean 'biology'"):
        load("mm-bright:biologie", tmp_path)


def test_mm_brights_excluded_documents_are_never_ranked(mini: Callable[[str], Benchmark], tmp_path: Path) -> None:
    read = mini("mm-bright:task1")
    wrong = "biology/0000ffff_1.txt"
    assert read.excluded["biology/0"] == {wrong}
    corpus = encoded(read, encoders.load("mini"))
    for found in (ranked(corpus, fit(corpus, "none")), alone(corpus)):
        assert wrong not in found["biology/0"]
        assert wrong in found["law/0"]
    pairs = load("mm-bright:task4,biology", tmp_path)
    assert pairs.excluded == {"biology/0": {wrong}}
    assert load("mm-bright:task3", tmp_path).excluded == {"biology/0": frozenset(), "law/0": frozenset()}


def test_mm_bright_is_searched_domain_by_domain_unless_it_is_together(tmp_path: Path) -> None:
    mm_bright(tmp_path)
    assert expand("mm-bright", tmp_path) == ["mm-bright:biology", "mm-bright:law"]
    assert expand("mm-bright:task1", tmp_path) == ["mm-bright:task1,biology", "mm-bright:task1,law"]
    assert expand("mm-bright:task1,law", tmp_path) == ["mm-bright:task1,law"]
    assert expand("mm-bright:together", tmp_path) == ["mm-bright:together"]
    assert len(load("mm-bright:together", tmp_path).documents) == 4
    given = ["evaluate", "mm-bright:task1", "--data", str(tmp_path), "--calibration", "none", "--align", "forge-mini"]
    done = CliRunner().invoke(app, given, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "mm-bright:task1,law: " in done.stderr
    assert "of 1 queries aligned" in done.stderr
    for said in ("mm-bright:task1,biology, mini", "mm-bright:task1,law, mini", "mean of mm-bright:task1"):
        assert said in done.stdout


def test_an_aligned_benchmark_asks_what_the_aligner_makes_of_its_queries() -> None:
    class Shouting:
        name = "shouting"

        def align(self, queries: Sequence[Query]) -> list[Aligned]:
            return [Aligned(Query((query.text or "").upper())) for query in queries]

    documents, asked = [Document("a", "a cat")], [Question("q", Query("cat", "cat.png"), "kind")]
    read = Benchmark("one", documents, asked, {"q": {"a": 1}}, [(Query("pets"), "a")])
    made = aligned(read, Shouting())
    assert made.benchmark.questions == [Question("q", Query("CAT"), "kind")]
    assert made.benchmark.references == [(Query("PETS"), "a")]
    assert made.summary == "1 of 1 queries aligned"


def test_a_mixtures_slice_is_the_questions_modality_and_that_of_its_best_documents(
    mini: Callable[[str], Benchmark], tmp_path: Path
) -> None:
    read = mini("mixtures:pages")
    kinds = {question.id: question.kind for question in read.questions}
    assert kinds == {"q0": "text → several", "q1": "image → image", "q2": "image+text → image+text"}
    assert read.questions[1].query.image == tmp_path / "pages/images/a.webp"


def test_mixtures_are_loaded_one_by_one_and_their_names_stand_for_several(tmp_path: Path) -> None:
    mixtures(tmp_path)
    assert expand("mixtures", tmp_path) == ["mixtures:pages", "mixtures:photos-dev"]
    assert expand("mixtures:dev", tmp_path) == ["mixtures:photos-dev"]
    assert expand("mixtures:held-out", tmp_path) == ["mixtures:pages"]
    with pytest.raises(BadInput, match="Choose one mixture: mixtures:pages, mixtures:photos-dev"):
        load("mixtures", tmp_path)


def test_every_right_document_of_a_reference_query_is_a_pair() -> None:
    documents = [Document("a", "a cat"), Document("b", "a dog"), Document("c", "a tram")]
    references = [(Query("pets"), ("c", "a")), (Query("nothing"), None), (Query("dogs"), "b")]
    read = Benchmark("three", documents, [Question("q", Query("cat"))], {"q": {"a": 1}}, references)
    assert encoded(read, encoders.load("mini")).references.sources == [(0, 2), (0, 0), (2, 1)]
    with pytest.raises(BadInput, match="'z'"):
        replace(read, references=[(Query("pets"), ("a", "z"))])


def test_the_gallery_of_dbnorm_is_the_documents_of_the_other_split_or_the_bank() -> None:
    encoder = encoders.load("mini")
    searched, others = [Document("a", "a cat"), Document("b", "a dog")], [Document("c", "a tram")]
    asked_for = [Question("q", Query("cat"))], {"q": {"a": 1}}
    split = encoded(Benchmark("split", searched, *asked_for, [(Query("tram"), "c")], others), encoder, gallery=True)
    assert split.references.gallery is not None
    expected = encoder.encode_documents(others).parts["text"]
    np.testing.assert_allclose(split.references.gallery.parts["text"], expected, atol=1e-6)
    alone = Benchmark("alone", searched, *asked_for)
    bank = encoded(alone, encoder, gallery=True).references.gallery
    assert bank is not None
    assert len(bank) == len(bank_vectors(encoder, limit=SHIPPED_QUERIES))
    assert encoded(alone, encoder).references.gallery is None
