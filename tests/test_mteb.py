"""isthmus inside mteb, and mteb's models inside isthmus. No network: tasks and models are made here."""

from __future__ import annotations

import runpy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("mteb", reason="mteb brings 365 MB: make test-all installs it and runs these")

import datasets
import mteb
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.sts import AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.cache import ResultCache
from mteb.models import EncoderProtocol, ModelMeta, SearchEncoderWrapper, SearchProtocol
from mteb.models.search_encoder_index.search_indexes.faiss_search_index import FaissSearchIndex

from isthmus import Collection, Document, Query, calibration, encoders
from isthmus.encoders.images import LONGEST
from isthmus.encoders.mteb import wrap
from isthmus.errors import BadFile, BadInput
from isthmus.evaluate import Corpus, References, compare
from isthmus.evaluate.mteb import MtebModel, apart
from isthmus.evaluate.mteb_rows import rows_of
from sample_files import check_collection, few_files
from tiny import LENGTH, WORDS, write_sentence_transformer

CALIBRATIONS = ["none", "center", "rrf", "zscore", "auto", "center+nnn(k=4)+standardize", "qbnorm(dynamic=true)"]
ROOT = Path(__file__).parent.parent
RNG = np.random.default_rng(11)
REFERENCES: list[Query | str] = [" ".join(RNG.choice(WORDS, 3, replace=False)) for _ in range(30)]


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        pytest.fail("the network was touched")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)


def picture(seed: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (9, 7, 3), dtype=np.uint8))


def words(seed: int, count: int = 5) -> str:
    return " ".join(np.random.default_rng(seed).choice(WORDS, count, replace=False))


def metadata(name: str, category: str, kind: str = "Any2AnyRetrieval", main: str = "ndcg_at_10") -> TaskMetadata:
    letters = {"t": "text", "i": "image"}
    return TaskMetadata(
        name=name,
        description="Made for a test.",
        dataset={"path": "isthmus/test", "revision": "1"},
        type=kind,
        category=category,
        modalities=sorted({letters[letter] for letter in category if letter in letters}),
        eval_langs=["eng-Latn"],
        main_score=main,
    )


def table(items: Sequence[Document] | Mapping[str, Query]) -> datasets.Dataset:
    """Write documents or queries as mteb's datasets have them, with None where a part is missing."""
    named = items.items() if isinstance(items, Mapping) else [(item.id, item) for item in items]
    rows: list[tuple[str, Any]] = list(named)
    columns: dict[str, list[Any]] = {"id": [name for name, _ in rows]}
    for part in ("text", "image"):
        if any(getattr(item, part) is not None for _, item in rows):
            columns[part] = [getattr(item, part) for _, item in rows]
    return datasets.Dataset.from_dict(columns)


def retrieval(
    category: str,
    documents: Sequence[Document],
    queries: Mapping[str, Query],
    qrels: Mapping[str, Mapping[str, int]],
    top_ranked: Mapping[str, list[str]] | None = None,
) -> AbsTaskRetrieval:
    """A retrieval task whose data are given, not downloaded."""

    class Task(AbsTaskRetrieval):  # type: ignore[misc]
        def load_data(self, *_: Any, **__: Any) -> None:
            split = {
                "corpus": table(documents),
                "queries": table(queries),
                "relevant_docs": {name: dict(judged) for name, judged in qrels.items()},
                "top_ranked": top_ranked,
            }
            self.dataset = {"default": {"test": split}}
            self.data_loaded = True

    Task.metadata = metadata(f"Isthmus{category.upper()}", category)
    return Task()


