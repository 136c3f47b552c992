"""The model of fusion: where it begins, what padding may not change, and what its shares add up to."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from isthmus.train.fusion.layers import Shape
from isthmus.train.fusion.matcher import alike
from isthmus.train.fusion.model import Fusion, TowerFeatures

SHAPE = Shape(dim=12, patch=10, heads=2, drop=0.0)
POOLS = ("kinds", "mean")


def made(pool: str, *, stirred: bool = True) -> Fusion:
    torch.manual_seed(0)
    model = Fusion(Shape(dim=12, patch=10, heads=2, drop=0.0, pool=pool)).eval()  # type: ignore[arg-type]
    if stirred:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def documents(n: int = 3, t: int = 5, p: int = 4) -> TowerFeatures:
    generator = torch.Generator().manual_seed(1)
    return TowerFeatures(
        torch.randn(n, t, 12, generator=generator),
        torch.ones(n, t, dtype=torch.bool),
        torch.rand(n, p, 10, generator=generator),
        torch.ones(n, p, dtype=torch.bool),
        F.normalize(torch.randn(n, 12, generator=generator), dim=1),
    )


def padded(seen: TowerFeatures, text: int, patches: int) -> TowerFeatures:
    """Fill up with tokens and patches that are not there, and hold what they like."""
    return TowerFeatures(
        F.pad(seen.text, (0, 0, 0, text), value=7.0),
        F.pad(seen.text_mask, (0, text)),
        F.pad(seen.patches, (0, 0, 0, patches), value=-3.0),
        F.pad(seen.patch_mask, (0, patches)),
        seen.image,
    )


def test_training_begins_from_the_towers_own_vectors_side_by_side() -> None:
    seen = documents()
    fused = made("kinds", stirred=False).document(seen)
    text = F.normalize(seen.text.mean(dim=1), dim=1)
    expected = torch.cat([text, seen.image], dim=1) / 2**0.5
    assert torch.allclose(fused.vectors, expected, atol=1e-6)


def test_a_query_begins_as_the_towers_vector_on_each_side() -> None:
    words, mask = documents().text, torch.ones(3, 5, dtype=torch.bool)
    query_sides = made("kinds", stirred=False).query(words, mask, words[:, :2], mask[:, :2])
    text, image = (F.normalize(some.mean(dim=1), dim=1) for some in (words, words[:, :2]))
    assert torch.allclose(query_sides.vectors, torch.cat([text, image], dim=1) / 2**0.5, atol=1e-6)


def test_a_side_without_words_leaves_the_other_half_of_documents_out_of_it() -> None:
    model, words = made("kinds"), documents().text
    mask = torch.ones(3, 5, dtype=torch.bool)
    query_sides = model.query(words, mask, words[:, :1], torch.zeros(3, 1, dtype=torch.bool)).vectors
    assert torch.all(query_sides[:, 12:] == 0)
    assert torch.allclose(query_sides.norm(dim=1), torch.ones(3))


@pytest.mark.parametrize("pool", POOLS)
def test_padding_never_changes_what_is_pooled(pool: str) -> None:
    model, seen = made(pool), documents()
    alone, filled = model.document(seen), model.document(padded(seen, 6, 3))
    assert torch.allclose(alone.vectors, filled.vectors, atol=1e-5)
    assert torch.all(model.document.shares(filled)[:, 5:11].abs() < 1e-7)  # what is not there has no share
    sides = model.query.sides
    mask = torch.ones(3, 5, dtype=torch.bool)
    long = F.pad(seen.text, (0, 0, 0, 4), value=9.0), F.pad(mask, (0, 4))
    short, longer = model.query(*(seen.text, mask) * sides), model.query(*long * sides)
    assert torch.allclose(short.vectors, longer.vectors, atol=1e-5)
    parted, longer_parted = model.chooser(seen.text, mask), model.chooser(*long)
    assert torch.allclose(parted, longer_parted[:, :5], atol=1e-5)
    similarity = torch.zeros(3, sides)
    one = model.matcher(alone.tokens, alone.masks, similarity, *(seen.text, mask) * sides)
    other = model.matcher(filled.tokens, filled.masks, similarity, *long * sides)
    assert torch.allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("pool", POOLS)
def test_the_shares_of_tokens_add_up_to_the_vector(pool: str) -> None:
    model, seen = made(pool), documents()
    fused = model.document(seen)
    assert torch.allclose(model.document.shares(fused).sum(dim=1), fused.vectors, atol=1e-6)
    mask = torch.ones(3, 5, dtype=torch.bool)
    query_sides = model.query(*(seen.text, mask) * model.query.sides)
    assert torch.allclose(query_sides.shares.sum(dim=1), query_sides.vectors, atol=1e-6)


@pytest.mark.parametrize("pool", POOLS)
def test_a_document_with_one_part_has_a_vector(pool: str) -> None:
    model, seen = made(pool), documents()
    nothing = torch.zeros_like(seen.patch_mask)
    text = model.document(seen._replace(patch_mask=nothing)).vectors
    other = documents()._replace(patches=seen.patches + 1, image=-seen.image, patch_mask=nothing)
    assert torch.allclose(text, model.document(other).vectors, atol=1e-6)  # whatever a picture that is not there holds
    image = model.document(seen._replace(text_mask=torch.zeros_like(seen.text_mask))).vectors
    if pool == "kinds":
        bare = made(pool, stirred=False)
        (one, other), whole = (
            bare.document(seen._replace(patch_mask=nothing)).vectors.chunk(2, dim=1),
            bare.document(seen),
        )
        assert torch.allclose(one, other, atol=1e-6)  # it answers whatever is asked
        assert torch.allclose(one, whole.vectors[:, :12], atol=1e-6)
    for vectors in (text, image):
        assert torch.allclose(vectors.norm(dim=1), torch.ones(3), atol=1e-5)


def test_the_matcher_begins_as_similarity_and_nearest_tokens_of_the_kind_that_is_asked_for() -> None:
    model, seen = made("kinds", stirred=False), documents()
    fused, mask = model.document(seen), torch.ones(3, 5, dtype=torch.bool)
    nothing = seen.text[:, :1], mask[:, :1] & False
    words = model.matcher.late(0, seen.text, mask, fused.tokens, fused.masks[:, 0])
    assert torch.allclose(words, torch.ones(3), atol=1e-5)  # every word is there
    similarity = torch.tensor([0.5, 0.25]).expand(3, 2)
    about_text = model.matcher(fused.tokens, fused.masks, similarity, seen.text, mask, *nothing)
    assert torch.allclose(about_text, 20 * 0.5 + 40 * words, atol=1e-4)
    patches = model.matcher.late(1, seen.text, mask, fused.tokens, fused.masks[:, 1])
    about_both = model.matcher(fused.tokens, fused.masks, similarity, *(seen.text, mask) * 2)
    assert torch.allclose(about_both, 20 * 0.5 + 40 * words + 40 * 0.25 + 40 * patches, atol=1e-4)


def test_similarities_of_sides_add_up_to_the_similarity() -> None:
    one, other = torch.randn(2, 3, 8)
    assert torch.allclose(alike(one, other, 2).sum(dim=1), (one * other).sum(dim=1), atol=1e-6)
    assert alike(one, other, 1).shape == (3, 1)


def test_the_mean_of_a_pictures_patches_is_its_vector_whatever_the_map() -> None:
    model, seen = made("kinds"), documents()
    image = model.document(seen)
    shaken = model.document(seen._replace(patches=seen.patches + 5.0))  # what all cells share says nothing of places
    bare = made("kinds", stirred=False)
    torch.nn.init.normal_(bare.document.patch.weight)
    tokens = bare.document(seen).tokens[:, seen.text.shape[1] :]
    assert torch.allclose(tokens.mean(dim=1), seen.image, atol=1e-5)
    assert tokens.std(dim=1).min() > 0.01
    assert torch.allclose(image.vectors, shaken.vectors, atol=1e-4)


def test_the_order_of_documents_in_a_batch_changes_nothing() -> None:
    model, seen = made("kinds"), documents()
    turned = TowerFeatures(*(part.flip(0) for part in seen))
    assert torch.allclose(model.document(seen).vectors.flip(0), model.document(turned).vectors, atol=1e-6)
