"""How many different parts and modalities one collection may hold.

Every part needs a mean, every modality an index of its own and a place in every calibration. A calibration takes
``isthmus.types.MAX_PARTS`` parts at once, those of its reference queries among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isthmus.errors import BadInput
from isthmus.storage.base import Piece
from isthmus.storage.protocols import Store

PARTS = 12  # different names of vectors: 'text', 'audio', 'image+text' …; leaves room for those of queries
MODALITIES = 64  # different sets of parts; a search visits an index for each


@dataclass(slots=True)
class Known:
    """The names that a collection holds, and those that a batch on its way in adds to them."""

    parts: set[str]
    modalities: set[str]

    @classmethod
    def of(cls, store: Store) -> Known:
        """Read what a collection holds."""
        return cls(store.parts(), store.modalities())

    def problem(self, name: str, pieces: Sequence[Piece]) -> BadInput | None:
        """Return why a document with these vectors cannot be added; otherwise count its names in."""
        parts = {piece.part for piece in pieces}
        modality = "+".join(sorted({atom for part in parts for atom in part.split("+")}))
        if not parts <= self.parts and len(parts | self.parts) > PARTS:
            new = ", ".join(sorted(parts - self.parts))
            return BadInput(
                f"document {name!r}: it brings new parts ({new}), and a collection holds vectors of at most {PARTS} "
                f"different parts. This one has {', '.join(sorted(self.parts))}. Use one of them, or another "
                "collection."
            )
        if modality not in self.modalities and len(self.modalities) >= MODALITIES:
            return BadInput(
                f"document {name!r}: it is the first with the parts {modality}, and a collection holds at most "
                f"{MODALITIES} different combinations of parts. Use one that is there, or another collection."
            )
        self.parts |= parts
        self.modalities.add(modality)
        return None