class World:
    """Documents and queries of one category, and judgements in two grades."""

    def __init__(self, category: str, count: int = 40, asked: int = 12) -> None:
        self.category = category
        query, document = category.split("2")
        kinds = [document] if len(document) == 1 else ["t", "i", "it"]
        self.documents = [
            Document(f"d{n}", *self._parts(kinds[n % len(kinds)], n, 9 if n % 4 else 3 * LENGTH)) for n in range(count)
        ]
        self.queries = {f"q{n}": Query(*self._parts(query, 1000 + n, 3)) for n in range(asked)}
        rng = np.random.default_rng(5)
        self.qrels = {
            name: {f"d{row}": 1 + grade % 2 for grade, row in enumerate(rng.choice(count, 3, replace=False))}
            for name in self.queries
        }

    @staticmethod
    def _parts(kinds: str, seed: int, length: int) -> tuple[str | None, Image.Image | None]:
        text = " ".join(words(seed + shift, 9) for shift in range(0, length, 9)) if "t" in kinds else None
        return text if text is None or length > 3 else words(seed, 3), picture(seed) if "i" in kinds else None

    def task(self, top_ranked: Mapping[str, list[str]] | None = None) -> AbsTaskRetrieval:
        return retrieval(self.category, self.documents, self.queries, self.qrels, top_ranked)

    def ours(self, encoder: Any, spec: str, references: Sequence[Query | str]) -> float:
        """nDCG@10 by isthmus.evaluate, from the same documents, queries and judgements."""
        vectors, owner = encoder.encode_passages(self.documents)
        corpus = Corpus(
            document_ids=[document.id for document in self.documents],
            documents=vectors,
            owner=owner,
            query_ids=list(self.queries),
            queries=encoder.encode_queries(list(self.queries.values())),
            qrels=self.qrels,
            references=References(queries=encoder.encode_queries(references)),
        )
        return next(row.value for row in compare(corpus, [spec], ["nDCG@10"], resamples=10) if row.slice == "overall")


def references(category: str) -> list[Query | str]:
    asked = category.split("2")[0]
    return REFERENCES if asked == "t" else [Query(*World._parts(asked, 5000 + n, 3)) for n in range(20)]


def scores(model: Any, task: Any, folder: Path) -> dict[str, Any]:
    done = mteb.evaluate(model, task, cache=ResultCache(folder), show_progress_bar=False)
    return dict(done.task_results[0].scores["test"][0])


@pytest.mark.parametrize("spec", CALIBRATIONS)
@pytest.mark.parametrize("category", ["t2t", "t2it"])
def test_mteb_reports_the_ndcg_that_isthmus_computes(tiny: str, tmp_path: Path, category: str, spec: str) -> None:
    world = World(category)
    model = MtebModel(tiny, spec, references=REFERENCES)
    found = scores(model, world.task(), tmp_path)
    assert found["ndcg_at_10"] == pytest.approx(world.ours(model.encoder, spec, REFERENCES), abs=1e-4)
    assert 0 < found["ndcg_at_10"] < 1


@pytest.mark.parametrize("category", ["t2i", "i2t", "it2it", "i2i"])
def test_words_and_pictures_and_both_ask_for_either(tiny: str, tmp_path: Path, category: str) -> None:
    world, spec = World(category), "center+nnn(k=4)"
    model = MtebModel(tiny, spec, references=references(category))
    found = scores(model, world.task(), tmp_path)["ndcg_at_10"]
    assert found == pytest.approx(world.ours(model.encoder, spec, references(category)), abs=1e-4)


def test_a_calibration_changes_what_mteb_sees_and_is_filed_apart(tiny: str, tmp_path: Path) -> None:
    world = World("t2it")
    found = [
        scores(MtebModel(tiny, spec, references=REFERENCES), world.task(), tmp_path)["ndcg_at_10"]
        for spec in ("none", "standardize")
    ]
    assert found[0] != found[1]
    assert len(list(tmp_path.rglob("IsthmusT2IT.json"))) == 2
    again = MtebModel(tiny, "standardize", references=REFERENCES)
    again.index = None  # type: ignore[method-assign, assignment]
    assert scores(again, world.task(), tmp_path)["ndcg_at_10"] == found[1]  # from mteb's cache


