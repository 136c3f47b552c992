"""Change settings of a recipe by their names, as ``--set NAME=VALUE`` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from isthmus.errors import BadInput
from isthmus.registry import lookup

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Recipe = TypeVar("Recipe", bound="DataclassInstance")
KINDS: Mapping[str, Callable[[str], Any]] = {
    "int": int,
    "bool": lambda value: {"true": True, "false": False}[value.lower()],
    "tuple[float, ...]": lambda value: tuple(float(each) for each in value.split(",")),
}


def changed(recipe: Recipe, settings: Sequence[str]) -> Recipe:
    """Return the recipe with other settings, each written NAME=VALUE.

    >>> from isthmus.train.lens import LensRecipe
    >>> changed(LensRecipe(), ["batch=8", "shares=1"]).shares
    (1.0,)
    >>> changed(LensRecipe(), ["bacth=8"])
    Traceback (most recent call last):
    isthmus.errors.UnknownName: No setting of the recipe is called 'bacth'. Did you mean 'batch'?
    """
    kinds = {each.name: KINDS.get(str(each.type), float) for each in fields(recipe)}
    read: dict[str, Any] = {}
    for setting in settings:
        name, sign, value = (word.strip() for word in setting.partition("="))
        if not sign:
            raise BadInput(f"--set {setting!r} is not a setting. Write NAME=VALUE, as in {next(iter(kinds))}=8.")
        kind = lookup(kinds, name, "setting of the recipe")
        try:
            read[name] = kind(value)
        except (KeyError, ValueError):
            wanted = "true or false" if kind is KINDS["bool"] else "a number"
            raise BadInput(f"{name} must be {wanted}, not {value!r}.") from None
    return replace(recipe, **read)
