"""A copy whose folded vectors, or whose original's, are on a server of vectors."""

from __future__ import annotations

from pathlib import Path

import pytest

import postgres_server
from copying import check_alike, fill, write_files
from isthmus import Collection
from isthmus.encoders import Encoder
from isthmus.search.published_index import PublishedIndex
from vector_servers import Places


@pytest.mark.parametrize(("here", "there"), [(True, False), (False, True), (True, True)])
def test_a_copy_from_or_to_a_server_of_vectors_holds_and_answers_the_same(
    here: bool, there: bool, tmp_path: Path, place: Places, encoder: Encoder
) -> None:
    files = write_files(tmp_path / "files")
    with Collection.open(tmp_path / "a", encoder, follow=False, vectors=place() if here else None) as things:
        fill(things, files)
        done = things.copy_to(tmp_path / "b", vectors=place() if there else None)
        assert done.documents == len(things)
        with Collection.open(tmp_path / "b", encoder, create=False, follow=False) as copy:
            for one, published in ((things, here), (copy, there)):
                kinds = {type(index) for index in one.snapshot().built}
                assert (kinds == {PublishedIndex}) == published
            check_alike(things, copy, files, encoder)


def test_documents_may_be_in_postgresql_and_their_vectors_on_a_server_of_vectors(
    tmp_path: Path, place: Places, encoder: Encoder
) -> None:
    files, url = write_files(tmp_path / "files"), postgres_server.server().collection()
    with Collection.open(tmp_path / "a", encoder, follow=False) as things:
        fill(things, files)
        assert things.copy_to(url, vectors=place()).documents == len(things)
        with Collection.open(url, encoder, create=False, follow=False) as copy:
            assert {type(index) for index in copy.snapshot().built} == {PublishedIndex}
            check_alike(things, copy, files, encoder)