def test_the_revision_changes_with_everything_that_a_score_depends_on(tiny: str) -> None:
    def revision(*args: Any, **named: Any) -> str:
        return str(MtebModel(*args, **named).mteb_model_meta.revision)

    seen = [
        revision(tiny),
        revision(tiny, "nnn(k=4)"),
        revision(tiny, "nnn(k=8)"),
        revision(tiny, "nnn(k=4)", references=REFERENCES),
        revision(tiny, "nnn(k=4)", references=REFERENCES[:9]),
        revision(tiny, "nnn(k=4)", references=[Query(image=picture(1))]),
        revision(tiny, "nnn(k=4)", references=[Query(image=picture(2))]),
    ]
    assert len(set(seen)) == len(seen)
    assert revision(tiny, "nnn(k=4)", references=REFERENCES) == seen[3]
    meta = MtebModel(tiny, "center").mteb_model_meta
    assert meta.name == "isthmus/tiny-image+text center"
    assert meta.modalities == ["image", "text"]


def test_the_built_in_bank_stands_in_for_references(tiny: str, tmp_path: Path) -> None:
    assert 0 < scores(MtebModel(tiny, "center"), World("i2t").task(), tmp_path)["ndcg_at_10"] < 1
    with pytest.raises(BadInput, match="There are no reference queries"):
        MtebModel(tiny, "center", references=[])


def test_reranking_ranks_the_given_documents_alone(tiny: str, tmp_path: Path) -> None:
    world = World("t2t")
    few = {name: [f"d{row}" for row in range(7)] for name in world.queries}
    model = MtebModel(tiny, "center", references=REFERENCES)
    kept: dict[str, dict[str, float]] = {}
    search = model.search

    def watched(*args: Any, **named: Any) -> dict[str, dict[str, float]]:
        kept.update(search(*args, **named))
        return kept

    model.search = watched  # type: ignore[method-assign]
    scores(model, world.task(few), tmp_path)
    assert {name: set(hits) for name, hits in kept.items()} == {name: set(few[name]) for name in few}


def test_empty_documents_and_queries_are_left_out_with_a_warning_and_count_as_nothing(
    tiny: str, tmp_path: Path
) -> None:
    world = World("t2t", count=12, asked=4)
    whole = scores(MtebModel(tiny), world.task(), tmp_path / "whole")["ndcg_at_10"]
    task = world.task()
    task.load_data()
    split = task.dataset["default"]["test"]
    empty = datasets.Dataset.from_dict({"id": ["empty"], "text": [" "]})
    split["corpus"] = datasets.concatenate_datasets([split["corpus"], empty])
    split["queries"] = datasets.concatenate_datasets([split["queries"], empty])
    split["relevant_docs"]["empty"] = {"d1": 1}
    with pytest.warns(UserWarning) as told:
        found = scores(MtebModel(tiny), task, tmp_path / "empty")["ndcg_at_10"]
    said = [str(warning.message) for warning in told]
    assert any("1 of 13 documents cannot be read" in each for each in said)
    assert any("1 of 5 queries cannot be read" in each for each in said)
    assert found == pytest.approx(whole * 4 / 5, abs=1e-4)


def test_titles_instructions_and_conversations_are_read_as_mteb_reads_them(tiny: str) -> None:
    batch: dict[str, list[Any]] = {
        "id": ["a", "b"],
        "title": ["Cats", ""],
        "text": ["purr", None],
        "instruction": [None, "Be brief."],
    }
    assert [row.text for row in rows_of(batch, ["text"])] == ["Cats purr", "Be brief."]
    turns: list[Any] = [[{"role": "user", "content": "a cat?"}, {"role": "assistant", "content": "a dog"}]]
    assert [row.text for row in rows_of({"text": turns}, ["text"])] == ["user: a cat?; assistant: a dog"]
    joined = {"title": ["a cat"], "body": ["sits"], "text": ["a cat sits"]}  # as mteb's loaders hand documents over
    named = {"task_metadata": metadata("Any", "t2t"), "prompt_type": mteb.types.PromptType.document}
    model = MtebModel(tiny)
    np.testing.assert_array_equal(model.encode([joined], **named), model.encode([{"text": ["a cat sits"]}], **named))
    assert [bool(row) for row in rows_of({"text": ["cat", " ", None]}, ["text"])] == [True, False, False]


