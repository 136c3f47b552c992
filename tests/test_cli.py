"""The command line: verbs, their output for people and for machines, and exit codes."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from isthmus import Collection, Document, Query, __version__, calibration, encoders
from isthmus.calibration import Spec, Tuned
from isthmus.calibration.tune import Trial
from isthmus.cli import app
from isthmus.cli.index import because
from isthmus.cli.options import conditions, references, weights
from isthmus.errors import BadInput, UnknownName
from isthmus.search import versions
from isthmus.search.probability import Match
from tiny import write_encoder

run = CliRunner().invoke


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"onnx:{write_encoder(tmp_path_factory.mktemp('cli') / 'tiny')}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Some notes and pictures, one of them with a caption; and a file that nobody reads."""
    root = tmp_path / "mine"
    root.mkdir()
    for name, text in {"cat.txt": "a cat sits on the red sofa", "dog.md": "the dog runs", "tree.txt": "a tree"}.items():
        (root / name).write_text(text)
    for seed, name in enumerate(["a.png", "b.png", "c.png"]):
        pixels = np.random.default_rng(seed).integers(0, 255, (12, 12, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(root / name)
    (root / "b.txt").write_text("a red house")
    return root


@pytest.fixture
def things(folder: Path, encoder: str, tmp_path: Path) -> str:
    place = str(tmp_path / "things.isthmus")
    done = run(app, ["index", str(folder), "--into", place, "--encoder", encoder])
    assert done.exit_code == 0, done.output
    return place


def asked(*arguments: str) -> Any:
    done = run(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_index_says_what_it_did_and_a_second_run_does_nothing(folder: Path, encoder: str, tmp_path: Path) -> None:
    place = str(tmp_path / "x.isthmus")
    first = run(app, ["index", str(folder), "--into", place, "--encoder", encoder])
    assert "6 added" in first.stdout
    assert "Calibration:" in first.stdout
    again = asked("index", str(folder), "--into", place)
    assert (again["added"], again["unchanged"], again["removed"], again["documents"]) == (0, 6, 0, 6)
    (folder / "tree.txt").unlink()
    (folder / "dog.md").write_text("the dog sits")
    after = asked("index", str(folder), "--into", place)
    assert (after["added"], after["updated"], after["removed"]) == (0, 1, 1)


def test_what_is_skipped_is_listed_and_the_exit_code_is_3(folder: Path, encoder: str, tmp_path: Path) -> None:
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    (folder / "film.swf").write_bytes(b"film")
    done = run(app, ["index", str(folder), "--into", str(tmp_path / "x.isthmus"), "--encoder", encoder])
    assert done.exit_code == 3
    assert "2 skipped" in done.stderr
    assert "broken.png" in done.stderr
    assert "film.swf" in done.stderr
    told = asked("stats", "--in", str(tmp_path / "x.isthmus"))
    assert sorted(Path(place).name for place, _ in told["skipped"]) == ["broken.png", "film.swf"]


def test_search_finds_and_prints_a_line_per_hit(things: str) -> None:
    done = run(app, ["search", "cat sofa", "--in", things, "-k", "3"])
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    assert lines[0].split()[0] == "1"
    found = asked("search", "cat sofa", "--in", things, "-k", "3")
    assert [hit["rank"] for hit in found] == [1, 2, 3]
    assert {"id", "score", "similarity", "probability", "modality", "text", "image", "metadata"} <= set(found[0])


def test_search_asks_with_a_picture_with_both_and_with_filters(things: str, folder: Path) -> None:
    by_image = asked("search", "--image", str(folder / "a.png"), "--in", things, "--calibration", "none")
    assert by_image[0]["id"] == "a.png"
    assert by_image[0]["similarity"] == pytest.approx(1.0, abs=1e-4)
    both = asked("search", "cat", "--image", str(folder / "a.png"), "--weights", "image=9,text=0", "--in", things)
    alone = asked("search", "--image", str(folder / "a.png"), "--in", things)
    assert {hit["id"] for hit in both} == {hit["id"] for hit in alone}
    pictures = asked("search", "cat", "--in", things, "--where", "type=png", "--where", "bytes>0")
    assert {hit["id"] for hit in pictures} == {"a.png", "b.png", "c.png"}
    assert {hit["modality"] for hit in asked("search", "cat", "--in", things, "--modality=-text")} == {
        "image",
        "image+text",
    }


def test_explain_says_how_each_score_came_about(things: str) -> None:
    done = run(app, ["search", "cat", "--in", things, "--explain", "-k", "2"])
    assert done.stdout.count("by raw similarity") == 2
    hit = asked("search", "cat", "--in", things, "--explain", "-k", "1")[0]
    told = hit["explanation"]
    rebuilt = told["slope"] * (told["similarity"] + told["shift"] - told["bias"]) + told["offset"]
    assert rebuilt == pytest.approx(hit["score"], abs=1e-4)


def test_calibrate_changes_what_is_served_and_takes_ones_own_queries(things: str, tmp_path: Path) -> None:
    mine = tmp_path / "queries.txt"
    mine.write_text('a red cat\n{"query": "dog", "id": "dog.md"}\n')
    told = asked("calibrate", "center", "--in", things, "--queries", str(mine))
    assert told["spec"] == "center"
    assert asked("stats", "--in", things)["calibration"]["spec"] == "center"
    assert "center" in run(app, ["calibrate", "center", "--in", things]).stdout


def test_delete_takes_out_by_id_and_by_metadata_and_names_what_is_not_there(things: str) -> None:
    assert asked("delete", "cat.txt", "--in", things) == {"deleted": 1, "unknown": []}
    assert asked("delete", "--where", "type=png", "--in", things)["deleted"] == 3
    done = run(app, ["delete", "nobody", "--in", things])
    assert done.exit_code == 3
    assert "No document has the id 'nobody'." in done.stderr
    with Collection.open(things) as left:
        assert sorted(left.ids()) == ["dog.md", "tree.txt"]


def test_export_writes_documents_that_can_be_indexed_and_vectors_for_any_engine(things: str, tmp_path: Path) -> None:
    for name in ("all.jsonl", "all.npz", "all.calibration"):
        assert run(app, ["export", "--in", things, "--to", str(tmp_path / name)]).exit_code == 0
    rows = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert len(rows) == 6
    with np.load(tmp_path / "all.npz") as saved, Collection.open(things) as there:
        assert sorted(saved["id"].tolist()) == sorted(there.ids())
        assert len(saved["vectors"]) == len(saved["modality"]) == 6
    assert run(app, ["export", "--in", things, "--to", str(tmp_path / "all.xyz")]).exit_code == 2


def test_an_export_that_fails_leaves_the_last_one(things: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Document) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    export = ["export", "--in", things, "--to", str(tmp_path / "all.jsonl")]
    assert run(app, export).exit_code == 0
    before = (tmp_path / "all.jsonl").read_bytes()
    monkeypatch.setattr("isthmus.cli.search._row", full)
    assert "No space left" in str(run(app, export).exception)
    assert [path.name for path in tmp_path.glob("*all.jsonl*")] == ["all.jsonl"]
    assert (tmp_path / "all.jsonl").read_bytes() == before


def test_export_writes_one_index_for_one_query_modality(things: str, tmp_path: Path) -> None:
    one = ["--layout", "one", "--queries", "text"]
    assert run(app, ["export", "--in", things, "--to", str(tmp_path / "one.npz"), *one]).exit_code == 0
    assert run(app, ["export", "--in", things, "--to", str(tmp_path / "all.npz")]).exit_code == 0
    with np.load(tmp_path / "one.npz") as saved, np.load(tmp_path / "all.npz") as split:
        assert saved["id"].tolist() == split["id"].tolist()
        assert saved["vectors"].shape[1] != split["vectors"].shape[1]
    done = run(app, ["export", "--in", things, "--to", str(tmp_path / "one.jsonl"), *one])
    assert done.exit_code == 2
    assert "NAME.npz" in done.stderr


def test_stats_and_doctor_read_every_byte_on_request(things: str) -> None:
    assert "no damage found" in run(app, ["stats", "--in", things, "--verify"]).stdout
    done = run(app, ["doctor", "--in", things])
    assert done.exit_code == 0, done.output
    assert "collection" in done.stdout
    damaged = next(Path(things, "index").glob("*/0.vectors"))
    damaged.write_bytes(damaged.read_bytes()[::-1])
    assert run(app, ["stats", "--in", things, "--verify"]).exit_code == 1
    assert all({"name", "good", "said"} <= set(one) for one in json.loads(run(app, ["doctor", "--json"]).stdout))


def test_exit_codes_tell_failure_from_wrong_usage(things: str, tmp_path: Path) -> None:
    def code(*arguments: str) -> int:
        command = [sys.executable, "-c", "from isthmus.cli import main; main()", *arguments]
        return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode

    assert code("search", "cat", "--in", str(tmp_path / "nowhere")) == 1
    assert code("search", "cat", "--in", things, "--no-such-option") == 2
    assert code("calibrate", "centre", "--in", things) == 2
    assert code("search", "cat", "--in", things) == 0


def test_an_option_can_come_from_the_environment(things: str) -> None:
    environment = {"ISTHMUS_COLLECTION": things, "ISTHMUS_SEARCH_K": "2"}
    done = run(app, ["search", "cat", "--json"], env=environment)
    assert len(json.loads(done.stdout)) == 2


def test_conditions_are_read_as_people_write_them() -> None:
    assert conditions([]) is None
    assert conditions(["year=2000"]) == {"and": [{"year": {"in": [2000, "2000"]}}]}
    assert conditions(["lang!=en"]) == {"and": [{"lang": {"not": ["en"]}}]}
    assert conditions(["title=Infinity"]) == {"and": [{"title": {"in": ["Infinity"]}}]}
    assert conditions(['{"or": [{"a": 1}, {"b": 2}]}']) == {"and": [{"or": [{"a": 1}, {"b": 2}]}]}
    with pytest.raises(Exception, match="cannot be read"):
        conditions(["nonsense"])
    with pytest.raises(Exception, match="cannot be read"):
        weights("text")
    with pytest.raises(Exception, match="cannot be read"):
        references(Path("/no/such/file"))


def test_every_verb_explains_itself() -> None:
    for verb in (
        "index",
        "search",
        "calibrate",
        "backup",
        "restore",
        "compact",
        "demo",
        "reencode",
        "stats",
        "diagnose",
        "evaluate",
        "export",
        "export-encoder",
        "delete",
        "doctor",
        "serve",
        "train",
    ):
        done = run(app, [verb, "--help"])
        assert done.exit_code == 0
        assert "--help" in done.stdout


def test_an_id_with_a_line_break_stays_on_its_line(folder: Path, encoder: str, tmp_path: Path) -> None:
    (folder / "two\nlines.txt").write_text("a cat")
    place = str(tmp_path / "x.isthmus")
    run(app, ["index", str(folder), "--into", place, "--encoder", encoder])
    done = run(app, ["search", "cat", "--in", place])
    assert "two\\nlines.txt" in done.stdout
    assert len(done.stdout.splitlines()) == 7


def test_wrong_usage_is_told_from_failure_whatever_was_written(things: str, tmp_path: Path) -> None:
    wrong = [["-k", "0"], ["--offset", "-1"], ["--min-probability", "2"], ["--where", '{"not":' * 5000]]
    for options in wrong:
        done = run(app, ["search", "cat", "--in", things, *options])
        assert done.exit_code == 2, done.output
    assert "Give a query" in run(app, ["search", "--in", things]).stderr
    for place in ("~nobody-of-this-name/x", "a" * 300):
        with pytest.raises(BadInput):
            run(app, ["search", "cat", "--in", place], catch_exceptions=False)


def test_a_calibration_that_nobody_knows_is_refused_before_anything_is_read(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "new.isthmus"
    with pytest.raises(UnknownName, match="center"):
        run(app, ["index", str(folder), "--into", str(place), "--calibration", "centr"], catch_exceptions=False)
    assert not place.exists()


def test_stats_can_be_read_when_match_was_not_judged_and_a_part_is_new(encoder: str, tmp_path: Path) -> None:
    with Collection.open(tmp_path / "c", encoder, calibration="none", follow=False) as things:
        things.add([Document(f"{i}", text) for i, text in enumerate(["a red cat", "the dog runs", "a house"] * 8)])
        calibrated = things.calibrate("none")
        match = Match({}, {"text": {}})
        versions.publish(things.store.calibrations, replace(calibrated, match=match), "none")
    with Collection.open(tmp_path / "c", encoder, follow=False) as things:
        things.add([Document("p", image=np.zeros((8, 8, 3), np.uint8))])
    assert run(app, ["stats", "--in", str(tmp_path / "c")]).exit_code == 0
    told = run(app, ["stats", "--in", str(tmp_path / "c"), "--json"]).stdout
    assert "Infinity" not in told
    assert json.loads(told)["drift"] == {"text": 0.0, "image": None}


def test_exported_documents_are_read_again_with_their_pictures(encoder: str, tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"caf\xe9.png")
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(odd)
    with Collection.open(tmp_path / "c", encoder, calibration="none") as things:
        things.add([Document("kept", image=np.full((8, 8, 3), 9, np.uint8)), Document("odd", image=str(odd))])
        kept = things.get("kept").image
    done = run(app, ["export", "--in", str(tmp_path / "c"), "--to", str(tmp_path / "all.jsonl")])
    assert done.exit_code == 0, done.output
    with Collection.open(tmp_path / "again", encoder, calibration="none") as again:
        again.index(tmp_path / "all.jsonl")
        assert again.get("kept").image == kept


def test_words_need_no_quotes_and_the_snippet_is_where_they_stand(things: str, folder: Path) -> None:
    assert asked("search", "cat", "sofa", "--in", things) == asked("search", "cat sofa", "--in", things)
    (folder / "long.txt").write_text("dog runs. cat on red sofa.")
    asked("index", str(folder), "--into", things)
    done = run(app, ["search", "red sofa", "--in", things])
    line = next(line for line in done.stdout.splitlines() if "long.txt" in line)
    assert line.endswith("  cat on red sofa.")


def test_a_filter_that_nothing_passes_is_counted_by_condition(things: str) -> None:
    done = run(app, ["search", "cat", "--in", things, "--where", "type=png", "--where", "bytes<0", "--modality=-image"])
    assert (done.exit_code, done.stdout) == (0, "Nothing found.\n")
    assert done.stderr.splitlines() == [
        "No document passes the filter. Of 6 documents:",
        "  3 pass --where type=png",
        "  0 pass --where bytes<0",
        "  4 pass --modality=-image",
    ]
    beyond = run(app, ["search", "cat", "--in", things, "--offset", "6"])
    assert beyond.stderr == "--offset 6 skips all 6 documents.\n"


def test_one_document_is_not_called_documents(encoder: str, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("a cat")
    place = str(tmp_path / "c")
    assert (
        f"{place} holds 1 document.\n"
        in run(app, ["index", str(tmp_path / "one.txt"), "--into", place, "--encoder", encoder]).stdout
    )
    assert f"{place} holds 0 documents.\n" in run(app, ["delete", "one.txt", "--in", place]).stdout


def test_calibrate_prints_its_table_once_and_marks_what_is_kept(thirty: Path) -> None:
    with Collection.open(thirty, follow=False) as there:
        kept = there.calibrate("center")
        tuned = Tuned(
            (Trial(Spec.parse("none"), 0.5, {"text": 0.5}), Trial(Spec.parse("center"), 0.52, {"text": 0.52}))
        )
        stayed = replace(kept, fitted=replace(kept.fitted, spec=Spec.parse("none"), tuned=tuned))
    assert because(stayed) == " (nDCG@10 on held-out queries: 0.50; no calibration does better)"
    assert because(replace(stayed, fitted=replace(stayed.fitted, note="auto kept none"))) == " (auto kept none)"
    chosen = replace(stayed, fitted=replace(stayed.fitted, spec=Spec.parse("center")))
    assert because(chosen) == " (nDCG@10 on held-out queries: 0.52; raw cosine: 0.50)"
    marked = [line for line in stayed.fitted.describe().splitlines() if line.endswith("◂")]
    assert [line.split()[0] for line in marked] == ["none"]
    assert run(app, ["calibrate", "--in", str(thirty)]).stdout.count("held out") <= 1


def test_a_file_without_queries_is_refused(things: str, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n  \n")
    for verb in ("calibrate", "diagnose"):
        done = run(app, [verb, "--in", things, "--queries", str(tmp_path / "empty.txt")])
        assert done.exit_code == 2
        assert "has no queries. Write one query per line" in " ".join(done.stderr.split())


def test_queries_are_read_as_editors_and_programs_write_them(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    path.write_bytes('\ufeff{"query": "a\u2028cat", "id": null}\r\n{"query": "a dog", "id": 7}\r\n'.encode())
    assert references(path) == [Query(text="a\u2028cat"), (Query(text="a dog"), "7")]


def test_an_error_of_one_query_does_not_number_it(things: str, tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"no picture")
    done = run(app, ["search", "--image", str(tmp_path / "broken.png"), "--in", things])
    assert str(done.exception).startswith("the query")


def test_help_names_no_variable_that_does_not_exist_and_is_not_cut_at_a_full_stop() -> None:
    assert "ISTHMUS__" not in run(app, ["--help"]).stdout
    assert run(app, [], env={"ISTHMUS__": "1"}).stdout != f"{__version__}\n"
    assert "one vector for documents with text and image" in run(app, ["train", "--help"]).stdout


def test_a_name_that_no_document_has_is_said_when_nothing_is_found(things: str) -> None:
    done = run(app, ["search", "cat", "--in", things, "--where", "tpye=png"])
    assert "Nothing found" in done.stdout
    assert "No document has metadata called 'tpye'. Did you mean 'type'?" in done.stderr


def test_switching_the_log_leaves_the_calibration_alone(things: str) -> None:
    asked("calibrate", "center", "--in", things)
    before = asked("stats", "--in", things)["calibration"]["version"]
    assert "The query log is on." in run(app, ["calibrate", "--log-queries", "--in", things]).stderr
    assert asked("stats", "--in", things)["calibration"]["version"] == before
    assert asked("stats", "--in", things)["logged"] == 0


def test_the_version_is_said() -> None:
    assert run(app, ["--version"]).stdout.strip() == __version__


def test_a_program_that_forgets_to_close_ends_well(things: str, encoder: str) -> None:
    """A re-fit may be under way when the interpreter ends."""
    program = f"""
from isthmus import Collection, Document
things = Collection.open({things!r})
things.add([Document(str(n), "the house and the tree") for n in range(40)])
print(len(things.search("cat")))
"""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, timeout=60)
        assert (done.returncode, done.stdout.strip(), done.stderr) == (0, b"10", b"")


def test_evaluate_compares_calibrations_on_a_benchmark(encoder: str, tmp_path: Path) -> None:
    words = ["cat", "dog", "red sofa", "grass tree", "house", "runs"]
    lines = [
        json.dumps({"_id": f"d{n}", "title": "", "text": f"the {word} and the {word}"}) for n, word in enumerate(words)
    ]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    asked_for = [json.dumps({"_id": f"q{n}", "text": word}) for n, word in enumerate(words)]
    (tmp_path / "queries.jsonl").write_text("\n".join(asked_for))
    (tmp_path / "qrels").mkdir()
    judged = "".join(f"q{n}\td{n}\t1\n" for n in range(len(words)))
    (tmp_path / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    options = ["--data", str(tmp_path), "--encoder", encoder, "--calibration", "none,center+nnn(k=2,alpha=0.5),alone"]
    rows = asked("evaluate", "beir", *options, "--measure", "nDCG@10,R@1")
    assert {row["calibration"] for row in rows} == {"none", "center+nnn(k=2,alpha=0.5)", "alone"}
    assert set(rows[0]) == {"benchmark", "encoder", "calibration", "measure", "slice", "value", "low", "high"}
    assert all(row["low"] <= row["value"] <= row["high"] for row in rows)
    every = {row["calibration"] for row in asked("evaluate", "beir", *options[:4])}
    assert every >= {"none", "rrf", "center", "dn", "standardize", "nnn(k=16)", "qbnorm", "dbnorm", "auto", "alone"}
    shown = run(app, ["evaluate", "beir", *options, "--form", "markdown"])
    assert shown.exit_code == 0, shown.output
    assert "| none |" in shown.stdout
    asked_for += [json.dumps({"_id": f"r{n}", "text": f"the {word}"}) for n, word in enumerate(words)]
    (tmp_path / "queries.jsonl").write_text("\n".join(asked_for))
    train = "".join(f"r{n}\td{n}\t1\n" for n in range(len(words)))
    (tmp_path / "qrels/train.tsv").write_text("query-id\tcorpus-id\tscore\n" + train)
    options = ["--data", str(tmp_path), "--encoder", encoder, "--measure", "MRR@20,NDCG@20"]
    published = ["--calibration", "dbnorm,standardize", "--positives", "labelled", "--sources", "as-published"]
    rows = asked("evaluate", "beir", *options, *published)
    assert {row["measure"] for row in rows} == {"RR@20", "nDCG@20"}
    assert {row["calibration"] for row in rows} == {"dbnorm", "standardize"}
    wrong = run(app, ["evaluate", "beir", *options, "--positives", "labeled"])
    assert "Did you mean 'labelled'?" in str(wrong.exception)
    assert "encoding" not in wrong.output  # said before anything is encoded


def test_evaluate_takes_the_origin_of_means_and_the_weight_of_texts(encoder: str, tmp_path: Path) -> None:
    colours = {"cat": (255, 0, 0), "dog": (0, 255, 0), "house": (0, 0, 255)}
    lines = []
    for name, colour in colours.items():
        Image.new("RGB", (32, 32), colour).save(tmp_path / f"{name}.png")
        lines.append(json.dumps({"id": name, "text": f"the {name} and the {name}", "image": f"{name}.png"}))
    (tmp_path / "documents.jsonl").write_text("\n".join(lines))
    (tmp_path / "queries.jsonl").write_text("".join(f'{{"id": "{n}", "text": "{n}"}}\n' for n in colours))
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(f"{n}\t{n}\t1\n" for n in colours))
    command = ["evaluate", "mixtures:" + tmp_path.name, "--data", str(tmp_path.parent), "--encoder", encoder]
    command += ["--calibration", "none,center", "--quiet"]
    plain, half, text = (
        asked(*command, *more) for more in ([], ["--fusion", "0.5", "--means", "own"], ["--fusion", "1"])
    )
    assert plain == half
    assert [row["value"] for row in text if row["calibration"] == "none"] == [1.0] * 3  # the words alone decide
    towers = encoders.load(encoder)
    documents = towers.encode_documents([Document(name, f"a {name}", tmp_path / f"{name}.png") for name in colours])
    calibration.fit("center", documents, towers.encode_queries([Query(n) for n in colours])).save(tmp_path / "means")
    assert len(asked(*command, "--means", str(tmp_path / "means"))) == len(plain)
    for wrong, said in ((["--means", "mine"], "No origin of means"), (["--means", "train"], "training split")):
        refused = run(app, [*command, *wrong])
        assert refused.exit_code != 0
        assert said in str(refused.exception)


def test_evaluate_adds_the_means_of_several_mixtures(encoder: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "documents.jsonl").write_text('{"id": "c", "text": "the cat"}\n{"id": "d", "text": "the dog"}\n')
        (folder / "queries.jsonl").write_text('{"id": "q", "text": "cat"}\n')
        (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\tc\t1\n")
    rows = asked("evaluate", "mixtures", "--data", str(tmp_path), "--encoder", encoder, "--calibration", "none")
    assert {row["benchmark"] for row in rows} == {"mixtures:one", "mixtures:two", "mean of mixtures"}
    assert {row["slice"] for row in rows} == {"overall", "text", "text → text"}
    one, two, mean = (row["value"] for row in rows if row["slice"] == "overall")
    assert mean == (one + two) / 2


def test_the_package_runs_as_the_command_line() -> None:
    command = [sys.executable, "-m", "isthmus", "--version"]
    done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=60)
    assert done.stdout.strip() == __version__


def test_the_version_is_that_of_the_code_and_not_of_an_older_installation(tmp_path: Path) -> None:
    """An editable install keeps the metadata of the day it was made."""
    stale = tmp_path / "isthmus-0.0.1.dist-info"
    stale.mkdir()
    (stale / "METADATA").write_text("Metadata-Version: 2.1\nName: isthmus\nVersion: 0.0.1\n")
    program = f"""
import importlib.metadata
from typer.testing import CliRunner
from isthmus import Collection
from isthmus.cli import app
print(importlib.metadata.version("isthmus"))
print(CliRunner().invoke(app, ["--version"]).stdout.strip())
print(CliRunner().invoke(app, ["doctor"]).stdout.split(" on Python")[0].split()[-1])
with Collection.open({str(tmp_path / "things")!r}, encoder="none") as things:
    print(things.stats().encoder["made_with"])
"""
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        check=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.split() == ["0.0.1", __version__, __version__, __version__]