def test_equal_scores_are_put_apart_in_their_order_and_others_stay() -> None:
    given = np.array([0.3, 0.3, 0.3, 1e-45, 0.0, 0.0, -0.1, -0.1, -7.0])
    made = apart(given)
    assert (np.diff(made.astype(np.float32)) < 0).all()
    np.testing.assert_allclose(made, given, atol=1e-6)
    np.testing.assert_array_equal(apart(np.array([2.0, 1.0, -1.0])), [2.0, 1.0, -1.0])


class Similar(AbsTaskSTS):  # type: ignore[misc]
    """Pairs of texts and how alike they are: a task without a corpus."""

    metadata = metadata("IsthmusSTS", "t2t", "STS", "cosine_spearman")

    def load_data(self, *_: Any, **__: Any) -> None:
        pairs = {"sentence1": [words(n) for n in range(8)], "sentence2": [words(n // 2) for n in range(8)]}
        self.dataset = {"test": datasets.Dataset.from_dict({**pairs, "score": [float(n % 5) for n in range(8)]})}
        self.data_loaded = True


def test_a_task_without_a_corpus_takes_plain_vectors_and_no_calibration(tiny: str, tmp_path: Path) -> None:
    model = MtebModel(tiny)
    assert isinstance(model, EncoderProtocol)
    assert isinstance(model, SearchProtocol)
    assert -1 <= scores(model, Similar(), tmp_path)["cosine_spearman"] <= 1
    made = model.encode([{"text": ["cat", " "]}, {"text": [""]}], task_metadata=Similar.metadata)
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), [1, 0, 0], atol=1e-6)
    with pytest.raises(BadInput, match=r"this task has none\. Run it with calibration='none'"):
        scores(MtebModel(tiny, "center"), Similar(), tmp_path)


@pytest.mark.parametrize("spec", ["center", "dn", "center+nnn(k=4)", "qbnorm"])
def test_mtebs_own_search_over_folded_vectors_ranks_as_ours(tiny: str, spec: str) -> None:
    world = World("t2i", count=60)
    encoder = encoders.load(tiny)
    fitted = calibration.fit(spec, encoder.encode_documents(world.documents), encoder.encode_queries(REFERENCES))
    model = MtebModel(encoder, fitted)
    named = {"task_metadata": world.task().metadata, "hf_split": "test", "hf_subset": "default", "num_proc": None}
    found = []
    by_faiss = SearchEncoderWrapper(model, index_backend=FaissSearchIndex(model))
    for searcher in (model, SearchEncoderWrapper(model, corpus_chunk_size=7), by_faiss):  # no need of a whole corpus
        searcher.index(table(world.documents), encode_kwargs={"show_progress_bar": False}, **named)
        found.append(
            searcher.search(table(world.queries), top_k=10, encode_kwargs={"show_progress_bar": False}, **named)
        )
    for name in world.queries:
        ours, *others = (sorted(run[name].items(), key=lambda hit: -hit[1]) for run in found)
        for theirs in others:
            assert [document for document, _ in ours] == [document for document, _ in theirs]
            np.testing.assert_allclose([s for _, s in ours], [s for _, s in theirs], atol=1e-5)


def test_what_is_more_than_a_dot_product_is_not_folded_for_mteb(tiny: str) -> None:
    world = World("t2it")
    encoder = encoders.load(tiny)
    fitted = calibration.fit(
        "standardize", encoder.encode_documents(world.documents), encoder.encode_queries(REFERENCES)
    )
    with pytest.raises(BadInput, match="'standardize' is more than a dot product"):
        MtebModel(encoder, fitted).encode(
            [{"text": ["cat"]}], task_metadata=world.task().metadata, prompt_type=mteb.types.PromptType.query
        )


class Random:
    """A model of mteb's protocol without torch: hashed words and mean colours through random tables."""

    def __init__(self, modalities: Sequence[str] = ("image", "text"), **changes: Any) -> None:
        self.mteb_model_meta = ModelMeta.create_empty(
            overwrites={"name": "tests/random", "revision": "1", "modalities": list(modalities), **changes}
        )
        self.seen: list[tuple[str, str, Any]] = []
        self.table = np.random.default_rng(3).normal(size=(256, 6))

    def encode(self, inputs: Any, *, task_metadata: Any, prompt_type: Any, **_: Any) -> Any:
        rows = []
        for batch in inputs:
            for text in batch.get("text", []):
                self.seen.append((task_metadata.type, prompt_type.value, text))
                rows.append(sum(self.table[sum(word.encode()) % 256] for word in f"{prompt_type.value} {text}".split()))
            for image in batch.get("image", []):
                self.seen.append((task_metadata.type, prompt_type.value, image.size))
                rows.append(np.asarray(image).mean(axis=(0, 1)) @ self.table[:3] + self.table[4])
        return np.array(rows)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        return embeddings1 @ embeddings2.T

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        return (embeddings1 * embeddings2).sum(axis=1)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sentence_transformer(tmp_path_factory.mktemp("mteb"))


def mixed(count: int = 24) -> Iterator[Document]:
    for n in range(count):
        yield Document(f"t{n}", text=words(n))
        yield Document(f"i{n}", image=picture(n))
        yield Document(f"b{n}", text=words(n + 100), image=picture(n + 100))


def test_a_model_of_mteb_encodes_what_sentence_transformers_does(saved: Path) -> None:
    theirs, ours = encoders.load(f"st:{saved}"), encoders.load(f"mteb:{saved}")
    long = " ".join(words(n) for n in range(9))
    assert ours.name == f"mteb:{saved}"
    assert (ours.dim, ours.modalities) == (theirs.dim, ("text",))
    assert ours.identity != theirs.identity  # the two may choose other prompts
    assert ours.split(long) == theirs.split(long)
    assert len(ours.split(long)) > 1
    texts = ["cat", long, "", "a dog on the grass"]
    given = [Document(str(n), text) for n, text in enumerate(texts) if text]
    for one, other in (
        (ours.encode_documents(given), theirs.encode_documents(given)),
        (ours.encode_queries(["cat", long]), theirs.encode_queries(["cat", long])),
        (ours.encode_passages(given)[0], theirs.encode_passages(given)[0]),
    ):
        np.testing.assert_allclose(one.parts["text"], other.parts["text"], atol=1e-6)
        np.testing.assert_allclose(np.linalg.norm(one.parts["text"], axis=1), 1, atol=1e-6)


def test_a_collection_remembers_the_model_and_loads_it_again(saved: Path, tmp_path: Path) -> None:
    with Collection.open(tmp_path / "things", encoder=f"mteb:{saved}") as things:
        things.add([Document(f"d{n}", text=words(n)) for n in range(30)])
        things.calibrate("center")
        before = [(hit.id, hit.score) for hit in things.search("a red cat", k=5)]
    with Collection.open(tmp_path / "things") as things:
        assert things.encoder is not None
        assert things.encoder.name == f"mteb:{saved}"
        assert [(hit.id, hit.score) for hit in things.search("a red cat", k=5)] == before


def test_files_of_the_sample_folder_are_indexed_calibrated_and_searched(saved: Path, tmp_path: Path) -> None:
    few = few_files(tmp_path / "few")
    check_collection(f"mteb:{saved}", few, tmp_path / "words", words_only=True)


def test_a_model_given_in_python_is_indexed_calibrated_and_searched(tmp_path: Path) -> None:
    with Collection.open(tmp_path / "things", encoder=wrap(Random())) as things:
        things.add(list(mixed()))
        things.calibrate("center")
        found = things.search("a red cat", k=20)
        assert {hit.modality for hit in found} == {"text", "image", "image+text"}
        pictures = things.search(Query(image=picture(3)), k=24, modalities=["image"])
        assert max(pictures, key=lambda hit: hit.similarity).id == "i3"
    with Collection.open(tmp_path / "things", encoder=wrap(Random())) as things:  # only its maker can load it
        assert [hit.id for hit in things.search("a red cat", k=20)] == [hit.id for hit in found]
    with pytest.raises(BadFile, match="another version of the encoder mteb:tests/random"):
        Collection.open(tmp_path / "things", encoder=wrap(Random(revision="2")))


def test_roles_tasks_and_whole_pictures_reach_the_model() -> None:
    model = Random()
    encoder = wrap(model, batch=2)
    assert repr(encoder) == "<Encoder mteb:tests/random, 6 dimensions: image, image+text, text>"
    assert repr(wrap(Random(["image"]))) == "<Encoder mteb:tests/random, 6 dimensions: image>"
    model.seen.clear()
    wide = np.zeros((20, 3000, 3), dtype=np.uint8)
    encoder.encode_documents([Document("a", "cat"), Document("b", image=wide), Document("c", image=wide[:, :50])])
    encoder.encode_queries(["dog"])
    assert model.seen == [
        ("Any2AnyRetrieval", "document", (LONGEST, 7)),
        ("Any2AnyRetrieval", "document", (50, 20)),
        ("Retrieval", "document", "cat"),
        ("Retrieval", "query", "dog"),
    ]


def test_a_text_longer_than_the_model_reads_is_split_by_bytes_where_its_tokenizer_is_not_known() -> None:
    encoder = wrap(Random(max_tokens=10))
    text = "a cat sat on the mat, and שלום עולם 猫猫猫猫猫猫猫猫猫猫猫 besides"
    places = encoder.split(text)
    assert "".join(text[start:end] for start, end in places) == text
    assert max(len(text[start:end].encode()) for start, end in places) <= 20
    assert text[: places[0][1]] == "a cat sat on the"
    assert wrap(Random()).split(text) == [(0, len(text))]  # it does not say how much it reads


def test_what_is_no_encoder_of_one_vector_is_refused() -> None:
    class Late(Random):
        def encode(self, inputs: Any, **named: Any) -> Any:
            return super().encode(inputs, **named)[:, None].repeat(2, axis=1)

    with pytest.raises(BadInput, match="not one row for each"):
        wrap(Late())
    with pytest.raises(BadInput, match="Use a dense model"):
        wrap(Random(model_type=["late-interaction"]))
    with pytest.raises(BadInput, match="reads audio; isthmus encodes texts and images"):
        wrap(Random(["audio"]))
    with pytest.raises(BadInput, match="A dict is not an mteb encoder"):
        wrap({})


def test_a_name_that_mteb_does_not_know_says_so_and_offline_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISTHMUS_OFFLINE", "1")
    with pytest.raises(BadFile, match="mteb reads HF_HUB_OFFLINE only"):
        encoders.load("mteb:nobody/no-such-model")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(BadFile, match="mteb cannot load 'nobody/no-such-model'"):
        encoders.load("mteb:nobody/no-such-model")


def test_the_example_runs_and_prints_what_the_docs_show() -> None:
    measured = runpy.run_path(str(ROOT / "examples/mteb_task.py"))["measured"]
    shown = (ROOT / "docs/evaluate.md").read_text().split("nDCG@10   R@10\n")[1].split("\n\n")[0].splitlines()
    rows = {spec: (float(ndcg), float(recall)) for spec, ndcg, recall in map(str.split, shown)}
    found = {spec: measures for spec, *measures in measured("mini", list(rows))}
    assert len(found) == 4
    for spec, measures in found.items():
        assert measures == pytest.approx(rows[spec], abs=0.005)  # another machine may round another way


def test_a_model_of_mteb_goes_back_into_mteb_with_a_calibration(saved: Path, tmp_path: Path) -> None:
    world = World("t2t")
    model = MtebModel(f"mteb:{saved}", "center", references=REFERENCES)
    found = scores(model, world.task(), tmp_path)["ndcg_at_10"]
    assert found == pytest.approx(world.ours(model.encoder, "center", REFERENCES), abs=1e-4)
